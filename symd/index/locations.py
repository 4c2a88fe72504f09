"""The locations of one code object: its text cut at every boundary of a row, a scope, a function or a kernel, and each
piece given the frame and the position that hold for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.index.cover import Numbers, Points, innermost, last_cover
from symd.index.distinct import combined, numbered, runs
from symd.index.format import Column
from symd.model import NO_PARENT, U64, CodeObject, DebugInfo, Function, Kernel, Reason, RowFlag, Section


class Interner:
    """Strings with numbers; number 0 is ""."""

    def __init__(self) -> None:
        self.values: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.values)
            self.values.append(text)
        return number

    def add_all(self, texts: Iterable[str]) -> U64:
        return np.fromiter(map(self.add, texts), np.uint64)


@dataclass(frozen=True, slots=True)
class ObjectLocations:
    """``start`` holds linear positions; each range has the number of a frame, a position and a ``Reason``. ``frames``
    and ``owners`` are columns without their prefixes ``frame_`` and ``owner_``."""

    start: U64
    frame: Numbers
    line: Column
    column: Column
    reason: Column
    frames: dict[str, Column]
    owners: dict[str, Column]


@dataclass(frozen=True, slots=True)
class _Space:
    """Section offsets of one object to linear positions: section number -> (base, size), as dense tables."""

    base: U64
    size: U64
    known: NDArray[np.bool_]

    def spans(self, section: Column, start: Column, end: Column) -> tuple[U64, U64]:
        """Linear [start, end) of ranges, clipped to their sections; empty where the section is not text."""
        if len(section) and np.all(section == section[0]):
            at = min(int(section[0]), len(self.base) - 1)
            size = self.size[at] if self.known[at] else np.uint64(0)
            return self.base[at] + np.minimum(start, size), self.base[at] + np.minimum(end, size)
        place = np.minimum(section.astype(np.int64), len(self.base) - 1)
        sizes = np.where(self.known[place], self.size[place], np.uint64(0))
        return self.base[place] + np.minimum(start, sizes), self.base[place] + np.minimum(end, sizes)


def object_locations(
    code: CodeObject, debug: DebugInfo, bases: Column, strings: Interner, *, malformed: bool, first_owner: int = 1
) -> ObjectLocations:
    """Owners (scopes, then function symbols) are numbered from ``first_owner``, frames from 0."""
    texts = [section for section in code.sections if section.executable]
    space = _space(texts, bases)
    scopes = debug.scopes
    spans = _Spans(
        _row_spans(debug, space),
        space.spans(scopes.range_section, scopes.range_offset, scopes.range_end),
        _named_spans(code.functions, space),
        _named_spans(code.kernels, space),
    )
    limits = np.array([section.size for section in texts], np.uint64) + bases
    points = Points(*spans.rows, *spans.scopes, *spans.functions, *spans.kernels, bases, limits)
    pieces = _pieces(points, spans, debug)
    table = _Table(code, debug, strings, pieces, malformed=malformed, first_owner=first_owner)
    last = int(np.searchsorted(points.values, limits.max(initial=np.uint64(0))))
    fixed = points.number(bases)
    return table.merged(points.values[:last], fixed[fixed < last])


@dataclass(frozen=True, slots=True)
class _Spans:
    """Linear [start, end) of everything that covers text."""

    rows: tuple[U64, U64]
    scopes: tuple[U64, U64]
    functions: tuple[U64, U64]
    kernels: tuple[U64, U64]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What covers each piece of text: equally long columns of numbers, -1 where nothing does."""

    row: Numbers
    scope: Numbers
    function: Numbers
    kernel: Numbers


def _pieces(points: Points, spans: _Spans, debug: DebugInfo) -> _Pieces:
    """Everything but rows has few boundaries: it is covered on those and spread over all."""
    own = Points(*spans.scopes)
    scope = innermost(debug.scopes.range_scope, *spans.scopes, debug.scopes.parent, own)
    functions, kernels = Points(*spans.functions), Points(*spans.kernels)
    return _Pieces(
        row=last_cover(*spans.rows, points),
        scope=points.spread(own, scope),
        function=points.spread(functions, _smallest_cover(*spans.functions, functions)),
        kernel=points.spread(kernels, _smallest_cover(*spans.kernels, kernels)),
    )


def _space(texts: Sequence[Section], bases: Column) -> _Space:
    count = max((section.index for section in texts), default=0) + 2
    space = _Space(np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros(count, np.bool_))
    for section, base in zip(texts, bases.tolist(), strict=True):
        space.base[section.index], space.size[section.index], space.known[section.index] = base, section.size, True
    return space


def _row_spans(debug: DebugInfo, space: _Space) -> tuple[U64, U64]:
    """Each row up to the next row of its sequence; end_sequence rows are empty."""
    rows = debug.rows
    following = np.append(rows.offset[1:], np.uint64(0))
    ends = (rows.flags & RowFlag.END_SEQUENCE) != 0
    following = np.where(ends | (following < rows.offset), rows.offset, following)
    if len(rows):
        following[-1] = rows.offset[-1]
    return space.spans(rows.section, rows.offset, following)


def _named_spans(named: Sequence[Function] | Sequence[Kernel], space: _Space) -> tuple[U64, U64]:
    section = np.array([item.section_index for item in named], np.uint64)
    start = np.array([item.offset for item in named], np.uint64)
    size = np.array([item.size for item in named], np.uint64)
    return space.spans(section, start, start + size)


def _smallest_cover(starts: U64, ends: U64, points: Points) -> Numbers:
    """The smallest range around each point; of equals the first."""
    order = np.argsort(ends - starts, kind="stable")[::-1]
    found = last_cover(starts[order], ends[order], points)
    return np.where(found >= 0, order[found] if len(order) else -1, -1)


def _undebugged(code: CodeObject, debug: DebugInfo, *, malformed: bool) -> Reason | None:
    """Why a whole object has no lines; a unit that describes nothing is no debug information."""
    if malformed:
        return Reason.MALFORMED
    empty = not len(debug.rows) and not len(debug.scopes)
    return Reason.NO_DEBUG_INFO if code.debug == "none" or empty else None


def _or_none(table: Column, number: Numbers) -> Column:
    """``table[number]``, 0 where the number is -1."""
    return np.append(table, table.dtype.type(0))[number]


class _Table:
    """Frames, owners and positions of one object."""

    def __init__(
        self,
        code: CodeObject,
        debug: DebugInfo,
        strings: Interner,
        pieces: _Pieces,
        *,
        malformed: bool,
        first_owner: int,
    ) -> None:
        self.debug = debug
        self.pieces = pieces
        self.first_owner = first_owner
        self.undebugged = _undebugged(code, debug, malformed=malformed)
        self.files = strings.add_all(debug.files)
        self.names = strings.add_all(debug.names)
        self.symbols = strings.add_all(function.name for function in code.functions)
        self.kernels = strings.add_all(kernel.name for kernel in code.kernels)
        self.scope_names = self._scope_names()

    def _scope_names(self) -> U64:
        """A function that the debug data leaves nameless has its symbol's name."""
        names = self.names[self.debug.scopes.name]
        nameless = np.append((names == 0) & (self.debug.scopes.inlined == 0), False)
        if np.any(nameless):
            at = np.flatnonzero(nameless[self.pieces.scope] & (self.pieces.function >= 0))
            scope, first = np.unique(self.pieces.scope[at], return_index=True)
            names[scope] = self.symbols[self.pieces.function[at[first]]]
        return names

    def merged(self, points: U64, fixed: Numbers) -> ObjectLocations:
        """Neighbours with one frame and position become one range, except at the numbers ``fixed``, where sections
        begin. Pieces behind ``points`` are dropped."""
        row, approximate = self._positions()
        row, approximate = row[: len(points)], approximate[: len(points)]
        scope, function = self.pieces.scope[: len(points)], self.pieces.function[: len(points)]
        kernel = _or_none(self.kernels, self.pieces.kernel[: len(points)])
        line = _or_none(self.debug.rows.line, row)
        reason = self._reasons(row, line, approximate, self._named(scope, function, kernel))
        known = np.where(reason == Reason.GAP, -1, row)
        file = _or_none(self.files, _or_none(self.debug.rows.file, known).astype(np.int64))
        column = _or_none(self.debug.rows.column, known)
        owner = self._owners(scope, function)
        frame, frames = _frames(owner, kernel, file)
        begins = runs(frame, line, column, reason, also=fixed)
        return ObjectLocations(
            start=points[begins],
            frame=frame[begins],
            line=line[begins],
            column=column[begins],
            reason=reason[begins],
            frames=frames,
            owners=self._owner_columns(),
        )

    def _positions(self) -> tuple[Numbers, NDArray[np.bool_]]:
        """(row, False); where the row says line 0 (the nearest earlier row of the same scope that has a line, True). A
        row of line 0 without such a row before it stays."""
        row = self.pieces.row
        line = _or_none(self.debug.rows.line, row)
        unknown = (row >= 0) & (line == 0)
        if not np.any(unknown):
            return row, unknown
        begins = runs(self.pieces.scope, self.pieces.function)
        group = numbered(combined(self.pieces.scope[begins], self.pieces.function[begins]))[1]
        group = np.repeat(group, np.diff(begins, append=len(row)))
        wanting = np.zeros(int(group.max()) + 1, np.bool_)
        wanting[group[unknown]] = True
        at = np.flatnonzero(wanting[group])
        at = at[np.argsort(group[at], kind="stable")]
        firsts = runs(group[at])
        floor = np.repeat(firsts, np.diff(firsts, append=len(at)))
        source = np.maximum.accumulate(np.where(line[at] > 0, np.arange(len(at)), -1))
        found = np.full(len(row), -1)
        found[at] = np.where(source >= floor, row[at[source]], -1)
        return np.where(unknown & (found >= 0), found, row), unknown

    def _named(self, scope: Numbers, function: Numbers, kernel: Column) -> NDArray[np.bool_]:
        """Whether the innermost frame has a function's name; code without debug data at least its kernel's."""
        symbol = _or_none(self.symbols != 0, function)
        if self.undebugged is not None:
            symbol = symbol | (kernel != 0)
        return np.where(scope >= 0, _or_none(self.scope_names != 0, scope), symbol)

    def _reasons(self, row: Numbers, line: Column, approximate: Column, named: Column) -> Column:
        reason = np.where(named, np.uint8(Reason.NO_LINE), np.uint8(Reason.GAP))
        if self.undebugged is not None:
            reason[row < 0] = self.undebugged
        known = (row >= 0) & (line > 0)
        reason[known] = np.where(approximate[known], np.uint8(Reason.APPROXIMATE), np.uint8(Reason.EXACT))
        return reason

    def _owners(self, scope: Numbers, function: Numbers) -> Numbers:
        """Who the code belongs to: the scope, where there is none the function symbol, or nobody (0)."""
        symbol = np.where(function >= 0, function + (self.first_owner + len(self.debug.scopes)), 0)
        return np.where(scope >= 0, scope + self.first_owner, symbol)

    def _owner_columns(self) -> dict[str, Column]:
        """Scopes, then symbols: names (linkage names where they differ), and where an inlined scope was called from."""
        scopes, symbols = self.debug.scopes, np.zeros(len(self.symbols), np.uint64)
        linkage = self.names[scopes.linkage_name]
        inside = np.where(scopes.parent == NO_PARENT, 0, scopes.parent.astype(np.uint64) + np.uint64(self.first_owner))
        columns = {
            "name": self.scope_names,
            "linkage_name": np.where(linkage == self.scope_names, np.uint64(0), linkage),
            "inlined": scopes.inlined,
            "parent": inside,
            "file": self.files[scopes.call_file],
            "line": scopes.call_line,
            "column": scopes.call_column,
        }
        joined = {name: np.concatenate([column.astype(np.uint64), symbols]) for name, column in columns.items()}
        joined["name"][len(scopes) :] = self.symbols
        return joined


def _frames(owner: Numbers, kernel: Column, file: Column) -> tuple[Numbers, dict[str, Column]]:
    """(the frame of each piece, the distinct frames as columns)."""
    begins = runs(owner, kernel, file)
    firsts = {"owner": owner[begins], "kernel": kernel[begins], "file": file[begins]}
    distinct, number = numbered(combined(*firsts.values()))
    sample = np.zeros(len(distinct), np.int64)
    sample[number] = np.arange(len(begins))
    frames = {name: column[sample].astype(np.uint64) for name, column in firsts.items()}
    return np.repeat(number, np.diff(begins, append=len(owner))), frames
