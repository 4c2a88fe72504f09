"""How long a client of several daemons goes on with a call while none of them answers."""

from __future__ import annotations

import math
import time
from typing import Final

from symd.errors import DeadlineExceeded, ServerUnavailable, SymdError, Unavailable

STRANGE_SECONDS: Final = 10.0
"""So long a client tries where no daemon has answered it yet: the address may be wrong."""
AWAY_SECONDS: Final = 30.0
"""So long where one has, and the call has no timeout: daemons come back, and a busy machine connects late."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class Patience:
    """A client's, for all of its calls: with ``several`` daemons it tries again, else never."""

    def __init__(self, *, several: bool) -> None:
        self.several = several
        self.was_answered = False

    def attempts(self, timeout: float | None) -> Attempts:
        """Those of a call that begins now."""
        return Attempts(self, timeout)


class Attempts:
    """The attempts of one call, one after another, for ``timeout`` seconds in all; None: as long as daemons are there."""

    def __init__(self, patience: Patience, timeout: float | None) -> None:
        self._patience = patience
        self._end = math.inf if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._since = 0.0
        self.lost = 0
        """How many failed since the last that a daemon answered."""

    def timeout(self) -> float | None:
        """What is left of the call's for the next attempt."""
        if self._timeout is None or not self.lost:
            return self._timeout
        return max(self._end - time.monotonic(), 0.0)

    def answered(self) -> None:
        """A daemon is there: those that are lost later count from the first."""
        self.lost = 0
        self._patience.was_answered = True

    def bear(self, error: SymdError, *, outlives: tuple[type[Unavailable], ...] = ()) -> float:
        """The seconds until the next attempt after one that failed with ``error``: the loss of a daemon, or one of ``outlives``. Raises it
        where there is no next."""
        if not isinstance(error, ServerUnavailable | DeadlineExceeded):
            self._patience.was_answered = True
        if not self._patience.several or not (_is_lost(error) or isinstance(error, outlives)):
            raise error
        now = time.monotonic()
        self._since = self._since if self.lost else now
        self.lost += 1
        pause = pause_seconds(self.lost)
        if now + pause >= self._until():
            raise error
        return pause

    def _until(self) -> float:
        """When the client gives up."""
        if not self._patience.was_answered:
            return min(self._end, self._since + STRANGE_SECONDS)
        return self._since + AWAY_SECONDS if self._timeout is None else self._end


def _is_lost(error: SymdError) -> bool:
    """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off elsewhere."""
    return isinstance(error, ServerUnavailable) or type(error) is Unavailable


def pause_seconds(lost: int) -> float:
    """How long to wait after so many attempts that failed in a row."""
    return min(_FIRST_PAUSE * 2.0 ** min(lost - 1, 10), _LONGEST_PAUSE)
