"""Where can a breakpoint for this source line go? One address for each function and each inlined copy that has the line, or
the name of the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, ObjectNotFound
from symd.index import Index
from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.breakpoints import BreakpointLocation, Located, Refusal, SourceLine
from symd.model.debug_info import RowFlag
from symd.model.sources import PathRule
from symd.query.owners import Owners
from symd.query.paths import base_name, matching, remapped

MAX_CANDIDATES = 64
"""So many candidates a refusal names."""

Numbers = NDArray[np.int64]
_LINE = re.compile(r"[0-9]{1,10}", re.ASCII)


def parse_source_line(text: str) -> SourceLine:
    """``FILE:LINE``. Raises ``BadQuery``."""
    file, _, line = text.strip().rpartition(":")
    if not file or not _LINE.fullmatch(line) or not 0 < int(line) < 1 << 32:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise BadQuery(f"{shown!r} is no source line", hint="write FILE:LINE, such as vadd.cl:8")
    return SourceLine(file, int(line))


def locate(
    index: Index, wanted: SourceLine, path: str | None = None, *, every: bool = False, rules: Sequence[PathRule] = ()
) -> Located:
    """The addresses of a source line in a module, or in the code object at ``path``.

    Without ``every`` one for each function and inlined copy: the lowest statement address (is_stmt) there, moved behind
    the prologue where it is the function's first; a line without statements slides to the next that has some. With
    ``every`` all statement addresses of just this line. Paths are given after ``rules``. Raises ObjectNotFound.
    """
    if path is not None and path not in index.objects:
        raise ObjectNotFound(
            f"there is no code object {path!r}", hint="symd info FILE lists them", metadata={"object": path}
        )
    files = _Files(index, path)
    found = matching(files.paths, wanted.file, rules)
    if len(found) != 1:
        return _no_file(wanted, found, files.paths, rules)
    ((file, spellings),) = found.items()
    rows = _statements(index, files, spellings, path)
    lines = index.columns["row_line"][rows].astype(np.int64)
    later = lines[lines >= wanted.line]
    last = int(lines.max(initial=0)) or None
    if not len(later):
        refusal = Refusal.PAST_END if last else Refusal.NO_CODE_AT_LINE
        return Located(wanted, (), refusal, (file,), last)
    line = int(later.min())
    if every and line != wanted.line:
        return Located(wanted, (), Refusal.NO_CODE_AT_LINE, (file,), last)
    spots = _Spots(index, rows[lines == line], rules, slid=line != wanted.line)
    return Located(wanted, spots.every() if every else spots.chosen())


class _Files:
    """The source files of a module: paths by string number."""

    def __init__(self, index: Index, path: str | None) -> None:
        objects = index.columns["place_object"][index.chosen_places(path)]
        own = np.isin(index.columns["file_object"], objects)
        self.numbers = np.unique(index.columns["file_name"][own]).tolist()
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
    similar = sorted({remapped(path, rules) for path in paths if base_name(path).lower() == name})
    return Located(wanted, (), Refusal.NO_SUCH_FILE, tuple(similar[:MAX_CANDIDATES]))


def _statements(index: Index, files: _Files, spellings: Sequence[str], path: str | None) -> Numbers:
    """The rows of these files that begin a statement, in a text section that may be meant."""
    columns = index.columns
    flags = columns["row_flags"]
    begins = (flags & (RowFlag.IS_STMT | RowFlag.END_SEQUENCE)) == RowFlag.IS_STMT
    rows = np.flatnonzero(
        begins & np.isin(columns["row_file"], files.numbers_of(spellings)) & (columns["row_line"] > 0)
    )
    place = columns["row_place"][rows]
    inside = columns["row_offset"][rows] < columns["place_size"][place]
    return rows[inside & np.isin(place, index.chosen_places(path))]


class _Spots:
    """Rows of one line with the frames that they belong to, by place and offset; of several at one address the last."""

    def __init__(self, index: Index, rows: Numbers, rules: Sequence[PathRule], *, slid: bool) -> None:
        self.index = index
        self.columns = index.columns
        self.rules = rules
        self.slid = slid
        self.owners = Owners(index)
        self.rows = _last_at_address(index, rows)
        self.place = self.columns["row_place"][self.rows].astype(np.int64)
        self.offset = self.columns["row_offset"][self.rows].astype(np.uint64)
        self.position = self.owners.position(self.place, self.offset)
        self.leaf = index.locate(self.place, self.offset).astype(np.int64)
        self.frame = _frames(index, self.rows, self.leaf)
        self.owner = self.owners.of(self.frame, self.position)

    def every(self) -> tuple[BreakpointLocation, ...]:
        """Every address once."""
        return self._sorted(map(self._spot, range(len(self.rows))))

    def chosen(self) -> tuple[BreakpointLocation, ...]:
        """The lowest address of each owner, behind the prologue where it is the owner's first. What nobody owns counts
        by its kernel."""
        nobody = self.owner == 0
        kernel = self.columns["location_kernel"][self.leaf].astype(np.int64)
        key = np.stack([self.owner, np.where(nobody, self.place, 0), np.where(nobody, kernel, 0)])
        first = np.unique(key, axis=1, return_index=True)[1]
        return self._sorted(map(self._entered, first.tolist()))

    def _entered(self, at: int) -> BreakpointLocation:
        """The spot of row ``at``; behind the prologue when the row stands where its function begins."""
        extent, position = self.owners.extent(int(self.owner[at])), int(self.position[at])
        if extent is None or extent.start != position:
            return self._spot(at)
        behind = self.owners.prologue_end(extent)
        return self._spot(at) if behind in (None, position) else self._behind(at, behind - position)

    def _spot(self, at: int) -> BreakpointLocation:
        """The spot of a row, with the row's own position."""
        row = int(self.rows[at])
        file, line, column = (int(self.columns[f"row_{name}"][row]) for name in ("file", "line", "column"))
        return self._made(at, int(self.offset[at]), int(self.leaf[at]), int(self.frame[at]), (file, line, column))

    def _behind(self, at: int, distance: int) -> BreakpointLocation:
        """The spot so many bytes behind a row, with the position that the row's function has there."""
        offset = int(self.offset[at]) + distance
        leaf = int(self.index.locate(self.place[at : at + 1], np.array([offset], np.uint64))[0])
        frame = leaf
        while int(self.columns["location_parent"][frame]) and self._owner_of(frame) != self.owner[at]:
            frame = int(self.columns["location_parent"][frame])
        file, line, column = (int(self.columns[f"location_{name}"][frame]) for name in ("file", "line", "column"))
        return self._made(at, offset, leaf, frame, (file, line, column))

    def _owner_of(self, frame: int) -> int:
        return int(self.owners.of(np.array([frame]), np.array([-1]))[0])

    def _made(self, at: int, offset: int, leaf: int, frame: int, position: tuple[int, int, int]) -> BreakpointLocation:
        where, strings = self.index.places[int(self.place[at])], self.index.strings
        file, line, column = position
        extent = self.owners.extent(int(self.owner[at]))
        return BreakpointLocation(
            where.path,
            strings[int(self.columns["location_kernel"][leaf])] or None,
            extent.name if extent else strings[int(self.columns["location_function"][frame])] or None,
            where.section,
            where.section_index,
            SectionOffset(offset),
            ObjectAddress(where.address + offset),
            remapped(strings[file], self.rules),
            line,
            column,
            bool(self.columns["location_inlined"][frame]),
            self.slid,
        )

    def _sorted(self, spots: Iterable[BreakpointLocation]) -> tuple[BreakpointLocation, ...]:
        number = {path: at for at, path in enumerate(self.index.objects)}
        return tuple(sorted(spots, key=lambda s: (s.kernel or "", number[s.path], s.section_index, s.section_offset)))


def _last_at_address(index: Index, rows: Numbers) -> Numbers:
    """The rows by place and offset, of several at one address the last."""
    place, offset = index.columns["row_place"][rows], index.columns["row_offset"][rows]
    order = np.lexsort((offset, place))
    place, offset = place[order], offset[order]
    again = (place[1:] == place[:-1]) & (offset[1:] == offset[:-1])
    last: Numbers = np.append(~again, True)[: len(rows)]
    return rows[order][last]


def _frames(index: Index, rows: Numbers, leaf: Numbers) -> Numbers:
    """The frame that each row belongs to: the innermost at its address that stands at the row's position. A row that the
    next one at its address covers up can be the call of what is inlined there; else the innermost frame has it."""
    columns = index.columns
    file, line = columns["row_file"][rows], columns["row_line"][rows]
    frame, at = leaf.copy(), leaf
    open_ = np.ones(len(rows), np.bool_)
    while np.any(open_ & (at != 0)):
        hit = open_ & (at != 0) & (columns["location_file"][at] == file) & (columns["location_line"][at] == line)
        frame[hit] = at[hit]
        open_ &= ~hit
        at = columns["location_parent"][at].astype(np.int64)
    return frame
