"""The locations of a module: its text cut at every boundary of a row, a scope, a function or a kernel, and each piece
given the frame and the position that hold for all of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.index.cover import Points, innermost, smallest_cover, spread
from symd.index.distinct import Groups, combined, grouped, runs
from symd.index.format import Column
from symd.index.module_tables import ModuleTables, RowTables, TextSections
from symd.model.answers import Reason
from symd.model.columns import I64, U32
from symd.model.debug_info import NO_PARENT, RowFlag

_NO_LINE = 0xFFFFFFFF


class Frames(NamedTuple):
    """Distinct frames: owner number, string numbers of kernel and file, and one less than the lowest line."""

    owner: Column
    kernel: Column
    file: Column
    line: Column


class Owners(NamedTuple):
    """Whose code a range is: the innermost scope, or the function symbol where no scope reaches. Number 0 is nobody;
    then scopes; then function symbols. ``name``, ``linkage_name`` (0 where it is the same) and ``file`` are string
    numbers, ``parent`` an owner; file, line and column say where an inlined scope was called."""

    name: Column
    linkage_name: Column
    inlined: Column
    parent: Column
    file: Column
    line: Column
    column: Column


class ModuleRanges(NamedTuple):
    """``start`` holds the text positions where ranges begin; ``line`` (0: none), ``column`` and ``reason`` are
    equally long. From each entry of ``run``, a range, to the next the frame is that of ``run_frame``."""

    start: Column
    line: U32
    column: Column
    reason: Column
    run: I64
    run_frame: I64
    frames: Frames
    owners: Owners


class _Areas(NamedTuple):
    """Stretches of text between boundaries of scopes, functions, kernels and sections, each of many pieces, the first
    of which is ``begin``. ``kernel`` is a string number, ``section`` says that a section begins there. Equal ``group``:
    the line of an earlier piece may stand for a missing one. ``bare`` is the ``Reason`` where a row has no line,
    ``missing`` where there is no row."""

    begin: I64
    owner: Column
    kernel: Column
    section: NDArray[np.bool_]
    group: I64
    bare: Column
    missing: Column


def module_ranges(module: ModuleTables) -> ModuleRanges:
    """Owners are numbered from 1, scopes before symbols; 0 is nobody. Nothing is said of text after the last section
    that was decoded."""
    texts = module.texts
    base, end = texts.base[texts.decoded], (texts.base + texts.size)[texts.decoded].astype(texts.base.dtype)
    covers = (module.ranges, module.symbols, module.kernels)
    origin = np.zeros(1, base.dtype)
    own = Points(*(each.start for each in covers), *(each.stop for each in covers), base, end, origin)
    start, row, begin = spread(*_row_spans(module.rows, texts), own)
    last = end.max(initial=0)
    pieces = slice(int(np.searchsorted(start, last)))
    areas, names = _areas(module, own, begin[: int(np.searchsorted(own.values, last))], base)
    return _merged(start[pieces], _Pieces(module, row[pieces], areas), areas, _owners(module, names))


def _row_spans(rows: RowTables, texts: TextSections) -> tuple[Column, Column]:
    """The text positions [start, stop) of each row, up to the next row of its sequence; end_sequence rows are empty."""
    start = texts.positions(rows.section, rows.offset)
    stop = start.copy()
    np.maximum(start[1:], start[:-1], out=stop[:-1])
    closed = (rows.flags & RowFlag.END_SEQUENCE) != 0
    closed[np.cumsum(rows.counts)[rows.counts > 0] - 1] = True
    if len(rows.section) > 1:
        closed[:-1] |= rows.section[1:] != rows.section[:-1]
    at = np.flatnonzero(closed)
    stop[at] = start[at]
    return start, stop


def _areas(module: ModuleTables, own: Points, begin: I64, bases: Column) -> tuple[_Areas, U32]:
    """(the areas that begin with these pieces at the first of ``own``, the names of scopes)."""
    count = len(begin)
    texts, symbols, kernels = module.texts, module.symbols, module.kernels
    ranges, parent = module.ranges, module.scopes.parent
    scope = innermost(ranges.scope, ranges.start, ranges.stop, parent, own)[:count]
    function = smallest_cover(symbols.start, symbols.stop, own)[:count]
    kernel = _or_none(kernels.name, smallest_cover(kernels.start, kernels.stop, own)[:count])
    section = np.searchsorted(texts.base, own.values[:count], side="right") - 1
    code_object = _or_none(texts.object, section)
    no_debug_reason = _or_none(module.no_debug_reason, code_object)
    names = _scope_names(module, scope, function)
    named = _or_none(symbols.name != 0, function) | ((no_debug_reason > 0) & (kernel != 0))
    bare = np.where(np.where(scope >= 0, _or_none(names != 0, scope), named), Reason.NO_LINE, Reason.GAP)
    symbol = np.where(function >= 0, function + (1 + len(parent)), 0)
    areas = _Areas(
        begin=begin,
        owner=np.where(scope >= 0, scope + 1, symbol),
        kernel=kernel,
        section=own.among(bases)[:count],
        group=combined(scope, function, code_object),
        bare=bare,
        missing=np.where(no_debug_reason, no_debug_reason, bare),
    )
    return areas, names


def _scope_names(module: ModuleTables, scope: Column, function: Column) -> Column:
    """A function that the debug data leaves nameless has the name of the first symbol that covers it."""
    scopes = module.scopes
    nameless = (scopes.name == 0) & (scopes.inlined == 0)
    if not np.any(nameless):
        return scopes.name
    names = scopes.name.astype(np.uint32)
    at = np.flatnonzero(_or_none(nameless, scope) & (function >= 0))[::-1]
    names[scope[at]] = module.symbols.name[function[at]]
    return names


def _owners(module: ModuleTables, names: Column) -> Owners:
    """``names`` are those of the scopes."""
    scopes, symbols = module.scopes, module.symbols.name
    nobody, unknown = np.zeros(1, np.uint8), np.zeros(len(symbols), np.uint8)

    def owners(of_scopes: Column, of_symbols: Column = unknown) -> Column:
        return np.concatenate([nobody, of_scopes, of_symbols])

    return Owners(
        name=owners(names, symbols),
        linkage_name=owners(np.where(scopes.linkage_name == names, 0, scopes.linkage_name)),
        inlined=owners(scopes.inlined),
        parent=owners(np.where(scopes.parent == NO_PARENT, 0, scopes.parent + np.uint32(1))),
        file=owners(scopes.call_file),
        line=owners(scopes.call_line),
        column=owners(scopes.call_column),
    )


def _or_none(table: Column, number: Column) -> Column:
    """``table[number]``, 0 where the number is -1."""
    return np.append(table, table.dtype.type(0))[number]


class _Pieces:
    """What holds for each piece of text: ``line`` (0: none), ``column``, ``file`` (a string number) and ``reason``.
    ``row`` is the number of its row, -1 where there is none; it is used up."""

    def __init__(self, module: ModuleTables, row: NDArray[np.int32], areas: _Areas) -> None:
        rows = module.rows
        self.area = np.repeat(np.arange(len(areas.begin), dtype=np.int32), np.diff(areas.begin, append=len(row)))
        self.line = _of_rows(rows.line, row)
        self.reason = np.full(len(row), Reason.EXACT, np.uint8)
        none = np.flatnonzero(self.line == 0)
        self.reason[self._approximated(row, none, areas)] = Reason.APPROXIMATE
        none = none[self.line[none] == 0]
        area = self.area[none]
        reason = np.where(row[none] < 0, areas.missing[area], areas.bare[area])
        self.reason[none] = reason
        row[none[reason == Reason.GAP]] = -1
        self.column, self.file = _of_rows(rows.column, row), _of_rows(rows.file, row)

    def _approximated(self, row: NDArray[np.int32], none: I64, areas: _Areas) -> I64:
        """Of the pieces without a line, ``none``, those whose row says line 0 are given the nearest earlier row of
        their group that has a line; those that got one."""
        unknown = row[none] >= 0
        if not np.any(unknown):
            return none[:0]
        lined = _lined_before(none)
        source, area = lined[unknown], self.area[none[unknown]]
        far = source < areas.begin[area]
        if np.any(far):
            source = np.where(far, _earlier(none, lined, areas, len(row))[area], source)
        found = source >= 0
        pieces, source = none[unknown][found], source[found]
        row[pieces], self.line[pieces] = row[source], self.line[source]
        return pieces


def _lined_before(none: I64) -> I64:
    """For each of the pieces that have no line, ``none``, the last one before it that has; -1 where there is none."""
    alone = np.diff(none, prepend=-2) != 1
    return np.maximum.accumulate(np.where(alone, none - 1, -1))


def _of_rows(table: Column, row: NDArray[np.int32]) -> Column:
    """``table[row]``, 0 where the row is -1."""
    if not len(table):
        return np.zeros(len(row), table.dtype)
    found = table[row]
    found[row < 0] = 0
    return found


def _earlier(none: I64, lined: I64, areas: _Areas, size: int) -> I64:
    """For each area the last piece that has a line in the areas of its group before it, or -1. ``lined`` is the last
    one before each of the pieces without a line, ``none``; ``size`` counts all pieces."""
    last = np.append(areas.begin[1:], size) - 1
    at = np.minimum(np.searchsorted(none, last), len(none) - 1)
    last = np.where(none[at] == last, lined[at], last)
    groups = grouped(areas.group)
    here = np.where(last >= areas.begin, last, -1)[groups.order]
    at = np.maximum.accumulate(np.where(here >= 0, np.arange(len(here)), -1))
    before = np.append(-1, at[:-1])
    floor = np.repeat(groups.first, np.diff(groups.first, append=len(here)))
    found = np.empty(len(here), np.int64)
    found[groups.order] = np.where(before >= floor, here[before], -1)
    return found


def _base_lines(line: U32, run: I64, groups: Groups) -> U32:
    """One less than the lowest line of each group of runs; line 0, no line, does not count."""
    if not len(run):
        return np.zeros(0, np.uint32)
    lowest = np.minimum.reduceat(line - np.uint32(1), run)  # of 0 that is the highest number
    base = np.minimum.reduceat(lowest[groups.order], groups.first)
    base[base == _NO_LINE] = 0
    return base


def _merged(start: Column, pieces: _Pieces, areas: _Areas, owners: Owners) -> ModuleRanges:
    """Neighbours with one frame and position become one range, except where sections begin."""
    line, column, reason, file = pieces.line, pieces.column, pieces.reason, pieces.file
    begins = np.zeros(len(start), np.bool_)
    begins[areas.begin[runs(areas.owner, areas.kernel)]] = True
    begins[1:] |= file[1:] != file[:-1]
    run = np.flatnonzero(begins)
    area = pieces.area[run]
    keys = areas.owner[area], areas.kernel[area], file[run]
    groups = grouped(*keys)
    owner, kernel, of_file = (key[groups.sample] for key in keys)
    frames = Frames(owner, kernel, of_file, _base_lines(line, run, groups))
    distinct = runs(groups.number)
    begins[:] = False
    begins[run := run[distinct]] = True
    begins[areas.begin[areas.section]] = True
    for each in (line, column, reason):
        begins[1:] |= each[1:] != each[:-1]
    if not begins.all():
        start, line, column, reason = (each[begins] for each in (start, line, column, reason))
        run = np.cumsum(begins)[run] - 1
    return ModuleRanges(start, line, column, reason, run, groups.number[distinct], frames, owners)
