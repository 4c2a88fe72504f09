"""Places for breakpoints: source lines, functions, kernels and queries; where they can go, and why they cannot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import ByDevice, DeviceAddress, ObjectAddress, Query, SectionOffset, parse_query
from symd.model.identities import Digest, ObjectPath
from symd.model.sources import PathRule
from symd.model.texts import of_kind, several


class Refusal(IntEnum):
    """Why a place has no address. The numbers travel on the wire."""

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
    NO_SUCH_FUNCTION = 6
    """No function, or no kernel, of that name has code here; candidates are names like it."""
    NO_SUCH_SECTION = 7
    """No text section has that name or number; candidates are those that there are."""
    OUTSIDE_TEXT = 8
    """No text section holds the address, or the offset lies behind the end of its section."""
    OTHER_TARGET = 9
    """No code object is for one of the targets; candidates are the targets that there are."""


SILENT = frozenset(
    (
        Refusal.NO_SUCH_FILE,
        Refusal.NO_SUCH_FUNCTION,
        Refusal.NO_SUCH_SECTION,
        Refusal.OUTSIDE_TEXT,
        Refusal.OTHER_TARGET,
    )
)
"""What a module that a place does not mean says: a watch passes it over."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file: ``file`` is a path or its last components, ``line`` counts from 1. ``column`` counts from 1
    too: what is there, or else at the next column of the line that has code, or else on the line; 0: the whole line."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class FunctionName:
    """Every function of that name, with or without namespaces and template arguments: where its own code begins, and
    each inlined copy of it, or each address range of the copy. Kernels are functions, too."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class KernelName:
    """Every kernel of that name."""

    name: str

    def __str__(self) -> str:
        return f"{_KERNEL}{self.name}"


LocationSpec = SourceLine | FunctionName | KernelName | Query | ByDevice
"""What a breakpoint is set at; at a device address it is asked for, and does not wait for code that comes."""

_KERNEL = "kernel:"
_SOURCE_LINE = re.compile(r"(.+?):([0-9]{1,10})(?::([0-9]{1,10}))?", re.ASCII | re.DOTALL)
_QUERY = re.compile(r"(.*\S\s*\+\s*)?(0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII | re.DOTALL)


_FILE = re.compile(r":.*|[^(<]*\.[A-Za-z]\w{0,4}(:([^:].*)?)?", re.ASCII | re.DOTALL)
"""What is meant as a source line and is none: functions have a dot and letters at their end only where compilers make
them up."""


def parse_source_line(text: str) -> SourceLine:
    """``FILE:LINE`` or ``FILE:LINE:COLUMN``. Raises ``BadQuery``."""
    found = _SOURCE_LINE.fullmatch(text.strip())
    if not found or not 0 < int(found[2]) < 1 << 32 or not int(found[3] or 0) < 1 << 32:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise BadQuery(
            f"{shown!r} is not a source line", hint=f"write {_line_meant(text) or 'FILE:LINE, such as vadd.cl:8'}"
        )
    return SourceLine(found[1], int(found[2]), int(found[3] or 0))


def _line_meant(text: str) -> str:
    """The source line of a range of lines, or as other tools write one; "" for anything else."""
    found = re.fullmatch(r"([^(<]+\.\w+)(?::|,|\(| line )\s*([1-9][0-9]{0,8})(?:[-,.):].*)?", text.strip(), re.ASCII)
    return f"{found[1]}:{found[2]}" if found else ""


def parse_place(text: str) -> LocationSpec:
    """``FILE:LINE``, ``FILE:LINE:COLUMN``, a query such as ``vadd+0x10``, ``kernel:NAME``, or else the name of a
    function. Raises ``BadQuery``."""
    text = text.strip()
    if _SOURCE_LINE.fullmatch(text):
        return parse_source_line(text)
    if _QUERY.fullmatch(text):
        return parse_query(text)
    if not text.removeprefix(_KERNEL):
        raise BadQuery("a place is empty", hint=PLACE_HINT)
    if _FILE.fullmatch(text) or _line_meant(text) or text.startswith(("/", "./", "../")):
        return parse_source_line(text)  # it says what is wrong
    if text.startswith("*") and _QUERY.fullmatch(text[1:]):  # as debuggers write an address
        raise BadQuery(f"{text!r} is not a place", hint=f"write {text[1:]}")
    return KernelName(text.removeprefix(_KERNEL)) if text.startswith(_KERNEL) else FunctionName(text)


PLACE_HINT = 'write "vadd.cl:8", "vadd.cl:8:5", the name of a function, "kernel:vadd", or a query such as "vadd+0x10" or "(.text)+0x40"'


@dataclass(frozen=True, slots=True)
class BreakpointLocation:
    """An address at which a breakpoint can stand. ``line`` is where it really is: that which was asked for, the one it
    slid to, or the first after the prologue of the function that begins there; 0 where that is unknown. ``slid`` says
    that the line, or the column, that was asked for has no code, and this is the next one. ``device_addresses`` are
    where a load put it, or the loads of a context, where these are meant and say so. ``possible_entry`` says that this
    is one of several address ranges of an inlined copy of a function, and the debug data does not say at which of them
    the copy is entered: a breakpoint at each of them stops there."""

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
    possible_entry: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """The answer to one place: ``locations`` by kernel and address, or a refusal. ``last_line`` is the last line of
    the file that has a statement, where a refusal knows it. ``module`` is what holds the device address that was
    asked."""

    requested: LocationSpec
    locations: tuple[BreakpointLocation, ...] = ()
    refusal: Refusal | None = None
    candidates: tuple[str, ...] = ()
    last_line: int | None = None
    module: Digest | None = None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A breakpoint that waits. ``id`` is the caller's own name for it; ``contexts`` are the ids of those in which alone
    it stands, none: all that are watched; the rest is what ``locate`` takes."""

    id: str
    where: LocationSpec
    every_address: bool = False
    path: ObjectPath | None = None
    rules: tuple[PathRule, ...] = ()
    targets: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()


MAX_WATCHED = 10_000
"""Breakpoints in one watch."""


def checked_breakpoints(breakpoints: Iterable[Breakpoint], known: Iterable[str] = ()) -> Sequence[Breakpoint]:
    """Breakpoints for a watch that has those with the ids ``known``. Raises ``BadQuery`` when two have one id, or one
    is at a device address, ``LimitExceeded`` when there are too many."""
    hint = 'pass a list of Breakpoint("1", SourceLine("vadd.cl", 8)), of symd.model.breakpoints'
    breakpoints = [of_kind(each, Breakpoint, hint) for each in several(breakpoints, "breakpoints", hint)]
    at_device = next((each.id for each in breakpoints if isinstance(each.where, ByDevice)), None)
    if at_device is not None:
        raise BadQuery(
            f"the breakpoint {at_device[:100]!r} is at a device address, where none can wait",
            hint="ask which module's code is there now, and name its section and offset",
        )
    ids = [*known, *(each.id for each in breakpoints)]
    if len(ids) > MAX_WATCHED:
        raise LimitExceeded(f"{len(ids)} breakpoints, at most {MAX_WATCHED} are watched", hint="open several watches")
    if len(set(ids)) != len(ids):
        twice = next(each for each, count in Counter(ids).items() if count > 1)
        raise BadQuery(f"two breakpoints have the id {twice[:100]!r}", hint="give each its own, or remove the first")
    return breakpoints
