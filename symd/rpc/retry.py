"""What a client makes again itself, because gRPC does not (what it does, the service config says):

* A call that a daemon refused without looking at it (REFUSED_STREAM: its limit calls_per_connection), whatever it does,
  and of a daemon alone too. gRPC 1.85 sends such a call again only where the connection ends.
* A stream whose daemon of several was lost. gRPC begins none anew of which a message has come, and some that it does
  begin anew never end. An answer says the same whichever daemon gives it, so that what was told already is passed over;
  a watch goes on after its resume token."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Final

from symd.errors import CallRefused, ServerUnavailable, StoreUnavailable, SymdError, Unavailable
from symd.rpc.channel import PAUSES

WATCH_PAUSES: Final = (*PAUSES, 5.0, 5.0, 5.0, 5.0)
"""Seconds between the attempts of a watch, which outlives a store that is away for a moment, as a database is that is
started anew."""
REFUSALS: Final = 300
"""How often, in half a minute, a call without a timeout is sent again while a daemon refuses it unseen."""
_FIRST_REFUSED_PAUSE: Final = 0.005
_LONGEST_REFUSED_PAUSE: Final = 0.1
"""A call that has ended makes room for one that was refused: sooner than a daemon comes back."""
_STOOD_SECONDS: Final = 10.0
"""A watch that was open so long was not refused."""


class Attempts:
    """The attempts of one call, for ``timeout`` seconds in all; None: no end. ``pauses`` are those after which another
    one follows where the daemon was lost, none where gRPC sees to that or nobody may."""

    def __init__(self, timeout: float | None, pauses: tuple[float, ...] = (), *, is_watch: bool = False) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._pauses = pauses
        self._outlived = StoreUnavailable if is_watch else ServerUnavailable
        self._lost = self._refusals = 0

    def left(self) -> float | None:
        """The seconds that are left."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def answered(self) -> None:
        """A daemon is there: those that are lost later count from the first."""
        self._lost = self._refusals = 0

    def next_delay(self, error: SymdError) -> float:
        """The seconds until the next attempt after one that failed with ``error``. Raises it where there is no next."""
        if isinstance(error, CallRefused) and (self._end is not None or self._refusals < REFUSALS):
            pause = min(_FIRST_REFUSED_PAUSE * 2.0 ** min(self._refusals, 10), _LONGEST_REFUSED_PAUSE)
            self._refusals += 1
        elif self._is_lost(error) and self._lost < len(self._pauses):
            pause = self._pauses[self._lost]
            self._lost += 1
        else:
            raise error from None
        if self._end is not None and time.monotonic() + pause >= self._end:
            raise error from None
        return pause

    def _is_lost(self, error: SymdError) -> bool:
        """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off
        elsewhere."""
        return isinstance(error, (ServerUnavailable, self._outlived)) or type(error) is Unavailable


class OpenWatch:
    """The call of a watch and those that go on after it; the first is made at once. ``begin`` makes one after a resume
    token, which each message has; it is empty where the watch could not go on from: what was told since the last is
    told again then. ``end`` ends what the client says."""

    def __init__(self, begin: Callable[[str], Any], end: Callable[[], None], resume_token: str) -> None:
        self.is_cancelled = False
        self._begin, self._end, self._token = begin, end, resume_token
        self._since: set[bytes] = set()
        self._begun = time.monotonic()
        self._call = begin(resume_token)

    def cancel(self) -> None:
        """End it. From any thread."""
        self.is_cancelled = True
        self._end()
        self._call.cancel()

    def call(self) -> Any:
        """The call that goes on."""
        if self._call.done():
            self._begun = time.monotonic()
            self._call = self._begin(self._token)
        if self.is_cancelled:
            self._call.cancel()
        return self._call

    def is_new(self, message: Any) -> bool:
        """Whether the next message was not told yet."""
        if message.resume_token:
            self._token, self._since = message.resume_token, set()
            return True
        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
        if name in self._since:
            return False
        self._since.add(name)
        return True

    def stood(self) -> bool:
        """Whether the call was open so long that it had its daemon, though nothing happened that it could tell."""
        return time.monotonic() - self._begun >= _STOOD_SECONDS
