"""Breakpoints that wait: each module that arrives is asked for their lines, and what it answers is an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from symd.errors import BadQuery, LimitExceeded, ObjectNotFound
from symd.index import Index
from symd.query.breakpoints import Located, Refusal, SourceLine, locate
from symd.query.paths import PathRule

MOST = 10_000
"""Breakpoints in one watch."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A breakpoint that waits. ``id`` is the caller's own name for it; the rest is what ``locate`` takes."""

    id: str
    where: SourceLine
    every: bool = False
    path: str | None = None
    rules: tuple[PathRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the module ``digest`` answers to the breakpoint ``id``: places, or why there are none."""

    id: str
    digest: str
    answer: Located


@dataclass(frozen=True, slots=True)
class Watching:
    """The modules that were there are done; whatever is added from now on will be looked at."""


Event = Resolved | Watching


def check_breakpoints(breakpoints: Sequence[Breakpoint]) -> None:
    """Raises ``BadQuery`` when none is given or two have one id, ``LimitExceeded`` when there are too many."""
    if len(breakpoints) > MOST:
        raise LimitExceeded(f"{len(breakpoints)} breakpoints, at most {MOST} are watched", hint="open several watches")
    if not breakpoints:
        raise BadQuery("no breakpoint to watch", hint="give one or more")
    if len({each.id for each in breakpoints}) != len(breakpoints):
        raise BadQuery("two breakpoints have the same id", hint="give each its own")


def resolved(index: Index, digest: str, breakpoints: Sequence[Breakpoint]) -> Iterator[Resolved]:
    """The answers of one module that say something: a module without the file says nothing."""
    for each in breakpoints:
        try:
            answer = locate(index, each.where, each.path, every=each.every, rules=each.rules)
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)


class Watch(Iterator[Event]):
    """Events as they come. ``close`` ends it, from any thread; whoever waits in ``next`` then gets StopIteration."""

    def __init__(self, events: Iterator[Event], close: Callable[[], None]) -> None:
        self._events = events
        self._close = close

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
