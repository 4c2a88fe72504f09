"""Source lines as breakpoints: where they can go, why they cannot, and breakpoints that wait for modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import DeviceAddress, ObjectAddress, SectionOffset
from symd.model.contexts import AsyncEventStream, EventStream, LoadInContext
from symd.model.identities import Digest, ObjectPath
from symd.model.kinds import of_kind, several
from symd.model.sources import PathRule


class Refusal(IntEnum):
    """Why a source line has no address. The numbers travel on the wire."""

    NO_SUCH_FILE = 1
    """No file of the module ends with that path; candidates are files of that name in other folders."""
    AMBIGUOUS_FILE = 2
    """Several files do; they are the candidates."""
    NO_CODE_AT_LINE = 3
    """The file is known, and the line (with ``every_address``) or the whole file has no statement."""
    PAST_END = 4
    """The line lies after the last one that has a statement."""
    CONTRADICTORY = 5
    """The line has statements, and every one of them where the debug data contradicts itself."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file: ``file`` is a path or its last components, ``line`` counts from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_SOURCE_LINE = re.compile(r"(.+?):([0-9]{1,10})(?::[0-9]{1,10})?", re.ASCII | re.DOTALL)


def parse_source_line(text: str) -> SourceLine:
    """``FILE:LINE``, or ``FILE:LINE:COLUMN`` as frames are printed; the column is not used. Raises ``BadQuery``."""
    found = _SOURCE_LINE.fullmatch(text.strip())
    if not found or not 0 < int(found[2]) < 1 << 32:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise BadQuery(f"{shown!r} is no source line", hint="write FILE:LINE, such as vadd.cl:8")
    return SourceLine(found[1], int(found[2]))


@dataclass(frozen=True, slots=True)
class BreakpointLocation:
    """An address at which a source line begins. ``line`` is where it really is: that which was asked for, the one it
    slid to, or the first after the prologue of the function that the line opens. ``device_addresses`` are where a load put it,
    where one is meant that says so."""

    path: ObjectPath
    kernel: str | None
    function: str | None
    section: str | None
    section_index: int
    section_offset: SectionOffset
    address: ObjectAddress
    file: str
    line: int
    column: int
    inlined: bool
    slid: bool
    device_addresses: tuple[DeviceAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class Located:
    """The answer to one source line: ``locations`` by kernel and address, or a refusal. ``last_line`` is the last line of
    the file that has a statement, where a refusal knows it."""

    requested: SourceLine
    locations: tuple[BreakpointLocation, ...] = ()
    refusal: Refusal | None = None
    candidates: tuple[str, ...] = ()
    last_line: int | None = None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A breakpoint that waits. ``id`` is the caller's own name for it; the rest is what ``locate`` takes."""

    id: str
    where: SourceLine
    every_address: bool = False
    path: ObjectPath | None = None
    rules: tuple[PathRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the module ``digest`` answers to the breakpoint ``id``: places, or why there are none. ``loaded`` is the load by which
    it came to a device, told without its segments; None: it was added. ``position`` is where a watch goes on that has heard of it; "" while
    what was there is told, and where the next answer still belongs to the same module."""

    id: str
    digest: Digest
    answer: Located
    loaded: LoadInContext | None = None
    position: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Watching:
    """The modules that were there are done, and what happened up to ``position``; whatever is added from now on will be looked at."""

    position: str = field(default="", compare=False)


Event = Resolved | Watching


Watch: TypeAlias = EventStream[Event]
AsyncWatch: TypeAlias = AsyncEventStream[Event]

MAX_WATCHED = 10_000
"""Breakpoints in one watch."""


def checked_breakpoints(breakpoints: Iterable[Breakpoint]) -> Sequence[Breakpoint]:
    """Raises ``BadQuery`` when none is given or two have one id, ``LimitExceeded`` when there are too many."""
    hint = 'pass a list of Breakpoint("1", SourceLine("vadd.cl", 8)), of symd.model.breakpoints'
    breakpoints = [of_kind(each, Breakpoint, hint) for each in several(breakpoints, "breakpoints", hint)]
    if len(breakpoints) > MAX_WATCHED:
        raise LimitExceeded(
            f"{len(breakpoints)} breakpoints, at most {MAX_WATCHED} are watched", hint="open several watches"
        )
    if not breakpoints:
        raise BadQuery("no breakpoint to watch", hint="give one or more")
    if len({each.id for each in breakpoints}) != len(breakpoints):
        raise BadQuery("two breakpoints have the same id", hint="give each its own")
    return breakpoints
