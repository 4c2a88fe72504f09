"""Whether anybody waits for an answer: what a verb that may take long is given, and calls now and then. It raises when nobody does any more."""


def always() -> None:
    """``check_wanted`` of whoever waits as long as it takes."""
