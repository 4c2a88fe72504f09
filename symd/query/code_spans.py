"""The bytes of code objects that are meant by a function's name, a place or a range of a section; the rows of a line
table, or the instructions, that cover them; and how far an answer holds: the bytes of the row that covers the place, as
far as its function has them, and for each frame the bytes of its function, or of its inlined call, and the file in
which the function is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, KernelNotFound, LimitExceeded, NotFound, ObjectNotFound
from symd.index import Index
from symd.index.lookup import Start
from symd.model.addresses import ByDevice, Query, SectionOffset, SectionRange
from symd.model.answers import Answer, Answers, CodeRanges, FrameCode, Reason
from symd.model.cancellation import check_cancelled
from symd.model.columns import I64, U8, U32, U64
from symd.model.debug_info import RowFlag
from symd.model.line_tables import Around, CodePart, CodeSpan, Instructions
from symd.query import function_names
from symd.query.symbolize import NameSearchBudget, symbolize_one

_SHOWN = 8
"""The most names or places that an error lists."""

Rows = NDArray[np.intp]


def spans(index: Index, within: CodePart, path: str | None, budget: NameSearchBudget | None = None) -> list[CodeSpan]:
    """The bytes that are meant, in the order of the index; of a place one byte, of a kernel without code none. Raises
    ObjectNotFound where there is no code object at ``path``, KernelNotFound where there is no such function or it has
    no code, NotFound where there is no code there, BadQuery where several functions or places could be meant, and what
    ``budget`` raises."""
    if path is not None and not index.has_object(path):
        raise ObjectNotFound.at(path, index.objects)
    budget = budget or NameSearchBudget()
    match within:
        case str():
            return _of_function(index, within, path, budget)
        case Around(query):
            if isinstance(query, ByDevice):
                raise BadQuery(
                    "a line table is not asked for by device address",
                    hint="ask for the answer to it, which has its module and section offset",
                )
            return [_of_place(index, query, path, budget)]
        case SectionRange():
            return [_of_range(index, within, path)]
        case _ as never:
            assert_never(never)


def _of_function(index: Index, name: str, path: str | None, budget: NameSearchBudget) -> list[CodeSpan]:
    paths = (
        [index.objects[number] for number in index.reported_objects(path)]
        if index.columns.object_compiler_input.all()
        else [path]
    )
    places = [place for each in paths for place in function_names.starts(index, name, each, budget)]
    if not places:
        raise _no_function(index, name, path, budget)
    found = [(each, _extent(index, each)) for each in places if each.bytes_left or index.kernels_named(name)]
    if not found:
        raise KernelNotFound(f"{name!r} has no code", hint="the compiler left no instructions of it")
    names = sorted({called for _, (called, _) in found})
    if len(names) > 1:
        raise BadQuery(f"several functions are called {name!r}", hint=f"write one of {', '.join(names[:_SHOWN])}")
    return [_span(index, start.section, start.offset, start.offset + size) for start, (_, size) in found]


def function_extents(index: Index, name: str, path: str | None) -> list[tuple[int, int, int]]:
    """(text section, offset of the first byte, bytes) of each kernel or other function of that name that has code."""
    entries = [each for each in index.kernels_named(name) if each.size and index.is_chosen(each.section, path)]
    if entries:
        return [(each.section, each.offset, each.size) for each in entries]
    found = [each for each in function_names.starts(index, name, path) if each.bytes_left]
    return [(each.section, each.offset, _extent(index, each)[1]) for each in found]


def _extent(index: Index, start: Start) -> tuple[str, int]:
    """The name by which the function that begins there is asked for, and its bytes: a kernel's, else those of the
    largest function."""
    columns, functions = index.columns, index.functions
    kernels = np.flatnonzero((columns.kernel_section == start.section) & (columns.kernel_offset == start.offset))
    rows = np.flatnonzero((functions.section == start.section + 1) & (functions.offset == start.offset))
    if len(kernels):
        size = max(columns.kernel_size[kernels].tolist())
        return index.strings[columns.kernel_name.item(kernels[0])], min(size, start.bytes_left)
    row = rows[np.argmax(functions.size[rows])]
    linkage = index.strings[functions.linkage_name.item(row)]
    return linkage or index.strings[functions.name.item(row)], min(functions.size.item(row), start.bytes_left)


def _no_function(index: Index, name: str, path: str | None, budget: NameSearchBudget) -> KernelNotFound:
    spirv = next((each.section for each in index.kernels_named(name)), None) if path is None else None
    if spirv is not None:
        return KernelNotFound(
            f"there is no function {name!r}",
            hint=f"the SPIR-V has it: ask for the code object {index.sections[spirv].path!r}",
        )
    (like,) = function_names.suggestions(index, [name], path, budget)
    return _unknown(name, [each.function or "" for each in like])


def _unknown(name: str, like: Sequence[str]) -> KernelNotFound:
    hint = f"did you mean {' or '.join(dict.fromkeys(like))}?" if like else "look it up among the names of the module"
    return KernelNotFound(f"there is no function {name!r}", hint=hint, metadata={"function": name[:200]})


def _of_place(index: Index, query: Query, path: str | None, budget: NameSearchBudget) -> CodeSpan:
    answer = symbolize_one(index, query, path, budget)
    if answer.path is None or answer.section_index is None or answer.section_offset is None:
        raise _no_place(query, answer)
    return CodeSpan(answer.path, answer.section_index, answer.section_offset, answer.section_offset + 1)


def _no_place(query: Query, answer: Answer) -> BadQuery | NotFound:
    if answer.reason is Reason.AMBIGUOUS:
        shown = ", ".join(
            f"({each.section or f'#{each.section_index}'})+{each.section_offset:#x} of {each.path!r}"
            for each in answer.candidates[:_SHOWN]
        )
        return BadQuery(
            f"several places could be meant by {query}", hint=f"name one code object, or ask for one of {shown}"
        )
    if answer.reason is Reason.UNKNOWN_KERNEL:
        return _unknown(getattr(query, "kernel", ""), [each.function or "" for each in answer.candidates])
    return NotFound(f"there is no code at {query}", hint="the place lies in no section with code")


def _of_range(index: Index, wanted: SectionRange, path: str | None) -> CodeSpan:
    there = [(number, index.sections[number]) for number in index.chosen_sections(path).tolist()]
    found = [(number, text) for number, text in there if wanted.section in (text.section, text.section_index)]
    if not found:
        names = ", ".join(dict.fromkeys(text.section or f"#{text.section_index}" for _, text in there[:_SHOWN]))
        raise NotFound(f"there is no code in a section {wanted.section!r}", hint=f"code is in {names}" if names else "")
    if len(found) > 1:
        paths = ", ".join(f"{text.path!r} (section {text.section_index})" for _, text in found[:_SHOWN])
        raise BadQuery(
            f"there are several sections {wanted.section!r}",
            hint=f"name the code object and the section's number: {paths}",
        )
    number, _ = found[0]
    if wanted.start >= index.section_size(number):
        raise NotFound(
            f"section {wanted.section!r} ends before {wanted.start:#x}",
            hint=f"it has {index.section_size(number):#x} bytes",
        )
    return _span(index, number, wanted.start, min(wanted.end, index.section_size(number)))


def _span(index: Index, section: int, start: int, end: int) -> CodeSpan:
    text = index.sections[section]
    return CodeSpan(text.path, text.section_index, start, end)


def instructions_within(found: Instructions, within: CodePart, spans: Sequence[CodeSpan]) -> Rows | None:
    """The numbers of the instructions that are meant, in order; None where none covers the place, or has a byte in a
    span."""
    end = found.offset + found.size
    if not isinstance(within, Around):
        kept = np.zeros(len(found), np.bool_)
        for span in spans:
            kept |= (
                (found.section == span.section) & (found.offset < np.uint64(span.end)) & (end > np.uint64(span.start))
            )
        nothing = any(span.start < span.end for span in spans) and not kept.any()
        return None if nothing else np.flatnonzero(kept)
    (span,) = spans
    holders = np.flatnonzero(
        (found.section == span.section) & (found.offset <= np.uint64(span.start)) & (end > np.uint64(span.start))
    )
    if not len(holders):
        return None
    at = int(holders[0])
    first, last = _without_gap(found, at)
    return np.arange(max(first, at - within.before), min(last, at + within.after + 1))


def _without_gap(found: Instructions, at: int) -> tuple[int, int]:
    """The first and the end of the instructions around number ``at`` that stand without a gap."""
    end = found.offset + found.size
    gap = np.flatnonzero((found.section[1:] != found.section[:-1]) | (found.offset[1:] != end[:-1])) + 1
    after = int(np.searchsorted(gap, at, side="right"))
    return int(gap[after - 1]) if after else 0, int(gap[after]) if after < len(gap) else len(found)


def is_held(found: Instructions, span: CodeSpan) -> bool:
    """Whether the bytes of ``span`` are in instructions that stand without a gap, all in one range of code."""
    at = int(np.searchsorted(found.offset, np.uint64(span.start), side="right")) - 1
    if at < 0 or span.start >= int(found.offset[at]) + int(found.size[at]):
        return False
    last = _without_gap(found, at)[1] - 1
    return span.end <= int(found.offset[last]) + int(found.size[last])


def rows_within(section: U32, offset: U64, flags: U8, within: CodePart, spans: Sequence[tuple[int, int, int]]) -> Rows:
    """The numbers of the rows that are meant, of columns in table order whose sections are numbered as those of
    ``spans`` (section, start, end). Behind each row that covers a byte of a span stands the one that ends it."""
    covers = np.zeros(len(offset), np.bool_)
    closing = (flags & RowFlag.END_SEQUENCE) != 0
    next_offset = np.append(offset[1:], offset[-1:])
    holds = np.append(section[1:] == section[:-1], False) & ~closing  # nothing ends the last row of a table
    for number, start, end in spans:
        here = holds & (section == number) & (offset < np.uint64(end))
        covers |= here & ((next_offset > np.uint64(start)) | (offset >= np.uint64(start)))
    if not isinstance(within, Around):
        return np.flatnonzero(covers | np.append(False, covers[:-1]))
    covers &= next_offset > offset
    numbers = np.flatnonzero(covers)
    if not len(numbers):
        return numbers
    at = int(numbers[-1])
    return np.arange(max(at - within.before, 0), min(at + within.after + 1, len(offset)))


def places(index: Index, section: NDArray[np.int64], offset: U64) -> Iterator[str]:
    """How each place of a text section is asked for in its code object: from the nearest function in front of it that
    reaches so far and whose name has one place there, else from the section's start."""
    functions = index.functions
    rows = np.flatnonzero((functions.section > 0) & (functions.size > 0))
    name = np.where(functions.linkage_name[rows] > 0, functions.linkage_name[rows], functions.name[rows])
    bases = np.array(index.bases, np.uint64)
    within = functions.section[rows].astype(np.int64) - 1
    start = bases[within] + functions.offset[rows].astype(np.uint64)
    order = np.lexsort((functions.size[rows], start))
    rows, name, start = rows[order], name[order], start[order]
    owners = np.unique([text.path for text in index.sections], return_inverse=True)[1].astype(np.uint64)
    owned = (owners[within[order]] << np.uint64(32)) | name.astype(np.uint64)
    end = start + functions.size[rows].astype(np.uint64)
    _, first = np.unique(np.stack([owned, start]), axis=1, return_index=True)
    called, times = np.unique(owned[first], return_counts=True)
    at = bases[section] + offset
    near = np.searchsorted(start, at, side="right").astype(np.int64) - 1
    for number, row in enumerate(near.tolist()):
        if row >= 0 and at[number] < end[row] and name[row] and times[np.searchsorted(called, owned[row])] == 1:
            yield f"{index.strings[name.item(row)]}+{int(at[number] - start[row]):#x}"
        else:
            text = index.sections[int(section[number])]
            yield f"({text.section or f'#{text.section_index}'})+{int(offset[number]):#x}"


RANGED_ANSWERS = 4096
"""Answers of one batch that are told with ranges: each is worked out by itself."""


def check_ranged(count: int) -> None:
    """Raises LimitExceeded for a batch of more answers than are told with ranges."""
    if count > RANGED_ANSWERS:
        raise LimitExceeded(
            f"ranges are wanted for {count} addresses, at most {RANGED_ANSWERS} are told with them",
            hint="ask for fewer at a time, or without ranges",
            metadata={"limit": "ranged_answers", "value": str(RANGED_ANSWERS)},
        )


def ranged(index: Index, answers: Answers) -> Answers:
    """The answers, which lie in the text sections of the index, with ranges. Raises LimitExceeded."""
    check_ranged(len(answers))
    finder, found = CodeFinder(index), dict[int, CodeRanges]()
    for number, answer in enumerate(answers):
        check_cancelled()
        if answer.section_offset is not None:
            found[number] = finder.around(int(answers.text_section[number]) - 1, answer)
    return replace(answers, ranges=found)


class CodeFinder:
    """Finds ranges around places of an index. What several places have in common is worked out once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._pieces: dict[tuple[int, int], tuple[U64, NDArray[np.intp], NDArray[np.intp], int] | None] = {}
        self._code: dict[tuple[int, ...], FrameCode] = {}
        self._rows: dict[int, tuple[U64, U64]] = {}
        self._edges: dict[int, I64] = {}

    def ranged(self, answer: Answer) -> Answer:
        """The answer with ranges, if it is a place in text."""
        if answer.path is None or answer.section_index is None:
            return answer
        section = self._index.section_numbers[answer.path, answer.section_index]
        return answer._replace(ranges=self.around(section, answer))

    def around(self, section: int, answer: Answer) -> CodeRanges:
        """The ranges of an answer in the text section of this number."""
        offset = answer.section_offset or 0
        derived, position = self._index.derived, self._index.bases[section] + offset
        (owner,) = derived.owners_between(position, position + 1)[1].tolist()
        owners = derived.owners_around(owner)[: len(answer.frames)]
        frames = [self._frame(section, each, owners[-1]) for each in owners]
        for at, (frame, caller) in enumerate(pairwise(answer.frames[: len(frames)])):
            if not (frame.function or frame.linkage_name or caller.line):
                frames[at] = FrameCode()  # it may be that of several calls, of which nothing is known
        return CodeRanges(None if answer.reason == Reason.GAP else self._row(section, offset), tuple(frames))

    def _row(self, section: int, offset: int) -> SectionRange | None:
        """The bytes of the last row that covers a place, cut where functions begin and end: a compiler that ends no
        sequence behind a function leaves its last row to reach over the padding to the next one."""
        starts, ends = self._rows_in(section)
        numbers = np.flatnonzero((starts <= offset) & (ends > offset))
        if not len(numbers):
            return None
        edges = self._edges_in(section)
        at = int(np.searchsorted(edges, offset, side="right"))
        start, end = int(starts[numbers[-1]]), int(ends[numbers[-1]])
        return self._range(section, max([start, *edges[:at][-1:].tolist()]), min([end, *edges[at : at + 1].tolist()]))

    def _edges_in(self, section: int) -> I64:
        """The section offsets at which functions begin or end, in order."""
        if section not in self._edges:
            functions = self._index.functions
            here = (functions.section == section + 1) & (functions.size > 0)
            begins = functions.offset[here].astype(np.int64)
            self._edges[section] = np.union1d(begins, begins + functions.size[here].astype(np.int64))
        return self._edges[section]

    def _rows_in(self, section: int) -> tuple[U64, U64]:
        """Where each row of the line table that lies in a section begins and ends, in the table's order. The last row
        of a table is none: nothing ends it."""
        if section not in self._rows:
            index = self._index
            number = index.columns.section_object.item(section)
            end = int(index.columns.object_rows[: number + 1].sum(dtype=np.int64))
            own = slice(end - index.columns.object_rows.item(number), end)
            at, here = index.rows.offset[own].astype(np.uint64), index.rows.section[own] == section
            goes_on = (index.rows.flags[own] & RowFlag.END_SEQUENCE) == 0
            numbers = np.flatnonzero(here[:-1] & here[1:] & goes_on[:-1])
            self._rows[section] = at[numbers], at[numbers + 1]
        return self._rows[section]

    def _frame(self, section: int, owner: int, outermost: int) -> FrameCode:
        """The code of a frame's owner, which is in the function of another owner, or is it."""
        known = self._code.get((section, owner, outermost))
        if known is None:
            columns = self._index.columns
            declared = self._index.strings[columns.owner_start_file.item(owner)] or None
            known = FrameCode(self._code_of(section, owner, outermost), declared)
            self._code[section, owner, outermost] = known
        return known

    def _code_of(self, section: int, owner: int, outermost: int) -> tuple[SectionRange, ...]:
        pieces = self._pieces_of(section, outermost) if outermost else None
        if pieces is None:
            return ()
        begins, owners, which, stop = pieces
        own = {owner}
        if owner == outermost:
            own.update(self._names_of(outermost))
        around = self._index.derived.around
        inside, at = np.zeros(len(owners), np.bool_), owners
        while at.any():  # what is around an owner comes before it
            for each in own:
                inside |= at == each
            at = around[at].astype(np.intp)
        held = np.concatenate([[False], inside[which], [False]])
        edges = np.flatnonzero(held[1:] != held[:-1])
        positions = np.append(begins, np.uint64(stop))[edges].astype(np.int64) - self._index.bases[section]
        return tuple(self._range(section, start, end) for start, end in positions.reshape(-1, 2).tolist())

    def _pieces_of(self, section: int, outermost: int) -> tuple[U64, NDArray[np.intp], NDArray[np.intp], int] | None:
        """The pieces of a function in a section: (where each begins, the distinct owners of its pieces, of each piece
        which of them, where the last one ends); None where it is not known how far the function reaches."""
        asked = section, outermost
        if asked not in self._pieces:
            self._pieces[asked] = None
            functions = self._index.functions
            rows = self._rows_of(outermost)
            rows = rows[(functions.section[rows] == section + 1) & (functions.size[rows] > 0)]
            if len(rows):
                row = rows[np.argmax(functions.size[rows])]
                start = self._index.bases[section] + functions.offset.item(row)
                stop = min(
                    start + functions.size.item(row),
                    self._index.bases[section] + self._index.section_size(section),
                )
                begins, owner = self._index.derived.owners_between(start, stop)
                owners, which = np.unique(owner, return_inverse=True)
                self._pieces[asked] = begins, owners.astype(np.intp), which, stop
        return self._pieces[asked]

    def _rows_of(self, outermost: int) -> NDArray[np.intp]:
        """The numbers of the functions that an owner is, by their debug data or by their symbols."""
        functions = self._index.functions
        return np.flatnonzero((functions.owner == outermost) | (functions.symbol == outermost))

    def _names_of(self, outermost: int) -> list[int]:
        """The owners that the same function is: where scopes reach, and where its symbol alone does."""
        functions, rows = self._index.functions, self._rows_of(outermost)
        return [each for each in [*functions.owner[rows].tolist(), *functions.symbol[rows].tolist()] if each]

    def _range(self, section: int, start: int, end: int) -> SectionRange:
        number = self._index.sections[section].section_index
        return SectionRange(number, SectionOffset(start), SectionOffset(end))
