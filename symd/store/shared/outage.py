"""A server that is gone: who asks while it is learns so at once, and one at a time finds out whether it is back."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

from symd.errors import StoreUnavailable, described, from_description

FAILURES: Final = 3
"""So many calls in a row that were not answered are an outage; fewer may be theirs alone."""
T = TypeVar("T")


class Unanswered(Exception):
    """A call to which nobody said anything; ``error`` tells it."""

    def __init__(self, error: StoreUnavailable) -> None:
        super().__init__(error.message)
        self.error = error


class Outage:
    """Of one server. In an outage a single call at a time is made, and the others end with the error of the last: else each would wait for
    as long as it may, with the thread that it has. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._last: StoreUnavailable | None = None
        self._trying = False

    def made(self, call: Callable[[], T]) -> T:
        """What ``call`` gives, which raises ``Unanswered`` where nobody answers; anything else it does is an answer."""
        tries = self._begun()
        try:
            result = call()
        except Unanswered as unanswered:
            self._ended(unanswered.error)
            raise
        except BaseException:
            self._ended(None)
            raise
        else:
            self._ended(None)
            return result
        finally:
            if tries:
                self._trying = False

    def _begun(self) -> bool:
        """Whether this call is the one that finds out; False where there is no outage. Raises the last error where another does."""
        with self._lock:
            if self._failures < FAILURES or self._last is None:
                return False
            if self._trying:
                raise from_description(described(self._last)) or self._last
            self._trying = True
            return True

    def _ended(self, error: StoreUnavailable | None) -> None:
        with self._lock:
            self._failures = self._failures + 1 if error else 0
            self._last = error
