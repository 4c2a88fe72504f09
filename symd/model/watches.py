"""What a watch tells: what happens to modules (they are added, loaded, unloaded and removed) and what they answer to
breakpoints that wait, as events that come until somebody ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from symd.errors import SymdError
from symd.model.breakpoints import Breakpoint, Located, checked_breakpoints
from symd.model.contexts import LoadInContext
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord


@dataclass(frozen=True, slots=True)
class ModuleAdded:
    """The module came to the store, or was there when the watch began. ``record`` is None when it is gone again."""

    digest: Digest
    record: ModuleRecord | None = None
    resume_token: str = ""


@dataclass(frozen=True, slots=True)
class ModuleRemoved:
    """The module went from the store; what was loaded of it in contexts stays told. Of its breakpoints nothing more is
    told, so that places in its loads go with ``LoadEnded`` alone."""

    digest: Digest
    resume_token: str = ""


@dataclass(frozen=True, slots=True)
class LoadBegan:
    """A module was loaded in a context, or was there when the watch began; with its end where it has ended, which is
    told apart all the same. A module that moves is unloaded, and loaded under the same key."""

    loaded: LoadInContext
    resume_token: str = ""


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """The load, told without its segments, ended at its ``unload_time``. A load may end again, earlier than was
    known."""

    loaded: LoadInContext
    resume_token: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the module ``digest`` answers to the breakpoint ``id``: places, or why there are none. ``loaded`` is the
    load by which it came to a device, told without its segments; None: it was added, or was there."""

    id: str
    digest: Digest
    answer: Located
    loaded: LoadInContext | None = None
    resume_token: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PlacesGone:
    """The places of the breakpoint ``id`` in the module ``digest`` that the load ``unloaded``, told without its
    segments, had put where they were: it ended, or, where it is told without an end, another load began on top of
    them."""

    id: str
    digest: Digest
    answer: Located
    unloaded: LoadInContext
    resume_token: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Watching:
    """What was there is told, and what happened up to here; whatever comes from now on will be told."""

    resume_token: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ChangeAcknowledged:
    """Breakpoints with the ids ``added`` are watched from now on, and what is there is answered; those with the ids
    ``removed`` are not any more. With a ``failure`` nothing of the change was made, and that says why."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    resume_token: str = field(default="", compare=False)
    failure: SymdError | None = None


ModuleEvent = ModuleAdded | ModuleRemoved | LoadBegan | LoadEnded | Watching
"""What happens to modules, whatever breakpoints are."""

WatchEvent = ModuleEvent | Resolved | PlacesGone | ChangeAcknowledged
"""Each has the token after which a watch goes on that has dealt with it; "" while what was there is told, and where the
next event still belongs to the same happening."""


@dataclass(frozen=True, slots=True)
class BreakpointChange:
    """Breakpoints that come, and the ids of those that go; ``failure`` says why nothing of it can be made."""

    add: tuple[Breakpoint, ...] = ()
    remove: tuple[str, ...] = ()
    failure: SymdError | None = None


class _Changing:
    """A watch whose breakpoints change while it runs."""

    def __init__(self, change: Callable[[BreakpointChange], None], close: Callable[[], object]) -> None:
        self._change = change
        self._close = close

    def add(self, *breakpoints: Breakpoint) -> None:
        """Watch further breakpoints. It returns at once: what is there is answered, then ``ChangeAcknowledged`` comes.
        Raises ``BadQuery`` for what is no breakpoint. What the watch cannot add, as an id that it has, is acknowledged
        with a failure."""
        self._change(BreakpointChange(tuple(checked_breakpoints(breakpoints))))

    def remove(self, *ids: str) -> None:
        """Watch breakpoints no longer. It returns at once; after ``ChangeAcknowledged`` nothing comes of them. Ids that
        the watch does not have change nothing."""
        self._change(BreakpointChange((), ids))

    def close(self) -> None:
        """End it; whoever waits for an event comes to the end."""
        self._close()


class Watch(_Changing, Iterator[WatchEvent]):
    """Events as they come. ``close``, ``add`` and ``remove`` may be called from any thread; whoever waits in ``next``
    gets StopIteration when it is closed."""

    def __init__(
        self,
        events: Iterator[WatchEvent],
        change: Callable[[BreakpointChange], None],
        close: Callable[[], object],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(change, close)
        self._events = events
        self.wake = wake
        """Has it look for changes that came another way than by ``add`` and ``remove``."""

    def __next__(self) -> WatchEvent:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncWatch(_Changing):
    """Events as they come: ``async for``. ``close``, ``add`` and ``remove`` are called in the event loop. Also a
    context manager."""

    def __init__(
        self,
        events: AsyncIterator[WatchEvent],
        change: Callable[[BreakpointChange], None],
        close: Callable[[], object],
    ) -> None:
        super().__init__(change, close)
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
