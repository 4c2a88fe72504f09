"""The locations of one code object: its text cut at every boundary of a row, a scope, a function or a kernel, and each
piece given the frames, the kernel and the reason that hold for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.index.cover import Numbers, innermost, last_cover
from symd.index.format import Column
from symd.model import NO_PARENT, U64, CodeObject, DebugInfo, Function, Kernel, Reason, RowFlag, Section

NOTHING = 0
"""The location behind the last text section."""


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
        return np.array([self.add(text) for text in texts], np.uint64)


@dataclass(frozen=True, slots=True)
class _Space:
    """Section offsets of one object to linear positions: section number -> (base, size), as dense tables."""

    base: U64
    size: U64
    known: NDArray[np.bool_]

    def spans(self, section: Column, start: Column, end: Column) -> tuple[U64, U64]:
        """Linear [start, end) of ranges, clipped to their sections; empty where the section is not text."""
        at = np.minimum(section.astype(np.int64), len(self.base) - 1)
        size = np.where(self.known[at], self.size[at], np.uint64(0))
        return self.base[at] + np.minimum(start, size), self.base[at] + np.minimum(end, size)


def object_locations(
    code: CodeObject, debug: DebugInfo, bases: Column, strings: Interner, *, malformed: bool, first: int
) -> dict[str, Column]:
    """Columns range_start, range_location and location_*; locations are numbered from ``first``."""
    texts = [section for section in code.sections if section.executable]
    space = _space(texts, bases)
    rows, scopes, functions, kernels = (
        _row_spans(debug, space),
        space.spans(debug.scopes.range_section, debug.scopes.range_offset, debug.scopes.range_end),
        _named_spans(code.functions, space),
        _named_spans(code.kernels, space),
    )
    edges = [bases, np.array([section.size for section in texts], np.uint64) + bases]
    points = np.unique(np.concatenate([*rows, *scopes, *functions, *kernels, *edges]))
    points = points[points < edges[1].max(initial=0)]
    pieces = _Pieces(
        row=last_cover(*rows, points),
        scope=innermost(debug.scopes.range_scope, *scopes, debug.scopes.parent, points),
        function=_smallest_cover(*functions, points),
        kernel=_smallest_cover(*kernels, points),
    )
    table = _Table(code, debug, strings, pieces, malformed=malformed, first=first)
    number = table.leaves()
    keep = np.flatnonzero(np.diff(number, prepend=np.int64(-1)) | np.isin(points, bases))
    return {
        "range_start": points[keep],
        "range_location": number[keep].astype(np.uint64),
        **table.columns(),
    }


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


def _smallest_cover(starts: U64, ends: U64, points: U64) -> Numbers:
    """The smallest range around each point; of equals the first."""
    order = np.argsort(ends - starts, kind="stable")[::-1]
    found = last_cover(starts[order], ends[order], points)
    return np.where(found >= 0, order[found] if len(order) else -1, -1)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What covers each piece of text: equally long columns of numbers, -1 where nothing does."""

    row: Numbers
    scope: Numbers
    function: Numbers
    kernel: Numbers


def _undebugged(code: CodeObject, debug: DebugInfo, *, malformed: bool) -> Reason | None:
    """Why a whole object has no lines; a unit that describes nothing is no debug information."""
    if malformed:
        return Reason.MALFORMED
    empty = not len(debug.rows) and not len(debug.scopes)
    return Reason.NO_DEBUG_INFO if code.debug == "none" or empty else None


class _Table:
    """Locations of one object: first the call sites of its inlined scopes, then the distinct leaves."""

    def __init__(
        self, code: CodeObject, debug: DebugInfo, strings: Interner, pieces: _Pieces, *, malformed: bool, first: int
    ) -> None:
        self.debug = debug
        self.pieces = pieces
        self.first = first
        self.undebugged = _undebugged(code, debug, malformed=malformed)
        self.files = strings.add_all(debug.files)
        self.names = strings.add_all(debug.names)
        self.symbols = strings.add_all(function.name for function in code.functions)
        self.kernels = strings.add_all(kernel.name for kernel in code.kernels)
        self.scope_names = self._scope_names()
        self.call_sites = self._call_sites()
        self.distinct: dict[str, Column] = {}

    def _scope_names(self) -> U64:
        """A function that the debug data leaves nameless has its symbol's name."""
        names = self.names[self.debug.scopes.name]
        nameless = np.flatnonzero((names == 0) & (self.debug.scopes.inlined == 0))
        for scope in nameless.tolist():
            covering = self.pieces.function[self.pieces.scope == scope]
            named = covering[covering >= 0]
            names[scope] = self.symbols[named[0]] if len(named) else 0
        return names

    def _call_sites(self) -> dict[str, Column]:
        """One location an inlined scope: where, in the scope around it, the call stands."""
        scopes = self.debug.scopes
        inlined = np.flatnonzero((scopes.inlined != 0) & (scopes.parent != NO_PARENT))
        self.call_site_of = np.zeros(len(scopes) + 1, np.uint64)
        self.call_site_of[inlined] = self.first + np.arange(len(inlined), dtype=np.uint64)
        around = scopes.parent[inlined]
        zero = np.zeros(len(inlined), np.uint64)
        return {
            "reason": zero + np.uint64(Reason.EXACT),
            "kernel": zero,
            "function": self.scope_names[around],
            "linkage_name": self._linkage(around),
            "file": self.files[scopes.call_file[inlined]],
            "line": scopes.call_line[inlined],
            "column": scopes.call_column[inlined],
            "inlined": scopes.inlined[around],
            "parent": self.call_site_of[around],
        }

    def _linkage(self, scope: Column) -> U64:
        """The mangled name where it differs from the plain one."""
        linkage = self.names[self.debug.scopes.linkage_name[scope]]
        return np.where(linkage == self.scope_names[scope], np.uint64(0), linkage)

    def leaves(self) -> Numbers:
        """The location of each piece; fills ``distinct``."""
        row, approximate = self._positions()
        keys = np.stack([row, self.pieces.scope, self.pieces.function, self.pieces.kernel, approximate])
        keys[0] = self._same_position(row)
        packed = np.ascontiguousarray(keys.T).view([("", np.int64)] * len(keys)).ravel()
        _, sample, number = np.unique(packed, return_index=True, return_inverse=True)
        self.distinct = self._leaf_columns(row[sample], approximate[sample], sample)
        return number.astype(np.int64) + self.first + len(self.call_sites["line"])

    def _same_position(self, row: Numbers) -> Numbers:
        """Rows by what they say (file, line, column), not by which row says it."""
        rows = self.debug.rows
        packed = np.stack([rows.file, rows.line, rows.column], axis=1).astype(np.int64)
        _, number = np.unique(np.ascontiguousarray(packed).view([("", np.int64)] * 3).ravel(), return_inverse=True)
        return np.append(number, -1)[row]

    def _positions(self) -> tuple[Numbers, Numbers]:
        """(row, 0); where the row says line 0 (the nearest earlier row of the same scope that has a line, 1). A row of
        line 0 without such a row before it stays."""
        row = self.pieces.row
        line = np.append(self.debug.rows.line, 0)[row]
        unknown = (row >= 0) & (line == 0)
        if not np.any(unknown):
            return row, np.zeros(len(row), np.int64)
        order = np.lexsort((np.arange(len(row)), self.pieces.function, self.pieces.scope))
        source = np.where(line[order] > 0, np.arange(len(row)), -1)
        group = self.pieces.scope[order] * (len(self.symbols) + 2) + self.pieces.function[order]
        begins = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
        floor = np.repeat(begins, np.diff(np.append(begins, len(row))))
        source = np.maximum.accumulate(source)
        found = np.full(len(row), -1)
        found[order] = np.where(source >= floor, row[order][source], -1)
        return np.where(unknown & (found >= 0), found, row), unknown.astype(np.int64)

    def _leaf_columns(self, row: Numbers, approximate: Numbers, sample: Numbers) -> dict[str, Column]:
        rows = self.debug.rows
        scope, function = self.pieces.scope[sample], self.pieces.function[sample]
        kernel = np.append(self.kernels, np.uint64(0))[self.pieces.kernel[sample]]
        symbol = np.append(self.symbols, np.uint64(0))[function]
        if self.undebugged is not None:
            symbol = np.where(symbol == 0, kernel, symbol)
        named = scope >= 0
        names = np.where(named, np.append(self.scope_names, np.uint64(0))[scope], symbol)
        inside = np.where(named, scope, 0)
        scopes = len(self.debug.scopes)
        line = np.append(rows.line, np.uint32(0))[row]
        reason = self._reasons(row, line, approximate, names)
        gap = reason == Reason.GAP
        return {
            "reason": reason,
            "kernel": kernel,
            "function": names,
            "linkage_name": np.where(named, self._linkage(inside), 0) if scopes else np.zeros(len(row), np.uint64),
            "file": np.where(gap, np.uint64(0), np.append(self.files[rows.file], np.uint64(0))[row]),
            "line": line,
            "column": np.where(gap, np.uint32(0), np.append(rows.column, np.uint32(0))[row]),
            "inlined": np.append(self.debug.scopes.inlined, np.uint8(0))[np.where(named, scope, scopes)],
            "parent": np.where(named, self.call_site_of[inside], np.uint64(0)),
        }

    def _reasons(self, row: Numbers, line: Column, approximate: Numbers, names: U64) -> Column:
        known = np.where(approximate != 0, Reason.APPROXIMATE, Reason.EXACT)
        unknown = np.where(names != 0, Reason.NO_LINE, Reason.GAP)
        if self.undebugged is not None:
            unknown = np.where(row < 0, self.undebugged, unknown)
        return np.where((row >= 0) & (line > 0), known, unknown).astype(np.uint64)

    def columns(self) -> dict[str, Column]:
        return {
            f"location_{name}": np.concatenate([column.astype(np.uint64), self.distinct[name].astype(np.uint64)])
            for name, column in self.call_sites.items()
        }
