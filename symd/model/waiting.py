"""A check whether anybody still waits for an answer: verbs that may take long call it now and then, and it raises when
nobody does.
"""


def never_cancelled() -> None:
    """``check_cancelled`` of whoever waits as long as it takes."""
