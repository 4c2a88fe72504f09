"""Scopes out of line rows alone. Rows may carry inlining themselves (NVIDIA's extension of the line table): images with lines and
without .debug_info say of each row only which earlier row is its call site. Others say nothing of inlined calls, so that nobody knows whether a row is of the function around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.ptx_assembly import AssemblyRows
from symd.model.answers import Reason
from symd.model.code import PYTHON_SUFFIX, Function, is_symbol_of
from symd.model.columns import I64, U32, U64
from symd.model.debug_info import NO_PARENT, Doubt, LineRows, RowCalls, Scopes, WrittenScopes
from symd.model.texts import counted

MAX_DEPTH = 64
"""Calls inlined into one another; what is deeper is taken as not inlined."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class InlinedScopes:
    """``names`` begins with the names that were passed; ``warnings`` say what was left out. The scopes are those of the answer;
    ``written`` is where the rows say otherwise, with scopes that have no ranges."""

    scopes: Scopes
    names: tuple[str, ...]
    warnings: tuple[str, ...]
    written: WrittenScopes


def scopes(
    rows: LineRows,
    names: Sequence[str],
    functions: Sequence[Function],
    *,
    files: Sequence[str],
    leaves_out_files: bool = False,
    leaves_out_calls: bool = False,
    assembly: AssemblyRows | None = None,
    spend: Callable[[int], object] = bool,
) -> InlinedScopes:
    """One scope for each pair of call site and name, inside one for each function that has any.

    Ranges are spans of rows, for a scope and everything around it, up to the next function symbol; a function's own scope covers only those, the rest
    of it is known by its symbol. ``leaves_out_files`` says that the assembler does not write which file a call stands in where the row before is of another one: such a
    call has no place. ``leaves_out_calls`` says that the compiler may have told of no call: that the function around has a line is INFERRED, and CONTRADICTORY of a line that it cannot have.
    The lines of ``assembly`` are mended. ``spend`` is told how many ranges are about to be made, and may raise: a row has one for each scope around it.
    """
    assembly = AssemblyRows.empty() if assembly is None else assembly
    calls = RowCalls.none(len(rows)) if rows.calls is None else rows.calls
    owner = _smallest_function(rows, np.arange(len(rows)), functions)
    end = _ends(rows, functions)
    answered = _tree(calls.site, _without_names_of_others(rows, calls, owner, names, functions, files))
    written = _tree(calls.written_site, calls.written_name)
    judged = _Judged.of(rows, calls, answered, owner, leaves_out_files=leaves_out_files)
    known: dict[tuple[int, ...], int] = {}
    said_here = _chains(rows, answered, owner, judged.placeless, known)
    said_there = _chains(rows, written, owner, np.zeros(len(written.site), np.bool_), known)
    differs = judged.contradictory | (said_here != said_there)
    needed = written if differs.any() else _NONE
    pieces = _Pieces.of(rows, end, assembly)
    untold = (owner >= 0) & (rows.line > 0) & leaves_out_calls & ~calls.written_site.any()
    alone = untold.copy()
    alone[pieces.row[pieces.shift != 0]] = True
    alone &= (answered.of_row < 0) & (owner >= 0)
    alone |= judged.nobody
    outermost = np.concatenate(
        [answered.site[answered.parent < 0], needed.site[needed.parent < 0], np.flatnonzero(alone)]
    )
    used = np.unique(owner[outermost])
    parts = [
        _placed(each, owner, used, first)
        for each, first in ((answered, len(used)), (needed, len(used) + len(answered.site)))
    ]
    parent = np.concatenate([np.full(len(used), -1), *parts])
    own = np.zeros(len(used), np.uint32)
    site = np.concatenate([answered.site, needed.site])
    has_place = np.concatenate([~judged.placeless, np.ones(len(needed.site), np.bool_)])
    of_row = np.where(answered.of_row >= 0, answered.of_row + len(used), -1)
    of_row[alone] = np.searchsorted(used, owner[alone])
    scope, section, start, stop = _ranges(rows, of_row, parent, end, spend)
    found = Scopes(
        parent=np.where(parent < 0, NO_PARENT, parent).astype(np.uint32),
        name=np.concatenate([np.arange(len(used)) + len(names), answered.name, needed.name]).astype(np.uint32),
        linkage_name=np.zeros(len(parent), np.uint32),
        inlined=(parent >= 0).astype(np.uint8),
        call_file=np.concatenate([own, np.where(has_place, rows.file[site], 0)]),
        call_line=np.concatenate([own, np.where(has_place, rows.line[site], 0)]),
        call_column=np.concatenate([own, np.where(has_place, rows.column[site], 0)]),
        range_scope=scope.astype(np.uint32),
        range_section=section,
        range_offset=start,
        range_end=stop,
    )
    own_names = [functions[number].name if number >= 0 else "" for number in used.tolist()]
    said = np.where(of_row >= 0, of_row, NO_PARENT)
    if differs.any():
        as_written = np.where(needed.of_row >= 0, needed.of_row + len(used) + len(answered.site), NO_PARENT)
        said[differs] = as_written[differs]
    doubted = judged.contradictory | (untold & _is_strange(rows, owner))
    spans = pieces.that(differs | untold).written(rows, said, doubted, ~judged.nobody)
    return InlinedScopes(found, (*names, *own_names), answered.warnings, spans)


class _Pieces(NamedTuple):
    """Code of one row and, in an inline assembly, of one ``shift`` (``AssemblyRows``; 0 elsewhere)."""

    row: I64
    start: U64
    end: U64
    shift: I64

    @classmethod
    def of(cls, rows: LineRows, end: U64, assembly: AssemblyRows) -> _Pieces:
        row = np.flatnonzero(end > rows.offset)
        if not len(assembly.shift) or not len(row):
            return cls(row, rows.offset[row], end[row], np.zeros(len(row), np.int64))
        first, last = _place(rows.section[row], rows.offset[row]), _place(rows.section[row], end[row])
        order = np.argsort(first, kind="stable")
        row, first, last = row[order], first[order], last[order]
        begins, ends = (_place(assembly.section, each) for each in (assembly.start, assembly.end))
        start = np.unique(np.concatenate([first, last, begins, ends]))
        held = np.searchsorted(first, start, side="right") - 1
        code = np.searchsorted(begins, start, side="right") - 1
        shift = np.where((code >= 0) & (start < ends[code]), assembly.shift[code], 0)
        at = np.flatnonzero((held >= 0) & (start < last[held]))
        row, size = row[held[at]], np.append(start[1:], start[-1:])[at] - start[at]
        offset = start[at] - _place(rows.section[row], np.zeros(len(row), np.uint64))
        return cls(row, offset, offset + size, shift[at])

    def that(self, differs: Mask) -> _Pieces:
        """Those that are answered otherwise than written: of the rows that do, and where the line is mended or doubted."""
        which = differs[self.row] | (self.shift != 0)
        return _Pieces(*(column[which] for column in self))

    def written(self, rows: LineRows, said: I64, doubted: Mask, lined: Mask) -> WrittenScopes:
        """What is said of each, with the scope that is written and what is doubted of each row."""
        line = rows.line[self.row].astype(np.int64) - self.shift
        is_unsure = doubted[self.row] | (self.shift < 0) | (line <= 0)
        return WrittenScopes(
            rows.section[self.row],
            self.start,
            self.end,
            said[self.row].astype(np.uint32),
            np.where(is_unsure, np.uint8(Reason.CONTRADICTORY), np.uint8(Reason.INFERRED)),
            lined[self.row],
            np.where((self.shift > 0) & (line > 0), line, 0).astype(np.uint32),
        )


def _is_strange(rows: LineRows, owner: I64) -> Mask:
    """Rows of another file than the first one of their function, or of a line before its."""
    order = np.lexsort((rows.offset, owner))
    functions, first = np.unique(owner[order], return_index=True)
    begin = order[first][np.searchsorted(functions, owner)]
    strange: Mask = (rows.file != rows.file[begin]) | (rows.line < rows.line[begin])
    return strange


def _without_names_of_others(
    rows: LineRows,
    calls: RowCalls,
    owner: I64,
    names: Sequence[str],
    functions: Sequence[Function],
    files: Sequence[str],
) -> U32:
    """The name of each row, which is as written where a row of a Python file is said to be of the function around it: its compiler calls whatever it inlines by
    that name (``index.unnamed_calls``), so that names which are written for the same line in other functions are those of other functions too."""
    changed = np.flatnonzero((calls.name != 0) & (calls.name != calls.written_name) & (owner >= 0))
    python = [number for number in np.unique(rows.file[changed]).tolist() if files[number].endswith(PYTHON_SUFFIX)]
    changed = changed[np.isin(rows.file[changed], python)]
    name = calls.name.copy()
    for row in changed.tolist():
        if is_symbol_of(functions[int(owner[row])].name, names[int(calls.written_name[row])]):
            name[row] = calls.written_name[row]
    return name


@dataclass(frozen=True, slots=True)
class _Tree:
    """Inlined scopes, parents before children: ``site`` is the row of the call, ``parent`` -1 where the call stands in
    the function itself. ``of_row`` is the innermost scope of each row, or -1."""

    site: I64
    name: U32
    parent: I64
    of_row: I64
    warnings: tuple[str, ...]


_NOTHING = np.zeros(0, np.int64)
_NONE = _Tree(_NOTHING, _NOTHING.astype(np.uint32), _NOTHING, _NOTHING, ())


def _tree(site: U32, name: U32) -> _Tree:
    """A call site is an earlier row than those inlined there, so scopes sorted by call site have parents first."""
    inlined = np.flatnonzero(site > 0)
    keys, number = np.unique(site[inlined].astype(np.uint64) << np.uint64(32) | name[inlined], return_inverse=True)
    of_row = np.full(len(site), -1)
    of_row[inlined] = number.reshape(-1)
    rows = (keys >> np.uint64(32)).astype(np.int64) - 1
    parent = of_row[rows]
    deep = np.flatnonzero(_too_deep(parent))
    lost = np.isin(of_row, deep)
    warnings = (f"left out: the callers of {counted(int(lost.sum()), 'row')} inlined more than {MAX_DEPTH} deep",)
    of_row[lost] = -1
    return _Tree(rows, keys.astype(np.uint32), parent, of_row, warnings if len(deep) else ())


def _too_deep(parent: I64) -> Mask:
    at = np.arange(len(parent))
    for _ in range(MAX_DEPTH):
        at = np.where(at >= 0, parent[at], -1)
    return at >= 0


def _placed(tree: _Tree, owner: I64, used: I64, first: int) -> I64:
    """The parents of a tree's scopes where these are numbered from ``first`` and functions are as in ``used``."""
    return np.where(tree.parent >= 0, tree.parent + first, np.searchsorted(used, owner[tree.site]))


@dataclass(frozen=True, slots=True)
class _Judged:
    """What is doubted of rows and scopes: ``placeless`` are the scopes whose call has no place that is sure; ``nobody`` are the rows of which nobody knows where they
    were inlined, and ``contradictory`` these and those inlined, directly or not, at a place that is not sure or into a function without a name."""

    placeless: Mask
    nobody: Mask
    contradictory: Mask

    @classmethod
    def of(cls, rows: LineRows, calls: RowCalls, tree: _Tree, owner: I64, *, leaves_out_files: bool) -> _Judged:
        lost = (calls.doubt & np.uint8(Doubt.CALLER)) != 0
        placeless = _has_unsure_file(rows, tree, owner) if leaves_out_files else np.zeros(len(tree.site), np.bool_)
        of_nobody, unsure = lost[tree.site], placeless | (tree.name == 0)
        for scope, parent in enumerate(tree.parent.tolist()):
            if parent >= 0:
                of_nobody[scope] |= of_nobody[parent]
                unsure[scope] |= unsure[parent]
        inlined = tree.of_row >= 0
        nobody, contradictory = lost.copy(), lost.copy()
        nobody[inlined] |= of_nobody[tree.of_row[inlined]]
        contradictory[inlined] |= (of_nobody | unsure)[tree.of_row[inlined]]
        return cls(placeless, nobody, contradictory)


def _has_unsure_file(rows: LineRows, tree: _Tree, owner: I64) -> Mask:
    """Scopes whose call stands in a function with rows of several files, and the row of the call does not change the file: it may be that of the row before."""
    body = np.where(tree.of_row >= 0, tree.of_row, -2 - owner)
    pairs = np.unique(np.stack([body, rows.file.astype(np.int64)]), axis=1)
    bodies, files = np.unique(pairs[0], return_counts=True)
    same = np.append(False, rows.file[1:] == rows.file[:-1])
    found: Mask = np.isin(body[tree.site], bodies[files > 1]) & same[tree.site]
    return found


def _chains(rows: LineRows, tree: _Tree, owner: I64, placeless: Mask, known: dict[tuple[int, ...], int]) -> I64:
    """For each row the number of what its chain of inlined calls says (names and places), -1 where it is none; ``known`` numbers the chains."""
    number = np.zeros(len(tree.site), np.int64)
    columns = (rows.file, rows.line, rows.column, owner)
    places = zip(*(each[tree.site].tolist() for each in columns), strict=True)
    scopes = zip(tree.parent.tolist(), tree.name.tolist(), placeless.tolist(), places, strict=True)
    for scope, (parent, name, has_none, place) in enumerate(scopes):
        around = int(number[parent]) if parent >= 0 else -2 - place[-1]
        key = (around, name) if has_none else (around, name, *place[:-1])
        number[scope] = known.setdefault(key, len(known))
    return np.append(number, -1)[tree.of_row]


def _smallest_function(rows: LineRows, numbers: I64, functions: Sequence[Function]) -> I64:
    """For each of some rows the number of the smallest function around it, or -1."""
    places = _place(rows.section[numbers], rows.offset[numbers])
    order = np.argsort(places, kind="stable")
    section = np.array([function.section_index for function in functions], np.uint64)
    offset = np.array([function.offset for function in functions], np.uint64)
    size = np.array([function.size for function in functions], np.uint64)
    first = np.searchsorted(places[order], _place(section, offset)).tolist()
    last = np.searchsorted(places[order], _place(section, offset + size)).tolist()
    painted = np.full(len(places), -1)
    for number in np.argsort(size, kind="stable")[::-1].tolist():
        painted[first[number] : last[number]] = number
    found = np.empty_like(painted)
    found[order] = painted
    return found


def _place(section: U32 | U64, offset: U64) -> U64:
    """Section and offset as one number that sorts like the pair."""
    return section.astype(np.uint64) << np.uint64(44) | np.minimum(offset, np.uint64((1 << 44) - 1))


def _ends(rows: LineRows, functions: Sequence[Function]) -> U64:
    """Where each row ends: with the next row, or where another function symbol begins, of whose code it says nothing."""
    end = rows.ends()
    begins = np.unique(_place(
        np.array([function.section_index for function in functions], np.uint64),
        np.array([function.offset for function in functions], np.uint64),
    ))  # fmt: skip
    if len(begins):
        place = _place(rows.section, rows.offset)
        after = np.append(begins, np.uint64((1 << 64) - 1))[np.searchsorted(begins, place, side="right")]
        end = np.minimum(end, rows.offset + (after - place))
    return end


class _Spans(NamedTuple):
    """Spans of code as equally long columns: whose they are, and where they begin and end."""

    scope: I64
    section: U32
    start: U64
    end: U64

    def at(self, which: I64 | NDArray[np.bool_]) -> _Spans:
        return _Spans(self.scope[which], self.section[which], self.start[which], self.end[which])

    def joined(self) -> _Spans:
        """In order, those of a scope that follow one on the other as one."""
        ordered = self.at(np.lexsort((self.start, self.section, self.scope)))
        scope, section, start, end = ordered
        apart = (np.diff(scope) != 0) | (section[1:] != section[:-1]) | (start[1:] != end[:-1])
        begins, ends = np.ones(len(scope), np.bool_), np.ones(len(scope), np.bool_)
        begins[1:] = apart
        ends[:-1] = apart
        return ordered.at(begins)._replace(end=end[ends])


def _ranges(rows: LineRows, of_row: I64, parent: I64, end: U64, spend: Callable[[int], object]) -> _Spans:
    """Each row's span for its scope and every scope around, neighbours joined."""
    row = np.flatnonzero((of_row >= 0) & (end > rows.offset))
    spans = _Spans(of_row[row], rows.section[row], rows.offset[row], end[row]).joined()
    found = [spans]
    while len(spans.scope):
        spend(len(spans.scope))
        around = parent[spans.scope]
        spans = spans._replace(scope=around).at(around >= 0).joined()
        found.append(spans)
    scope, section, start, stop = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return _Spans(scope, section, start, stop).joined()
