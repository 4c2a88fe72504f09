"""How long a client of several daemons goes on with a call while none of them answers, and how long one of them may say nothing.

Who has one daemon waits for it. Of several, one may have taken a call and never answer, because its disk or its database hangs: the call is
made at another then, and given twice the time at each, so that what takes long is not begun anew for ever."""

from __future__ import annotations

import math
import time
from typing import Final

from symd.errors import CallRefused, DeadlineExceeded, ServerUnavailable, SymdError, Unavailable

CONNECT_DEADLINE: Final = 10.0
"""So long a client tries where no daemon has answered it yet: the address may be wrong."""
RECONNECT_DEADLINE: Final = 30.0
"""So long where one has, and the call has no timeout: daemons come back, and a busy machine connects late."""
SILENT_SECONDS: Final = 40.0
"""So long the first daemon may say nothing: longer than most of what a daemon does is allowed to take (``question_seconds``)."""
SILENT_ATTEMPTS: Final = 4
"""So many daemons one after another may say nothing before the client gives up: ten minutes."""
REFUSED_SECONDS: Final = 30.0
"""So long a call without a timeout is sent again while a daemon refuses it unseen."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_FIRST_REFUSED_PAUSE: Final = 0.005
_LONGEST_REFUSED_PAUSE: Final = 0.1
"""A call that has ended makes room for one that was refused: sooner than a daemon comes back."""


class RetryPolicy:
    """A client's, for all of its calls: with ``several`` daemons it tries again, else never."""

    def __init__(self, *, several: bool) -> None:
        self.several = several
        self.was_answered = False

    def attempts(self, timeout: float | None, began: float | None = None) -> Attempts:
        """Those of a call that begins now, or began then."""
        return Attempts(self, timeout, time.monotonic() if began is None else began)


class Attempt:
    """One attempt of a call. ``timeout`` is what is left of the call's own, ``silence`` the seconds in which the daemon has to say something;
    None: no end."""

    def __init__(self, timeout: float | None, silence: float | None = None) -> None:
        self.timeout, self.silence = timeout, silence
        self.was_silent = False
        """The daemon said nothing for so long, and the attempt was ended."""
        self.began = time.monotonic()

    def seconds(self) -> float | None:
        """How long it may take where there is one answer to one message."""
        if self.silence is None or self.timeout is None:
            return self.timeout if self.silence is None else self.silence
        return min(self.timeout, self.silence)

    def ran_out(self) -> None:
        """The time of ``seconds`` is over, or the daemon says so."""
        ended_by_silence = self.silence is not None and self.seconds() == self.silence
        self.was_silent = ended_by_silence and time.monotonic() - self.began >= (self.silence or 0.0)


class Attempts:
    """The attempts of one call, one after another, for ``timeout`` seconds in all since it began; None: as long as daemons are there."""

    def __init__(self, patience: RetryPolicy, timeout: float | None, began: float) -> None:
        self._patience = patience
        self._end = math.inf if timeout is None else began + timeout
        self._timeout = timeout
        self._since = 0.0
        self._silences = 0
        self._refusals = 0
        self._refused_since = 0.0
        self._attempt = Attempt(timeout)
        self.lost = 0
        """How many failed since the last that a daemon answered."""

    def next(self) -> Attempt:
        """The next of them."""
        left = None if self._timeout is None else max(self._end - time.monotonic(), 0.0)
        self._attempt = Attempt(left, SILENT_SECONDS * 2.0**self._silences if self._patience.several else None)
        return self._attempt

    def answered(self) -> None:
        """A daemon is there: those that are lost later count from the first."""
        self.lost = self._silences = self._refusals = 0
        self._patience.was_answered = True

    def next_delay(self, error: SymdError, *, outlives: tuple[type[Unavailable], ...] = ()) -> float:
        """The seconds until the next attempt after one that failed with ``error``: the loss of a daemon, its refusal of a call that it has not
        looked at, or one of ``outlives``. Raises it where there is no next."""
        if self._attempt.was_silent:
            self._bear_silence(error)
            return 0.0
        if isinstance(error, CallRefused):
            return self._bear_refusal(error)
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

    def _bear_refusal(self, error: CallRefused) -> float:
        """As ``next_delay``, also where there is one daemon only."""
        now = time.monotonic()
        self._patience.was_answered = True
        self._refused_since = self._refused_since if self._refusals else now
        self._refusals += 1
        pause = pause_seconds(self._refusals, _FIRST_REFUSED_PAUSE, _LONGEST_REFUSED_PAUSE)
        end = self._refused_since + REFUSED_SECONDS if self._timeout is None else self._end
        if now + pause >= end:
            raise error
        return pause

    def _bear_silence(self, error: SymdError) -> None:
        self.lost = 0
        self._silences += 1
        if self._silences >= SILENT_ATTEMPTS:
            raise ServerUnavailable(
                f"{self._silences} times a daemon took the call and said nothing, the last time for {self._attempt.silence:g} s",
                where=error.where,
                hint="`symd health --server HOST:PORT` and the log of each daemon say what is wrong; a timeout of your own bounds a call",
            )

    def _until(self) -> float:
        """When the client gives up."""
        if not self._patience.was_answered:
            return min(self._end, self._since + CONNECT_DEADLINE)
        return self._since + RECONNECT_DEADLINE if self._timeout is None else self._end


def _is_lost(error: SymdError) -> bool:
    """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off elsewhere."""
    return isinstance(error, ServerUnavailable) or type(error) is Unavailable


def pause_seconds(failed: int, first: float = _FIRST_PAUSE, longest: float = _LONGEST_PAUSE) -> float:
    """How long to wait after so many attempts that failed in a row."""
    return min(first * 2.0 ** min(failed - 1, 10), longest)
