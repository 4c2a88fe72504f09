"""Where a breakpoint can go: for a source line one address in each function and each inlined copy that has the line, or
the name of the reason why there is none; for a function the first byte of its own code, after the prologue if the debug
data says where that ends, and the first byte of each inlined copy, or of each of its address ranges; for a kernel the
same; for a query each byte that it means. Also what one module answers to waiting breakpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.model.addresses import ByAddress, ByDevice, ByKernel, BySection, Query, wrong_query
from symd.model.breakpoints import (
    SILENT,
    Breakpoint,
    BreakpointLocation,
    FunctionName,
    KernelName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
)
from symd.model.cancellation import check_cancelled
from symd.model.columns import I64
from symd.model.debug_info import RowFlag
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.model.sources import PathRule
from symd.query.code_places import CodePlaces, has_doubted_line
from symd.query.function_names import starts_of_each, suggestions
from symd.query.names import MAX_PATTERN, find_names
from symd.query.source_files import Remapping, base_name, matching
from symd.query.symbolize import NameSearchBudget


def locate(
    index: Index,
    wanted: LocationSpec,
    path: str | None = None,
    *,
    every_address: bool = False,
    rules: Sequence[PathRule] = (),
    targets: Sequence[str] = (),
) -> Located:
    """The addresses of a place in a module, or in the code object at ``path``, or in those for one of ``targets``.

    Of a source line, without ``every_address``, one for each function and inlined copy: the lowest statement address
    (is_stmt) there, moved past the prologue where it is the function's first; a line without statements slides to the
    next that has some, in each instance of the template, and each inlined copy of the function, that it is in; a
    column without any to the next of its line, and behind the last to the whole line. With ``every_address`` all
    statement addresses of just this line. Paths are given after ``rules``. Of other places see
    ``symd.query.breakpoints``. Raises ObjectNotFound.
    """
    if path is not None and path not in index.objects:
        raise ObjectNotFound.at(path, index.objects)
    sections = index.chosen_sections(path)
    chosen = _for_targets(index, sections, targets)
    if targets and not len(chosen):
        there = {index.targets[number] or "" for number in index.columns.section_object[sections].tolist()}
        return Located(wanted, (), Refusal.OTHER_TARGET, tuple(sorted(there - {""})[:MAX_CANDIDATES]))
    if isinstance(wanted, SourceLine):
        return _locate_line(index, wanted, chosen, rules, every_address=every_address)
    if isinstance(wanted, ByDevice):
        raise wrong_query(wanted)
    return locate_named(index, wanted, path, chosen, rules)


def _for_targets(index: Index, sections: Column, targets: Sequence[str]) -> Column:
    """The text sections of code objects for one of ``targets``; none: all."""
    if not targets:
        return sections
    fits = [bool({target, (target or "").partition(":")[0]} & set(targets)) for target in index.targets]
    return sections[np.array(fits, np.bool_)[index.columns.section_object[sections]]]


def _locate_line(
    index: Index,
    wanted: SourceLine,
    chosen: Column,
    rules: Sequence[PathRule],
    *,
    every_address: bool,
) -> Located:
    files = _Files(index, chosen)
    found = matching(files.paths, wanted.file, rules)
    if len(found) != 1:
        return _no_file(wanted, found, files.paths, rules)
    ((file, spellings),) = found.items()

    # A line whose rows are all in doubt is refused: its code may be another line's.
    statements = _statements(index, files, spellings, chosen)
    rows = statements[~_doubted(index, statements)]
    lines = index.rows.line[rows].astype(np.int64)
    if wanted.line in index.rows.line[statements] and wanted.line not in lines:
        return Located(wanted, (), Refusal.CONTRADICTORY, (file,))

    at_line, is_other_column = _at_column(index, rows[lines == wanted.line], wanted.column)
    last_line = int(lines.max(initial=0)) or None
    if not len(at_line) and not (lines >= wanted.line).any():
        refusal = Refusal.PAST_END if last_line else Refusal.NO_CODE_AT_LINE
        return Located(wanted, (), refusal, (file,), last_line)

    # All addresses are wanted of just this place.
    slid = is_other_column or not len(at_line)
    if every_address and slid:
        return Located(wanted, (), Refusal.NO_CODE_AT_LINE, (file,), last_line)

    chosen_rows = at_line if len(at_line) else _slid(index, rows, lines, wanted.line)
    locations = _LineLocations(index, chosen_rows, rules, slid=slid)
    return Located(wanted, locations.every() if every_address else locations.chosen())


def _at_column(index: Index, rows: I64, column: int) -> tuple[I64, bool]:
    """(the rows of a line at ``column``, or else at the next column that has some, or else all; whether that is another
    place). All rows if none says a column, or no column is asked for."""
    columns = index.rows.column[rows].astype(np.int64)
    if not column or not columns.any():
        return rows, False
    later = columns[columns >= column]
    if not len(later):
        return rows, True
    nearest = int(later.min())
    return rows[columns == nearest], nearest != column


class _Files:
    """The source files of a module: paths by string number."""

    def __init__(self, index: Index, chosen: Column) -> None:
        objects = index.columns.section_object[chosen]
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


def _statements(index: Index, files: _Files, spellings: Sequence[str], chosen: Column) -> I64:
    """The rows of these files that begin a statement, in a text section that may be meant."""
    rows = index.rows
    begins = (rows.flags & (RowFlag.IS_STMT | RowFlag.END_SEQUENCE)) == RowFlag.IS_STMT
    found = np.flatnonzero(begins & np.isin(rows.file, files.numbers_of(spellings)) & (rows.line > 0))
    section = rows.section[found]
    inside = rows.offset[found] < index.columns.section_size[section]
    return found[inside & np.isin(section, chosen)]


def _slid(index: Index, rows: I64, lines: I64, wanted: int) -> I64:
    """The rows of the first line after ``wanted``; and where that line is in a function, as rows before and after
    it tell, those of the first line after it in each other instance and inlined copy: what ``if constexpr`` or the
    optimizer left has other lines there."""
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
    return has_doubted_line(index, section, offset)


class _LineLocations(CodePlaces):
    """Rows of one line with the frames that they belong to, by text section and offset; of several at one address the
    last."""

    def __init__(self, index: Index, rows: I64, rules: Sequence[PathRule], *, slid: bool) -> None:
        self.rows = _last_at_address(index, rows)
        section, offset = index.rows.section[self.rows].astype(np.int64), index.rows.offset[self.rows].astype(np.uint64)
        super().__init__(index, section, offset, rules, slid=slid)
        self.frame = _frames(index, self.rows, self.leaf)
        self.owner = self.owners.of(self.frame, self.position)

    def called(self) -> Column:
        """For each row a number that those of one function have in common: of its name without the arguments of a
        template, and of the line where it is declared."""
        declared = (self.locations.function[self.frame], self.locations.start_lines[self.frame])
        distinct, which = np.unique(np.stack(declared).astype(np.int64), axis=1, return_inverse=True)
        numbers: dict[tuple[str, int], int] = {}
        bare = ((self.text(name).partition("<")[0], line) for name, line in distinct.T.tolist())
        return np.array([numbers.setdefault(each, len(numbers)) for each in bare], np.int64)[which.reshape(-1)]

    def every(self) -> tuple[BreakpointLocation, ...]:
        """Every address once."""
        return self.sorted(map(self._at_row, range(len(self.rows))))

    def chosen(self) -> tuple[BreakpointLocation, ...]:
        """The lowest address of each owner, after the prologue where it is the owner's first. What nobody owns counts
        by its kernel."""
        nobody = self.owner == 0
        kernel = self.locations.kernel[self.leaf].astype(np.int64)
        key = np.stack([self.owner, np.where(nobody, self.section, 0), np.where(nobody, kernel, 0)])
        first = np.unique(key, axis=1, return_index=True)[1]
        return self.sorted(map(self._entered, first.tolist()))

    def _entered(self, at: int) -> BreakpointLocation:
        """The location of row ``at``; after the prologue when the row is where its function begins."""
        distance = self.prologue(at)
        return self.after(at, distance) if distance else self._at_row(at)

    def _at_row(self, at: int) -> BreakpointLocation:
        """The location of a row, with the row's own position in the source."""
        rows, row = self.index.rows, int(self.rows[at])
        position = int(rows.file[row]), int(rows.line[row]), int(rows.column[row])
        return self.made(at, int(self.offset[at]), int(self.leaf[at]), int(self.frame[at]), position)


def _last_at_address(index: Index, rows: I64) -> I64:
    """The rows by text section and offset, of several at one address the last."""
    section, offset = index.rows.section[rows], index.rows.offset[rows]
    order = np.lexsort((offset, section))
    section, offset = section[order], offset[order]
    again = (section[1:] == section[:-1]) & (offset[1:] == offset[:-1])
    last: I64 = np.append(~again, True)[: len(rows)]
    return rows[order][last]


def _frames(index: Index, rows: I64, leaf: I64) -> I64:
    """The frame that each row belongs to: the innermost at its address that is at the row's position. A row that
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


def answered(index: Index, breakpoints: Sequence[Breakpoint]) -> Iterator[tuple[Breakpoint, Located]]:
    """The answers that say something: a module without the file, or the function, says nothing."""
    for each in breakpoints:
        check_cancelled()
        try:
            answer = locate(
                index, each.where, each.path, every_address=each.every_address, rules=each.rules, targets=each.targets
            )
        except ObjectNotFound:
            continue
        if answer.refusal not in SILENT:
            yield each, answer


MAX_CANDIDATES = 64
"""The most candidates that a refusal names."""
_CALLABLE = frozenset((NameKind.KERNEL, NameKind.FUNCTION))


class _Begin(NamedTuple):
    """Where code of a function begins: the number of a text section, the offset in it, whose code it is, and whether
    it may be entered elsewhere."""

    section: int
    offset: int
    owner: int
    is_possible: bool = False


def locate_named(
    index: Index,
    wanted: FunctionName | KernelName | Query,
    path: str | None,
    chosen: Column,
    rules: Sequence[PathRule] = (),
) -> Located:
    """The addresses of a place in the text sections ``chosen``, which are of the code object at ``path`` where one is
    meant; or the reason why there are none. Raises ``BadQuery`` for a query of another kind, and ``LimitExceeded``."""
    budget = NameSearchBudget()
    if not isinstance(wanted, (FunctionName, KernelName)):
        return _locate_query(index, wanted, path, chosen, rules, budget)
    kinds = _CALLABLE if isinstance(wanted, FunctionName) else frozenset((NameKind.KERNEL,))
    named = 0 < len(wanted.name) <= MAX_PATTERN
    items = find_names(index, NameQuery(wanted.name, kinds=kinds), path) if named else ()
    begins = list(_own(index, items))
    if isinstance(wanted, FunctionName):
        begins += _inlined(index, items)
    inside = set(chosen.tolist())
    sizes = index.columns.section_size
    begins = [each for each in dict.fromkeys(begins) if each.section in inside and each.offset < sizes[each.section]]
    if not begins:
        return Located(wanted, (), Refusal.NO_SUCH_FUNCTION, _like(index, wanted, path, budget))
    section, offset, owner, is_possible = (np.array(column) for column in zip(*begins, strict=True))
    places = CodePlaces(index, section.astype(np.int64), offset.astype(np.uint64), rules)
    return Located(wanted, places.entered(owner.astype(np.int64), is_possible))


def _like(
    index: Index, wanted: FunctionName | KernelName, path: str | None, budget: NameSearchBudget
) -> tuple[str, ...]:
    """The names of functions, or of kernels, that may be meant by one that does not exist."""
    if isinstance(wanted, KernelName):
        kernels = find_names(index, NameQuery("*", Match.GLOB, frozenset((NameKind.KERNEL,))), path)
        return tuple(dict.fromkeys(each.name for each in kernels[:MAX_CANDIDATES]))
    (found,) = suggestions(index, (wanted.name,), path, budget)
    return tuple(dict.fromkeys(each.function for each in found if each.function))


def _own(index: Index, items: Sequence[NamedItem]) -> Iterator[_Begin]:
    """Where functions and kernels begin that have code of their own; those at one place once."""
    numbers = index.section_numbers
    functions, strings = index.functions, index.strings
    seen: set[tuple[int, int]] = set()
    for each in items:
        section, offset = numbers.get((each.path, each.section_index or 0), -1), each.section_offset
        if offset is None or section < 0 or (section, offset) in seen:
            continue
        seen.add((section, offset))
        rows = np.flatnonzero((functions.section == section + 1) & (functions.offset == offset)).tolist()
        called = [
            row for row in rows if each.name in (strings[functions.name[row]], strings[functions.linkage_name[row]])
        ]
        yield _Begin(section, offset, min((int(functions.owner[row]) for row in called or rows), default=0))


def _inlined(index: Index, items: Sequence[NamedItem]) -> Iterator[_Begin]:
    """Where the inlined copies of functions begin. A copy in several ranges can be entered at the start of any of them:
    a compiler that rotates a loop puts its last part first, and none of those that symd reads says DW_AT_entry_pc."""
    columns = index.columns
    names = index.strings.equal_to({text for each in items for text in (each.name, each.linkage_name) if text})
    pairs = {
        (name, linkage)
        for each in items
        for name in names[each.name]
        for linkage in (names[each.linkage_name] if each.linkage_name else (0,))
    }
    calls = index.derived.calls
    copies = calls[np.isin(columns.owner_name[calls], [name for name, _ in pairs])]
    bases = columns.section_base.astype(np.uint64)
    for owner in copies.tolist():
        called = int(columns.owner_name[owner]), int(columns.owner_linkage_name[owner])
        if called not in pairs:
            continue
        runs = index.derived.runs_of(owner)
        for begin in runs:
            section = int(np.searchsorted(bases, begin, side="right")) - 1
            yield _Begin(section, int(begin) - int(bases[section]), owner, len(runs) > 1)


def _locate_query(
    index: Index,
    wanted: Query,
    path: str | None,
    chosen: Column,
    rules: Sequence[PathRule],
    budget: NameSearchBudget,
) -> Located:
    columns = index.columns
    refusal = Refusal.OUTSIDE_TEXT
    candidates: tuple[str, ...] = ()
    sizes = columns.section_size[chosen].astype(np.uint64)
    if isinstance(wanted, ByAddress):
        offsets = np.uint64(wanted.address) - columns.section_address[chosen].astype(np.uint64)  # modulo 2^64
        found = [(int(chosen[at]), int(offsets[at])) for at in np.flatnonzero(offsets < sizes).tolist()]
    elif isinstance(wanted, BySection):
        texts = [(int(number), index.sections[number]) for number in chosen.tolist()]
        called = [number for number, text in texts if wanted.section in (text.section, text.section_index)]
        if not called:
            refusal = Refusal.NO_SUCH_SECTION
            candidates = tuple(dict.fromkeys(text.section or f"#{text.section_index}" for _, text in texts))
        found = [(number, int(wanted.offset)) for number in called if wanted.offset < index.section_size(number)]
    elif isinstance(wanted, ByKernel):
        inside = set(chosen.tolist())
        starts = [
            each
            for each in starts_of_each(index, (wanted.kernel,), path, budget)[wanted.kernel]
            if each.section in inside
        ]
        refusal = Refusal.PAST_END
        if not starts:
            refusal, candidates = Refusal.NO_SUCH_FUNCTION, _like(index, FunctionName(wanted.kernel), path, budget)
        found = [(each.section, each.offset + wanted.offset) for each in starts if wanted.offset < each.bytes_left]
    else:
        raise wrong_query(wanted)
    if not found:
        return Located(wanted, (), refusal, candidates[:MAX_CANDIDATES])
    section, offset = (np.array(column) for column in zip(*found, strict=True))
    return Located(wanted, CodePlaces(index, section.astype(np.int64), offset.astype(np.uint64), rules).innermost())
