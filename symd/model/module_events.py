"""What happens to modules: they are added, loaded, unloaded and removed.

Events that come until somebody ends them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar

from symd.model.contexts import LoadInContext
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord

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


class AsyncEventStream(Generic[E_co]):
    """Events as they come: ``async for``. ``close`` ends it; whoever waits then comes to the end. Also a context manager."""

    def __init__(self, events: AsyncIterator[E_co], close: Callable[[], object]) -> None:
        self._events = events
        self._close = close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E_co:
        return await anext(self._events)

    def close(self) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class ModuleAdded:
    """The module came to the store, or ("" as ``position``) was there when the watch began. ``record`` is None when it is gone
    again."""

    position: str
    digest: Digest
    record: ModuleRecord | None = None


@dataclass(frozen=True, slots=True)
class ModuleRemoved:
    """The module went from the store; what was loaded of it in contexts stays told."""

    position: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class LoadBegan:
    """A module was loaded in a context, or ("" as ``position``) was there when the watch began. The end of the load is another
    event, also where it is known already. A module that moves is unloaded, and loaded under the same key."""

    position: str
    loaded: LoadInContext


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """The load, told without its segments, ended at its ``unload_time``. A load may end again, earlier than was known."""

    position: str
    loaded: LoadInContext


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What was there is told, and what happened up to ``position``."""

    position: str


ModuleEvent = ModuleAdded | ModuleRemoved | LoadBegan | LoadEnded | CaughtUp
"""Each has the position after which a watch goes on that has heard of it; "" while what was there is told."""

ModuleWatch: TypeAlias = EventStream[ModuleEvent]
AsyncModuleWatch: TypeAlias = AsyncEventStream[ModuleEvent]
