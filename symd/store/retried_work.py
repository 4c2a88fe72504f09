"""Work that is done again and again: what it failed with is logged when that is new, or comes back after a success or another."""

from __future__ import annotations

import logging
from collections.abc import Callable

from symd.errors import SymdError

log = logging.getLogger("symd.store")


class RetriedWork:
    """What each work failed with last. Two threads may use it, each for work of its own."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def attempt(self, what: str, work: Callable[[], object]) -> str:
        """Do ``work``, or log why ``what`` it does could not be done: the next time may do. Why not, "" where it could."""
        try:
            work()
        except SymdError as error:
            if str(error) != self._last.get(what):
                log.warning("%s: %s", what, error)
            self._last[what] = str(error)
            return error.message
        self._last.pop(what, None)
        return ""
