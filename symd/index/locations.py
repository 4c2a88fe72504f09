"""The locations of a module: its text cut at every boundary of a row, a scope, a function or a kernel, and each piece
given the frame and the position that hold for all of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.core import sweep
from symd.index.contradictions import Contradictions, ModuleText, contradictions
from symd.index.cover import innermost, pieces, points_of, smallest_cover, view, within_functions
from symd.index.format import Column
from symd.index.module_tables import ModuleTables, RowTables, TextSections
from symd.model.answers import Reason
from symd.model.columns import I64, U32, U64, Groups, combined, grouped, runs
from symd.model.debug_info import NO_PARENT, RowFlag

NO_LINE = 0xFFFFFFFF
"""One less than the lowest of no lines."""
_RUNS = 1 << 14
"""Runs that are looked at together."""


class LocationFrames(NamedTuple):
    """Distinct frames: owner number, string numbers of kernel and file, and one less than the lowest line."""

    owner: Column
    kernel: Column
    file: Column
    line: Column


class Owners(NamedTuple):
    """The owners of ranges, as columns: the innermost scope, or the function symbol where no scope reaches. Number 0
    is nobody; then scopes; then function symbols. ``name``, ``linkage_name`` (0 where it is the same) and ``file``
    are string numbers, ``parent`` an owner; file, line and column say where an inlined scope was called,
    ``start_file`` (a string number) and ``start_line`` where the function is declared."""

    name: Column
    linkage_name: Column
    inlined: Column
    parent: Column
    file: Column
    line: Column
    column: Column
    start_file: Column
    start_line: Column


class Written(NamedTuple):
    """What rows and scopes say of ranges that are answered otherwise: ``range`` numbers in order, each with its frame,
    line, column and reason as written."""

    range: I64
    frame: I64
    line: U32
    column: Column
    reason: Column


class Stretches(NamedTuple):
    """Text positions [start, stop) that are answered otherwise than written, neighbors of one ``reason`` joined;
    ``torn`` and ``unnamed`` as ``Contradictions`` has them."""

    start: Column
    stop: Column
    reason: Column
    torn: NDArray[np.bool_]
    unnamed: NDArray[np.bool_]


_NOTHING, _NO_LINES = np.zeros(0, np.uint8), np.zeros(0, np.uint32)


class ModuleRanges(NamedTuple):
    """The ranges of a module's text, each with one location, as columns. ``start`` holds the text positions where
    ranges begin; ``line`` (0: none), ``column`` and ``reason`` are equally long. From each entry of ``run``, a
    range, to the next the frame is that of ``run_frame``. ``suspected`` as ``Contradictions`` has it."""

    start: Column
    line: U32
    column: Column
    reason: Column
    run: I64
    run_frame: I64
    frames: LocationFrames
    owners: Owners
    written: Written = Written(_NO_LINES.astype(np.int64), _NO_LINES.astype(np.int64), _NO_LINES, _NOTHING, _NOTHING)
    stretches: Stretches = Stretches(_NOTHING, _NOTHING, _NOTHING, *[_NOTHING.astype(np.bool_)] * 2)
    suspected: bool = False


class _Areas(NamedTuple):
    """Stretches of text between boundaries of scopes, functions, kernels and sections, each of many pieces, the first
    of which is ``begin``. ``kernel`` is a string number, ``section`` says that a section begins there. Equal ``group``:
    the line of an earlier piece may stand for a missing one. ``bare`` is the ``Reason`` where a row has no line,
    ``missing`` where there is no row. Only of ``machine_code`` need rows and scopes fit. Whose code it is stands
    ``elsewhere``. ``symbol`` is the owner where no scope reaches."""

    begin: I64
    scope: Column
    owner: Column
    kernel: Column
    section: NDArray[np.bool_]
    group: I64
    bare: Column
    missing: Column
    machine_code: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]
    symbol: Column


def module_ranges(module: ModuleTables) -> ModuleRanges:
    """The ranges of a module's text. Owners are numbered from 1, scopes before symbols; 0 is nobody. Text after the
    last section that was decoded has no range."""
    # Cut the text into pieces at every boundary; areas, which begin at ``boundaries``, are of many pieces.
    texts = module.texts
    base, end = texts.base[texts.decoded], (texts.base + texts.size)[texts.decoded].astype(texts.base.dtype)
    covers = (module.ranges, module.symbols, module.kernels, module.strays)
    boundaries = points_of(
        *(each.start for each in covers),
        *(each.stop for each in covers),
        *module.elsewhere,
        *module.doubted,
        module.written.start,
        module.written.stop,
        base,
        end,
        np.zeros(1, base.dtype),
    )
    start, row, area_begin = pieces(*within_functions(*_row_spans(module.rows, texts), module), boundaries)
    text_end = end.max(initial=0)
    areas, names = _areas(module, boundaries, area_begin[: int(np.searchsorted(boundaries, text_end))], base)
    count = int(np.searchsorted(start, text_end))
    area_start, start, row = boundaries[: len(areas.begin)], start[:count], row[:count]
    as_written, written_span = _as_written(areas, module, area_start)
    written = _Reading(as_written, _area_of_piece(areas, len(row)))

    # Find the pieces where rows and scopes contradict each other.
    symbol = np.maximum(areas.symbol.astype(np.int64) - 1 - len(module.scopes.parent), -1)
    text = ModuleText(row, written.area, areas.scope, symbol, areas.kernel != 0, areas.machine_code, area_start)
    found = contradictions(module, text)

    # Merge neighbors that have one answer.
    owners, stretches = _owners(module, names), _stretches(found, start, int(text_end), base)
    if not len(found) and as_written is areas:
        written.filled(module, row)
        del row, text  # their memory is used again
        merged = _merged(start, written, _WrittenPieces.none(), owners, stretches)
        return merged._replace(suspected=found.suspected)
    answered = _reconciled(module, areas, found, row, written_span[written.area[found.piece]])
    otherwise = _WrittenPieces.of(written.filled(module, _rows_as_written(module.rows, row)), answered)
    return _merged(start, answered, otherwise, owners, stretches)._replace(suspected=True)


def _reconciled(
    module: ModuleTables, areas: _Areas, found: Contradictions, row: NDArray[np.int32], written_span: I64
) -> _Reading:
    """What is answered for each piece; ``row`` is the row of each, or -1. ``written_span`` is of each piece of
    ``found`` the span of ``module.written`` that holds it, or -1."""
    believed_row, answered = row.copy(), _answered(areas, found, len(row))
    lined = found.unnamed | np.append(module.written.lined, np.False_)[written_span]
    believed_row[found.piece[(found.reason != Reason.INFERRED) & ~lined]] = -1
    answered.filled(module, believed_row).reason[found.piece] = found.reason
    line = np.append(module.written.line, np.uint32(0))[written_span]
    answered.line[found.piece[line > 0]] = line[line > 0]
    return answered


def _rows_as_written(rows: RowTables, row: NDArray[np.int32]) -> NDArray[np.int32]:
    """The row that each piece has in the line table, or -1: where its row was left out there (``RowFlag.IMPLIED``), the
    one before goes on."""
    in_table = (rows.flags & RowFlag.IMPLIED) == 0
    if in_table.all():
        return row
    number = np.arange(len(in_table), dtype=np.int32)
    before = np.maximum.accumulate(np.where(in_table, number, np.int32(-1)))
    ended = ~in_table & ((rows.flags[before] & RowFlag.END_SEQUENCE) != 0)  # no row of its sequence is before it
    before[ended] = -1
    return np.append(before, np.int32(-1))[row]


def _area_of_piece(areas: _Areas, count: int) -> NDArray[np.int32]:
    return np.repeat(np.arange(len(areas.begin), dtype=np.int32), np.diff(areas.begin, append=count))


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


def _areas(module: ModuleTables, boundaries: U64, begin: I64, bases: Column) -> tuple[_Areas, U32]:
    """(the areas that begin with the pieces ``begin`` at the first of ``boundaries``, the names of scopes)."""
    count = len(begin)
    texts, symbols, kernels = module.texts, module.symbols, module.kernels
    ranges, parent = module.ranges, module.scopes.parent
    scope = innermost(ranges.scope, ranges.start, ranges.stop, parent, boundaries)[:count]
    function = smallest_cover(symbols.start, symbols.stop, boundaries)[:count]
    kernel = _or_none(kernels.name, smallest_cover(kernels.start, kernels.stop, boundaries)[:count])
    section = np.searchsorted(texts.base.astype(np.uint64), boundaries[:count], side="right") - 1
    code_object = _or_none(texts.object, section)
    no_debug_reason = _or_none(module.no_debug_reason, code_object)
    names = _scope_names(module, scope, function)
    has_name = (names != 0) | module.scopes.differing()
    named = _or_none(symbols.name != 0, function) | ((no_debug_reason > 0) & (kernel != 0))
    bare = np.where(np.where(scope >= 0, _or_none(has_name, scope), named), Reason.NO_LINE, Reason.GAP)
    elsewhere = (smallest_cover(*module.elsewhere, boundaries)[:count] >= 0) & (scope < 0)
    bare[elsewhere] = Reason.DEBUG_DATA_ELSEWHERE
    symbol = np.where((function >= 0) & ~elsewhere, function + (1 + len(parent)), 0)
    areas = _Areas(
        begin=begin,
        scope=scope,
        owner=np.where(scope >= 0, scope + 1, symbol),
        kernel=kernel,
        section=np.isin(boundaries[:count], bases),
        group=combined(scope, function, code_object),
        bare=bare,
        missing=np.where(no_debug_reason, no_debug_reason, bare),
        machine_code=_or_none(module.machine_code, code_object),
        elsewhere=elsewhere,
        symbol=symbol,
    )
    return areas, names


def _as_written(areas: _Areas, module: ModuleTables, position: Column) -> tuple[_Areas, I64]:
    """(the areas with the scopes that are written where these are answered otherwise, for each area the number of the
    span of ``module.written`` that holds it, or -1). Areas begin at these text positions."""
    span = module.written.over(position)
    if not len(module.written.start) and not len(module.scopes.written):
        return areas, span
    scope, owner = areas.scope.astype(np.int64), areas.owner.astype(np.int64)
    differs = span >= 0
    scope[differs] = module.written.scope[span[differs]]
    if len(module.scopes.written):
        said = np.append(module.scopes.written, -1)[scope]
        differs |= said != scope
        scope = said
    at = np.flatnonzero(differs)
    owner[at] = np.where(scope[at] >= 0, scope[at] + 1, areas.symbol[at])
    return areas._replace(scope=scope, owner=owner), span


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
        start_file=owners(*_declared(module, module.functions.file)),
        start_line=owners(*_declared(module, module.functions.first)),
    )


def _declared(module: ModuleTables, of_functions: Column) -> tuple[Column, Column]:
    """What holds of each scope's function, and of that with each symbol's name; 0 where none is known."""
    function = np.minimum(module.scopes.function, np.uint32(len(of_functions)))
    found: Column = np.append(of_functions, of_functions.dtype.type(0))
    return found[function], found[_functions_of_symbols(module, function)]


def _functions_of_symbols(module: ModuleTables, function: Column) -> Column:
    """The function with each symbol's name in the debug data of its object, where that is one: of some the debug data
    does not say where they are. ``function`` has that of each scope; the one behind the last is none."""
    scopes, symbols = module.scopes, module.symbols
    none = np.uint32(len(module.functions.first))
    own = np.flatnonzero((scopes.inlined == 0) & (function != none))
    names = np.concatenate([scopes.linkage_name[own], scopes.name[own]]).astype(np.int64)
    key = np.tile(scopes.object[own].astype(np.int64), 2) << 32 | names
    order = np.lexsort((np.tile(function[own], 2), key))
    key, found = key[order], np.tile(function[own], 2)[order]
    wanted = symbols.object.astype(np.int64) << 32 | symbols.name.astype(np.int64)
    first, stop = (np.searchsorted(key, wanted, side=side) for side in ("left", "right"))
    at, last = np.minimum(first, max(len(key) - 1, 0)), np.maximum(stop - 1, 0)
    if not len(key):
        return np.full(len(wanted), none)
    one = (first < stop) & (found[at] == found[last])
    return np.where(one, found[at], none)


def _or_none(table: Column, number: Column) -> Column:
    """``table[number]``, 0 where the number is -1."""
    return np.append(table, table.dtype.type(0))[number]


class _Reading:
    """What holds for each piece of text, after ``filled``: ``line`` (0: none), ``column``, ``file`` (a string number)
    and ``reason``; ``area`` is the number of its area."""

    line: U32
    column: Column
    file: Column
    reason: Column

    def __init__(self, areas: _Areas, area: NDArray[np.int32]) -> None:
        self.areas, self.area = areas, area

    def filled(self, module: ModuleTables, row: NDArray[np.int32]) -> _Reading:
        """Fill in what holds for each piece, and return this. ``row`` is the number of each piece's row, -1 where there
        is none; it is used up."""
        rows, areas = module.rows, self.areas
        groups = grouped(areas.group)
        self.line, self.reason = np.empty(len(row), np.uint32), np.empty(len(row), np.uint8)
        sweep.fill(
            row.data,  # it is changed
            view(areas.begin, np.int64),
            (
                view(groups.number, np.uint32),
                view(areas.bare, np.uint8),
                view(areas.missing, np.uint8),
                view(areas.elsewhere, np.uint8),
            ),
            len(groups.first),
            view(rows.line, np.uint32),
            (self.line.data, self.reason.data),
        )
        self.column, self.file = _of_rows(rows.column, row), _of_rows(rows.file, row)
        return self


class _WrittenPieces(NamedTuple):
    """Pieces that are answered otherwise than written, also for want of a row that stood for theirs: their ``keys``
    (owner, kernel and file) and position as written."""

    piece: I64
    keys: tuple[Column, Column, Column]
    line: U32
    column: Column
    reason: Column

    @classmethod
    def none(cls) -> _WrittenPieces:
        nothing, u32, u8 = np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        return cls(nothing, (u8, u8, u8), u32, u8, u8)

    @classmethod
    def of(cls, written: _Reading, answered: _Reading) -> _WrittenPieces:
        differs = written.areas.owner[written.area] != answered.areas.owner[answered.area]
        for name in ("line", "column", "file", "reason"):
            differs |= getattr(written, name) != getattr(answered, name)
        piece = np.flatnonzero(differs)
        areas, area = written.areas, written.area[piece]
        keys = areas.owner[area], areas.kernel[area], written.file[piece]
        return cls(piece, keys, written.line[piece], written.column[piece], written.reason[piece])


def _of_rows(table: Column, row: NDArray[np.int32]) -> Column:
    """``table[row]``, 0 where the row is -1."""
    if not len(table):
        return np.zeros(len(row), table.dtype)
    found = table.take(row)
    found[row < 0] = 0
    return found


def lowest_lines(line: U32, run: I64) -> U32:
    """One less than the lowest line of each run; the highest number where none has a line."""
    found = np.zeros(len(run), np.uint32)
    for first in range(0, len(run), _RUNS):
        some = run[first : first + _RUNS]
        stop = run[first + _RUNS] if first + _RUNS < len(run) else len(line)
        np.minimum.reduceat(line[some[0] : stop] - np.uint32(1), some - some[0], out=found[first : first + _RUNS])
    return found


def base_lines(lowest: U32, groups: Groups) -> U32:
    """One less than the lowest line of each group of runs; line 0, no line, does not count."""
    if not len(lowest):
        return lowest
    base = np.minimum.reduceat(lowest[groups.order], groups.first)
    base[base == NO_LINE] = 0
    return base


def _answered(areas: _Areas, found: Contradictions, count: int) -> _Reading:
    """The areas cut again, so that each piece that is answered otherwise is one, with the scope that is answered. No
    line of another area stands for a missing one there."""
    cuts = np.sort(np.concatenate([areas.begin, found.piece, found.piece + 1]))  # np.union1d would import numpy.ma
    cuts = cuts[runs(cuts)]
    cuts = cuts[cuts < count]
    old = np.searchsorted(areas.begin, cuts, side="right") - 1
    at = np.searchsorted(cuts, found.piece)
    scope, owner, group = (column[old].astype(np.int64) for column in (areas.scope, areas.owner, areas.group))
    symbol_holds = (found.reason == Reason.NO_LINE) | (
        (found.scope < 0) & ~areas.machine_code[old[at]]  # functions of SPIR-V do not overlap
    )
    owner[at] = np.where(symbol_holds, owner[at], found.scope + 1)
    scope[at] = found.scope
    elsewhere = ~(found.unnamed & (found.scope == areas.scope[old[at]]))
    group[at[elsewhere]] = int(group.max(initial=0)) + 1 + np.flatnonzero(elsewhere)
    cut = _Areas(
        begin=cuts,
        scope=scope,
        owner=owner,
        kernel=areas.kernel[old],
        section=areas.section[old] & (areas.begin[old] == cuts),
        group=group,
        bare=areas.bare[old],
        missing=areas.missing[old],
        machine_code=areas.machine_code[old],
        elsewhere=areas.elsewhere[old],
        symbol=areas.symbol[old],
    )
    return _Reading(cut, _area_of_piece(cut, count))


def _stretches(found: Contradictions, start: Column, end: int, bases: Column) -> Stretches:
    """Neighbors that are answered in one way, section by section, which begin at ``bases``."""
    stop = np.append(start[1:], start.dtype.type(end))[found.piece]
    begin = start[found.piece]
    new = np.ones(len(found), np.bool_)
    section = np.searchsorted(bases, begin, side="right")
    new[1:] = (begin[1:] != stop[:-1]) | (section[1:] != section[:-1])
    for each in (found.reason, found.torn, found.unnamed):
        new[1:] |= each[1:] != each[:-1]
    first = np.flatnonzero(new)
    last = np.append(first, len(found))[1:] - 1
    return Stretches(begin[first], stop[last], found.reason[first], found.torn[first], found.unnamed[first])


def _merged(
    start: Column, pieces: _Reading, written: _WrittenPieces, owners: Owners, stretches: Stretches
) -> ModuleRanges:
    """Neighbors with one frame and position become one range, except where sections begin, and where something else is
    written."""
    areas = pieces.areas
    line, column, reason, file = pieces.line, pieces.column, pieces.reason, pieces.file
    begins = np.zeros(len(start), np.bool_)
    begins[areas.begin[runs(areas.owner, areas.kernel)]] = True
    begins[1:] |= file[1:] != file[:-1]
    run = np.flatnonzero(begins)
    area = pieces.area[run]
    keys = [areas.owner[area], areas.kernel[area], file[run]]
    groups = grouped(*(np.append(key, other) for key, other in zip(keys, written.keys, strict=True)))
    owner, kernel, of_file = (
        np.append(key, other)[groups.sample] for key, other in zip(keys, written.keys, strict=True)
    )
    lowest = np.append(lowest_lines(line, run), written.line - np.uint32(1))
    frames = LocationFrames(owner, kernel, of_file, base_lines(lowest, groups))
    number, written_frame = np.split(groups.number, [len(run)])
    distinct = runs(number)
    begins[:] = False
    begins[run := run[distinct]] = True
    begins[areas.begin[areas.section]] = True
    for each in (line, column, reason):
        begins[1:] |= each[1:] != each[:-1]
    begins[written.piece] = True
    begins[1:][written.piece[written.piece + 1 < len(begins)]] = True
    of_written = written.piece
    if not begins.all():
        ranges = np.cumsum(begins, dtype=np.int32)
        run, of_written = (ranges[at].astype(np.int64) - 1 for at in (run, of_written))
        del ranges
        start, line, column, reason = (each[begins] for each in (start, line, column, reason))
    as_written = Written(of_written, written_frame, written.line, written.column, written.reason)
    return ModuleRanges(start, line, column, reason, run, number[distinct], frames, owners, as_written, stretches)
