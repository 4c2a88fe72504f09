"""Events that come until somebody ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

E_co = TypeVar("E_co", covariant=True)


class EventStream(Iterator[E_co], Generic[E_co]):
    """Events as they come. ``close`` ends it, from any thread; whoever waits in ``next`` then gets StopIteration."""

    def __init__(self, events: Iterator[E_co], close: Callable[[], None]) -> None:
        self._events = events
        self._close = close

    def __next__(self) -> E_co:
        return next(self._events)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
