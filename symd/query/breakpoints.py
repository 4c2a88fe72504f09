"""Where can a breakpoint for this source line go? One address for each function and each inlined copy that has the
line, or the name of the reason why there is none.

Whose code is it? The functions and inlined copies that locations belong to, and where functions begin and end.

What one module answers to the breakpoints that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.answers import Reason
from symd.model.breakpoints import Breakpoint, BreakpointLocation, Located, Refusal, Resolved, SourceLine
from symd.model.columns import I64, U64
from symd.model.debug_info import RowFlag
from symd.model.identities import Digest
from symd.model.sources import PathRule
from symd.model.waiting import never_cancelled
from symd.query.paths import Remapping, base_name, matching


@dataclass(frozen=True, slots=True)
class CodeExtent:
    """A function with code of its own: its name and its first and last byte, as text positions (``section_base`` plus
    offset), the last excluded."""

    name: str | None
    start: int
    end: int


class OwnerSpans:
    """Owners of an index (docs/index-format.md, ``LocationTable.owner``), a function with one number wherever it is."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._functions = functions = index.functions
        owner = functions.owner.astype(np.int64)
        own = np.flatnonzero((owner > 0) & (functions.section > 0) & (functions.size > 0))
        start = self.position(functions.section[own].astype(np.int64) - 1, functions.offset[own])
        order = np.argsort(start, kind="stable")
        self._rows, self._start = own[order], start[order]
        self._size = functions.size[self._rows].astype(np.uint64)
        self._owner = owner[self._rows]
        self._extents: dict[int, CodeExtent] = {}
        self._names: dict[int, str] = {}

    def position(self, section: Column, offset: Column) -> U64:
        """Text positions of offsets in text sections."""
        return self._index.columns.section_base.astype(np.uint64)[section] + offset.astype(np.uint64)

    def of(self, locations: I64, position: U64) -> I64:
        """Who each location belongs to, given where it is asked for; 0: nobody.

        Where no scope reaches, because the debug data contradicts itself or begins late, the innermost function around
        has the code.
        """
        owner, scopeless = self._told(locations)
        if not len(self._start):
            return owner
        at = np.maximum(np.searchsorted(self._start, position, side="right") - 1, 0)
        inside = scopeless & (self._start[at] <= position) & (position - self._start[at] < self._size[at])
        return np.where(inside, self._owner[at], owner)

    def of_scope(self, location: int) -> int:
        """Who a location belongs to by its own scope; 0: nobody."""
        return int(self._told(np.array([location]))[0][0])

    def _told(self, locations: I64) -> tuple[I64, NDArray[np.bool_]]:
        """(who each location belongs to by its own scope, whether no scope reaches it)."""
        owner = self._index.location_owner[locations].astype(np.int64)
        symbol, function = self._symbols
        if len(symbol):
            at = np.minimum(np.searchsorted(symbol, owner), len(symbol) - 1)
            scopeless = (owner == 0) | (symbol[at] == owner)
            return np.where(symbol[at] == owner, function[at], owner), scopeless
        return owner, owner == 0

    @cached_property
    def _symbols(self) -> tuple[I64, I64]:
        """I64 of symbols, growing, and of the functions that they are symbols of."""
        symbol = self._functions.symbol.astype(np.int64)
        known = np.flatnonzero(symbol)
        known = known[np.argsort(symbol[known])]
        return symbol[known], self._functions.owner[known].astype(np.int64)

    def extent(self, owner: int) -> CodeExtent | None:
        """None for an inlined copy, and for nobody."""
        at = self._slot_of.get(owner)
        if at is None:
            return None
        found = self._extents.get(at)
        if found is None:
            number, start = int(self._functions.name[self._rows[at]]), int(self._start[at])
            if number not in self._names:  # the same object for all functions of the name, which may be long
                self._names[number] = self._index.strings[number]
            found = self._extents[at] = CodeExtent(self._names[number] or None, start, start + int(self._size[at]))
        return found

    @cached_property
    def _slot_of(self) -> dict[int, int]:
        return {owner: at for at, owner in enumerate(self._owner.tolist())}

    def prologue_end(self, extent: CodeExtent) -> int | None:
        """The position of the function's first row that says prologue_end."""
        first = int(np.searchsorted(self._prologues, np.uint64(extent.start)))
        if first == len(self._prologues):
            return None
        position = int(self._prologues[first])
        return position if position < extent.end else None

    @cached_property
    def _prologues(self) -> U64:
        rows = self._index.rows
        ends = np.flatnonzero(rows.flags & RowFlag.PROLOGUE_END)
        return np.sort(self.position(rows.section[ends], rows.offset[ends]))


MAX_CANDIDATES = 64
"""The most candidates that a refusal names."""


def locate(
    index: Index,
    wanted: SourceLine,
    path: str | None = None,
    *,
    every_address: bool = False,
    rules: Sequence[PathRule] = (),
    check_cancelled: Callable[[], None] = never_cancelled,
) -> Located:
    """The addresses of a source line in a module, or in the code object at ``path``.

    Without ``every_address`` one for each function and inlined copy: the lowest statement address (is_stmt) there, moved past
    the prologue where it is the function's first; a line without statements slides to the next that has some, in each instance of
    the template, and each inlined copy of the function, that it stands in. With
    ``every_address`` all statement addresses of just this line. Paths are given after ``rules``. Raises ObjectNotFound, and what ``check_cancelled`` raises.
    """
    if path is not None and path not in index.objects:
        raise ObjectNotFound.at(path, index.objects)
    files = _Files(index, path)
    found = matching(files.paths, wanted.file, rules, check_cancelled)
    if len(found) != 1:
        return _no_file(wanted, found, files.paths, rules)
    ((file, spellings),) = found.items()
    every = _statements(index, files, spellings, path)
    rows = every[~_doubted(index, every)]
    lines = index.rows.line[rows].astype(np.int64)
    if wanted.line in index.rows.line[every] and wanted.line not in lines:
        return Located(wanted, (), Refusal.CONTRADICTORY, (file,))
    later = lines[lines >= wanted.line]
    last = int(lines.max(initial=0)) or None
    if not len(later):
        refusal = Refusal.PAST_END if last else Refusal.NO_CODE_AT_LINE
        return Located(wanted, (), refusal, (file,), last)
    line = int(later.min())
    if every_address and line != wanted.line:
        return Located(wanted, (), Refusal.NO_CODE_AT_LINE, (file,), last)
    chosen = rows[lines == line] if line == wanted.line else _slid(index, rows, lines, wanted.line)
    locations = _LineLocations(index, chosen, rules, slid=line != wanted.line)
    return Located(wanted, locations.every() if every_address else locations.chosen())


class _Files:
    """The source files of a module: paths by string number."""

    def __init__(self, index: Index, path: str | None) -> None:
        objects = index.columns.section_object[index.chosen_sections(path)]
        own = np.isin(index.columns.file_object, objects)
        self.numbers = np.unique(index.columns.file_name[own]).tolist()
        self.paths = [index.strings[number] for number in self.numbers]

    def numbers_of(self, spellings: Sequence[str]) -> list[int]:
        wanted = set(spellings)
        return [number for number, path in zip(self.numbers, self.paths, strict=True) if path in wanted]


def _no_file(
    wanted: SourceLine, found: dict[str, list[str]], paths: Sequence[str], rules: Sequence[PathRule]
) -> Located:
    if found:
        return Located(wanted, (), Refusal.AMBIGUOUS_FILE, tuple(sorted(found)[:MAX_CANDIDATES]))
    name = base_name(wanted.file).lower()
    remapping = Remapping(rules)
    similar = sorted({remapping.of(path) for path in paths if base_name(path).lower() == name})
    return Located(wanted, (), Refusal.NO_SUCH_FILE, tuple(similar[:MAX_CANDIDATES]))


def _statements(index: Index, files: _Files, spellings: Sequence[str], path: str | None) -> I64:
    """The rows of these files that begin a statement, in a text section that may be meant."""
    rows = index.rows
    begins = (rows.flags & (RowFlag.IS_STMT | RowFlag.END_SEQUENCE)) == RowFlag.IS_STMT
    found = np.flatnonzero(begins & np.isin(rows.file, files.numbers_of(spellings)) & (rows.line > 0))
    section = rows.section[found]
    inside = rows.offset[found] < index.columns.section_size[section]
    return found[inside & np.isin(section, index.chosen_sections(path))]


def _slid(index: Index, rows: I64, lines: I64, wanted: int) -> I64:
    """The rows of the first line after ``wanted``; and where that line stands in a function, as rows before and after it tell, those of the
    first line after it in each other instance and inlined copy: what ``if constexpr`` or the optimizer left has other lines there."""
    first: I64 = rows[lines == int(lines[lines >= wanted].min())]
    every = _LineLocations(index, rows, (), slid=True)
    line = index.rows.line[every.rows].astype(np.int64)
    called = every.called()
    own = np.isin(called, called[np.isin(every.rows, first) & (every.owner != 0)]) & (every.owner != 0)
    own &= np.isin(called, called[own & (line < wanted)])
    later = np.flatnonzero(own & (line >= wanted))
    if not len(later):
        return first
    order = later[np.lexsort((line[later], every.owner[later]))]
    owner, begins = np.unique(every.owner[order], return_index=True)
    nearest = line[order[begins]]
    chosen = order[line[order] == nearest[np.searchsorted(owner, every.owner[order])]]
    found: I64 = np.union1d(first, every.rows[chosen])
    return found


def _doubted(index: Index, rows: I64) -> NDArray[np.bool_]:
    """Whether the debug data contradicts itself where the rows begin, and the line does not hold."""
    if not len(index.columns.written_range):
        return np.zeros(len(rows), np.bool_)
    section, offset = index.rows.section[rows].astype(np.int64), index.rows.offset[rows].astype(np.uint64)
    return _has_doubted_line(index, section, offset)


def _has_doubted_line(index: Index, section: Column, offset: Column) -> NDArray[np.bool_]:
    at = index.location_numbers(section, offset)
    found: NDArray[np.bool_] = (index.locations.reason[at] == Reason.CONTRADICTORY) & (index.locations.line[at] == 0)
    return found


class _LineLocations:
    """Rows of one line with the frames that they belong to, by text section and offset; of several at one address the
    last."""

    def __init__(self, index: Index, rows: I64, rules: Sequence[PathRule], *, slid: bool) -> None:
        self.index = index
        self.locations = index.locations
        self.remapping = Remapping(rules)
        self.slid = slid
        self._texts: dict[int, str] = {}
        self._paths: dict[int, str] = {}
        self.owners = OwnerSpans(index)
        self.rows = _last_at_address(index, rows)
        self.section = index.rows.section[self.rows].astype(np.int64)
        self.offset = index.rows.offset[self.rows].astype(np.uint64)
        self.position = self.owners.position(self.section, self.offset)
        self.leaf = index.location_numbers(self.section, self.offset).astype(np.int64)
        self.frame = _frames(index, self.rows, self.leaf)
        self.owner = self.owners.of(self.frame, self.position)

    def called(self) -> Column:
        """For each row a number that those of one function have in common: of its name without the arguments of a template, and of the line where it is declared."""
        declared = (self.locations.function[self.frame], self.locations.start_lines[self.frame])
        distinct, which = np.unique(np.stack(declared).astype(np.int64), axis=1, return_inverse=True)
        numbers: dict[tuple[str, int], int] = {}
        bare = ((self._text(name).partition("<")[0], line) for name, line in distinct.T.tolist())
        return np.array([numbers.setdefault(each, len(numbers)) for each in bare], np.int64)[which.reshape(-1)]

    def every(self) -> tuple[BreakpointLocation, ...]:
        """Every address once."""
        return self._sorted(map(self._at_row, range(len(self.rows))))

    def chosen(self) -> tuple[BreakpointLocation, ...]:
        """The lowest address of each owner, after the prologue where it is the owner's first. What nobody owns counts
        by its kernel."""
        nobody = self.owner == 0
        kernel = self.locations.kernel[self.leaf].astype(np.int64)
        key = np.stack([self.owner, np.where(nobody, self.section, 0), np.where(nobody, kernel, 0)])
        first = np.unique(key, axis=1, return_index=True)[1]
        return self._sorted(map(self._entered, first.tolist()))

    def _entered(self, at: int) -> BreakpointLocation:
        """The location of row ``at``; after the prologue when the row stands where its function begins."""
        extent, position = self.owners.extent(int(self.owner[at])), int(self.position[at])
        if extent is None or extent.start != position:
            return self._at_row(at)
        end = self.owners.prologue_end(extent)
        if end in (None, position) or self._doubted_after(at, end - position):
            return self._at_row(at)
        return self._after_row(at, end - position)

    def _doubted_after(self, at: int, distance: int) -> bool:
        offset = np.array([int(self.offset[at]) + distance], np.uint64)
        return bool(_has_doubted_line(self.index, self.section[at : at + 1], offset)[0])

    def _at_row(self, at: int) -> BreakpointLocation:
        """The location of a row, with the row's own position in the source."""
        rows, row = self.index.rows, int(self.rows[at])
        position = int(rows.file[row]), int(rows.line[row]), int(rows.column[row])
        return self._made(at, int(self.offset[at]), int(self.leaf[at]), int(self.frame[at]), position)

    def _after_row(self, at: int, distance: int) -> BreakpointLocation:
        """The location so many bytes after a row, with the position that the row's function has there."""
        offset = int(self.offset[at]) + distance
        leaf = int(self.index.location_numbers(self.section[at : at + 1], np.array([offset], np.uint64))[0])
        frame = leaf
        table = self.locations
        while int(table.parent[frame]) and self.owners.of_scope(frame) != self.owner[at]:
            frame = int(table.parent[frame])
        position = int(table.file[frame]), int(table.line[frame]), int(table.column[frame])
        return self._made(at, offset, leaf, frame, position)

    def _made(self, at: int, offset: int, leaf: int, frame: int, position: tuple[int, int, int]) -> BreakpointLocation:
        where, text = self.index.sections[int(self.section[at])], self._text
        file, line, column = position
        extent = self.owners.extent(int(self.owner[at]))
        return BreakpointLocation(
            where.path,
            text(int(self.locations.kernel[leaf])) or None,
            extent.name if extent else text(int(self.locations.function[frame])) or None,
            where.section,
            where.section_index,
            SectionOffset(offset),
            ObjectAddress(where.address + offset),
            self._file(file),
            line,
            column,
            bool(self.locations.inlined[frame]),
            self.slid,
        )

    def _text(self, number: int) -> str:
        """A string, the same object for all locations: there may be as many as rows, and it as long as whoever made the module liked."""
        found = self._texts.get(number)
        if found is None:
            found = self._texts[number] = self.index.strings[number]
        return found

    def _file(self, number: int) -> str:
        """The path of a file after the rules, in the same way."""
        found = self._paths.get(number)
        if found is None:
            found = self._paths[number] = self.remapping.of(self._text(number))
        return found

    def _sorted(self, locations: Iterable[BreakpointLocation]) -> tuple[BreakpointLocation, ...]:
        number = {path: at for at, path in enumerate(self.index.objects)}
        return tuple(
            sorted(locations, key=lambda s: (s.kernel or "", number[s.path], s.section_index, s.section_offset))
        )


def _last_at_address(index: Index, rows: I64) -> I64:
    """The rows by text section and offset, of several at one address the last."""
    section, offset = index.rows.section[rows], index.rows.offset[rows]
    order = np.lexsort((offset, section))
    section, offset = section[order], offset[order]
    again = (section[1:] == section[:-1]) & (offset[1:] == offset[:-1])
    last: I64 = np.append(~again, True)[: len(rows)]
    return rows[order][last]


def _frames(index: Index, rows: I64, leaf: I64) -> I64:
    """The frame that each row belongs to: the innermost at its address that stands at the row's position. A row that
    the next one at its address covers up can be the call of what is inlined there; else the innermost frame has it."""
    locations = index.locations
    file, line = index.rows.file[rows], index.rows.line[rows]
    frame, at = leaf.copy(), leaf
    open_ = np.ones(len(rows), np.bool_)
    while np.any(open_ & (at != 0)):
        hit = open_ & (at != 0) & (locations.file[at] == file) & (locations.line[at] == line)
        frame[hit] = at[hit]
        open_ &= ~hit
        at = locations.parent[at].astype(np.int64)
    return frame


def resolved(
    index: Index,
    digest: Digest,
    breakpoints: Sequence[Breakpoint],
    check_cancelled: Callable[[], None] = never_cancelled,
) -> Iterator[Resolved]:
    """The answers that say something: a module without the file says nothing. ``check_cancelled`` is called now and then, and raises when nobody waits
    any more."""
    for each in breakpoints:
        check_cancelled()
        try:
            answer = locate(
                index,
                each.where,
                each.path,
                every_address=each.every_address,
                rules=each.rules,
                check_cancelled=check_cancelled,
            )
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)
