"""Whether anybody waits for an answer: what a verb that may take long is given, and calls now and then. It raises when
nobody does any more."""


def never_cancelled() -> None:
    """``check_cancelled`` of whoever waits as long as it takes."""
