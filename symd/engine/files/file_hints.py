"""Hints about the file that a command was given: those that say FILE, as those give them who do not know what it is called, can be typed, and
one that was cut off on its way is told to be copied again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

from symd.errors import Malformed, SymdError

WHERE_CUT_OFF = "was the file cut off on its way? Copy or build it again"
_ENDS_EARLY = r"the file ends inside|past (the \w+'s )?\d"
"""How readers say that something would stand behind the end."""


@contextmanager
def hints_name(file: str) -> Iterator[None]:
    """Errors from here have ``file`` in the place of FILE behind a verb, unless that is standard input, which was read; those about its end
    say what to do."""
    try:
        yield
    except SymdError as error:
        if error.hint and file != "-":
            error.hint = _named(error.hint, file)
        elif isinstance(error, Malformed) and _ends_early(error.message):
            error.hint = WHERE_CUT_OFF
        raise


def _named(hint: str, file: str) -> str:

    return re.sub(r"(?<=\bsymd )([a-z]+) FILE\b", lambda found: f"{found[1]} {quote(file)}", hint)


def _ends_early(message: str) -> bool:

    return re.search(_ENDS_EARLY, message) is not None
