"""Errors of a profile under the name that the user gave it: readers know bytes alone, and say "the profile"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from symd.errors import SymdError

_THE_PROFILE = re.compile(r"^the( [\w-]+)? profile\b")


@contextmanager
def naming_profile(source: str) -> Iterator[None]:
    """Raise errors about the profile with its file's name; ``source`` "-" is standard input."""
    try:
        yield
    except SymdError as error:
        name = "standard input" if source == "-" else source
        error.where = _THE_PROFILE.sub(lambda _: name, error.where)
        raise
