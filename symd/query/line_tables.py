"""The line table as it was decoded, with the kernel and the function in whose text each row lies; the second level of
lines that cubins carry, from machine code to PTX, which is read from the code object, not from an index; and listings:
the instructions of a code object, each once and in the order of the code, with the frames that it comes from. The
disassembler is passed in; nothing here runs a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.config import Limits
from symd.debuginfo import embedded_sources
from symd.debuginfo.embedded_sources import PtxLines
from symd.debuginfo.relocation import linear_layout
from symd.errors import NotFound, ObjectNotFound, SymdError, Unsupported
from symd.index import Index
from symd.index.format import Column
from symd.index.schema import RowTable
from symd.model.answers import Answers, TextSection
from symd.model.code import CodeObject, Function, Kernel
from symd.model.columns import U32, U64
from symd.model.debug_info import LineRows, RowFlag
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodePart, CodeSpan, Instructions, LineTable, Listing
from symd.query.code_spans import Rows, instructions_within, places, rows_within, spans


def lines(index: Index, path: str | None = None, within: CodePart | None = None) -> Iterator[LineTable]:
    """A table for each code object that has rows, in module order; only the one at ``path`` when it is given.
    SPIR-V beside machine code has its table only when it is named. With ``within`` only the rows that are meant, of the
    code objects that have some. Raises ObjectNotFound, and what ``code_spans.spans`` raises."""
    if within is None:
        return (each.part(0, len(each)) for each in stored_tables(index, path))
    wanted = spans(index, within, path)
    tables = [each for path in dict.fromkeys(span.path for span in wanted) for each in stored_tables(index, path)]
    return (each.at(rows) for each in tables if len(rows := each.rows_within(within, wanted)))


def stored_tables(index: Index, path: str | None = None) -> Iterator[StoredTable]:
    """A table for each code object that has rows, in module order, of which nothing is made yet; only the one at
    ``path`` when it is given. SPIR-V beside machine code has its table only when it is named. Raises ObjectNotFound."""
    if path is not None and path not in index.objects:
        raise ObjectNotFound.at(path, index.objects)
    ends = np.cumsum(index.columns.object_rows, dtype=np.int64).tolist()
    for number in index.reported_objects(path):
        first = ends[number - 1] if number else 0
        if ends[number] > first:
            yield StoredTable(index, number, first, ends[number])


class StoredTable:
    """The line table of one code object as an index has it. Decoded, its rows take several times as much: whoever sends
    them makes some at a time."""

    def __init__(self, index: Index, number: int, first: int, end: int) -> None:
        self._index = index
        self._first, self._end = first, end
        self.path = index.objects[number]
        self.target = index.targets[number]
        self.text_sections: Sequence[TextSection] = index.sections
        self.strings: Sequence[str] = index.strings

    def __len__(self) -> int:
        return self._end - self._first

    def part(self, start: int, end: int) -> LineTable:
        """Rows ``start`` to ``end``, or to the last."""
        return self._of_rows(slice(self._first + start, min(self._first + end, self._end)))

    def rows_within(self, within: CodePart, wanted: Sequence[CodeSpan]) -> Rows:
        """The numbers of the rows that are meant by ``within``, whose bytes are ``wanted``."""
        table, rows = self._index.rows, slice(self._first, self._end)
        spans = _numbered(self.text_sections, self.path, wanted)
        return rows_within(table.section[rows], table.offset[rows].astype(np.uint64), table.flags[rows], within, spans)

    def at(self, rows: Rows) -> LineTable:
        """The rows of these numbers, with no more sections and strings than they need."""
        few = self._of_rows(rows + self._first)
        return few.at(np.arange(len(rows)))

    def _of_rows(self, rows: slice | Rows) -> LineTable:
        index = self._index
        own = RowTable(*(column[rows] for column in index.rows))
        location = _locations(index, own)
        return LineTable(
            path=self.path,
            target=self.target,
            text_section=own.section.astype(np.uint32),
            offset=own.offset.astype(np.uint64),
            kernel=index.locations.kernel[location].astype(np.uint32),
            function=index.locations.function[_roots(index, location)].astype(np.uint32),
            file=own.file.astype(np.uint32),
            line=own.line.astype(np.uint32),
            column=own.column.astype(np.uint32),
            flags=own.flags.astype(np.uint8),
            text_sections=self.text_sections,
            strings=self.strings,
        )


def _numbered(sections: Sequence[TextSection], path: str, wanted: Sequence[CodeSpan]) -> list[tuple[int, int, int]]:
    """(number in ``sections``, start, end) of each span of the code object at ``path``."""
    numbers = {each.section_index: number for number, each in enumerate(sections) if each.path == path}
    return [(numbers[each.section], each.start, each.end) for each in wanted if each.path == path]


def ptx_within(index: Index, tables: Iterable[LineTable], path: str | None, within: CodePart) -> Iterator[LineTable]:
    """Give the rows of each line table of PTX that are meant by ``within``; tables without such a row are left out.
    Raises what ``code_spans.spans`` raises."""
    wanted = spans(index, within, path)
    for table in tables:
        numbered = _numbered(table.text_sections, table.path, wanted)
        rows = rows_within(table.text_section, table.offset, table.flags, within, numbered)
        if len(rows):
            yield table.at(rows)


def _locations(index: Index, rows: RowTable) -> Column:
    """An end_sequence row is after the text that it closes: it belongs to the byte before it.
    A section without bytes has no location at all."""
    offset = rows.offset.astype(np.uint64)
    closing = (rows.flags & RowFlag.END_SEQUENCE) != 0
    size = index.columns.section_size[rows.section].astype(np.uint64)
    inside = np.minimum(offset - (closing & (offset > 0)), np.maximum(size, np.uint64(1)) - np.uint64(1))
    return np.where(size > 0, index.location_numbers(rows.section, inside), np.uint32(0))


def _roots(index: Index, location: Column) -> Column:
    """The location of each one's outermost frame: the function that the code belongs to."""
    parent = index.locations.parent
    root = location.astype(np.int64)
    above = np.flatnonzero(parent[root])
    while len(above):
        root[above] = parent[root[above]]
        above = above[parent[root[above]] != 0]
    return root


def ptx_tables(objects: Sequence[CodeObject], path: str | None) -> Iterator[LineTable]:
    """The tables of all ``objects`` that have this level, or of the one at ``path``. Raises ``ObjectNotFound``."""
    chosen = [code for code in objects if path in (None, code.path)]
    if path is not None and not chosen:
        raise ObjectNotFound.at(path, (code.path for code in objects))
    return (table for table in map(ptx_table, chosen) if table is not None)


def ptx_table(code: CodeObject) -> LineTable | None:
    """The table with the text of each PTX line; None when the code object has no such level. ``file`` is the name of
    the section that holds the PTX. Raises Malformed, Unsupported."""
    lines = embedded_sources.read(code, linear_layout(code))
    if lines is None or not len(lines.rows):
        return None
    return _Table(code, lines).made()


class _Table:
    def __init__(self, code: CodeObject, lines: PtxLines) -> None:
        self.code, self.lines = code, lines
        self.strings: dict[str, int] = {"": 0}

    def made(self) -> LineTable:
        rows, code = self.lines.rows, self.code
        texts = [section for section in code.sections if section.executable]
        slots = np.zeros(max((section.index for section in texts), default=0) + 2, np.uint32)
        slots[[section.index for section in texts]] = np.arange(len(texts))
        return LineTable(
            path=code.path,
            target=code.target,
            text_section=slots[rows.section],
            offset=rows.offset,
            kernel=self._owners(code.kernels),
            function=self._owners(code.functions),
            file=self._numbers(self.lines.files)[rows.file],
            line=rows.line,
            column=rows.column,
            flags=rows.flags,
            text_sections=[TextSection(code.path, section.name, section.index, section.address) for section in texts],
            text=self._texts(rows),
            strings=list(self.strings),
        )

    def _number(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _numbers(self, texts: Iterable[str]) -> U32:
        return np.array([self._number(text) for text in texts], np.uint32)

    def _owners(self, ranges: Sequence[Function | Kernel]) -> U32:
        """For each row the name of the smallest of ``ranges`` that covers it; an end_sequence row belongs to the byte
        before it."""
        rows = self.lines.rows
        closing = (rows.flags & RowFlag.END_SEQUENCE) != 0
        at = rows.offset - (closing & (rows.offset > 0))
        order = np.lexsort((at, rows.section))
        sections, sorted_at = rows.section[order], at[order]
        owner = np.zeros(len(rows), np.uint32)
        for one in sorted(ranges, key=lambda each: -each.size):
            first, last = np.searchsorted(sections, [one.section_index, one.section_index + 1])
            start, end = first + np.searchsorted(sorted_at[first:last], [one.offset, one.offset + one.size])
            owner[order[start:end]] = self._number(one.name)
        return owner

    def _texts(self, rows: LineRows) -> U32:
        """Each distinct line is looked up once. An end_sequence row has no text."""
        pairs, where = np.unique(np.stack([rows.file, rows.line]), axis=1, return_inverse=True)
        texts = self._numbers(self.lines.text(file, line) or "" for file, line in pairs.T.tolist())
        return np.where(rows.flags & RowFlag.END_SEQUENCE, 0, texts[where.reshape(-1)]).astype(np.uint32)


Disassemble = Callable[[Sequence[CodeObject], Sequence[CodeSpan] | None, Limits], list[Instructions | SymdError]]
"""For each code object its instructions (of the ranges of code that spans reach into, where there are any), or why
there are none."""


def chosen(
    codes: Sequence[CodeObject], path: str | None, spans: Sequence[CodeSpan] | None, target: str | None
) -> list[CodeObject]:
    """The code objects to disassemble, with ``target`` for those that do not say theirs. Raises ObjectNotFound."""
    if path is not None:
        found = [code for code in codes if code.path == path]
        if not found:
            raise ObjectNotFound.at(path, (code.path for code in codes))
    elif spans is not None:
        paths = {each.path for each in spans}
        found = [code for code in codes if code.path in paths]
    else:
        found = [code for code in codes if not code.is_compiler_input] or list(codes)
    return [code._replace(target=code.target or target) for code in found]


class Disassembled(NamedTuple):
    """A code object at ``path`` for ``target``, and its instructions, or why there are none."""

    path: ObjectPath
    target: str | None
    instructions: Instructions | SymdError


def of_part(found: Disassembled, within: CodePart, spans: Sequence[CodeSpan]) -> Disassembled:
    """What of a code object is meant by ``within``, whose bytes are ``spans``."""
    instructions = found.instructions
    if isinstance(instructions, SymdError):
        return found
    rows = instructions_within(instructions, within, [each for each in spans if each.path == found.path])
    nothing = NotFound("there is no instruction there", where=found.path)
    return found._replace(instructions=nothing if rows is None else instructions.at(rows))


def listings(index: Index, found: Sequence[Disassembled], module: str) -> Iterator[Listing]:
    """A listing for each code object. Raises the first error when there is nothing but errors; ``module``, the
    resource's name, is told with what a disassembler made of its code."""
    errors = [each.instructions for each in found if isinstance(each.instructions, SymdError)]
    if errors and len(errors) == len(found):
        if "tool" in errors[0].metadata:
            errors[0].metadata["module"] = module
            errors[0].prefix_where(module)
        raise errors[0]
    if not found:
        raise Unsupported("there is no machine code in the module")
    sections = index.section_numbers
    for path, target, each in found:
        if isinstance(each, SymdError):
            nothing = _answers(index, np.zeros(0, np.int64), np.zeros(0, np.uint64))
            yield Listing(path, target, "", nothing, np.zeros(0, np.uint32), (), str(each))
            continue
        section = np.array([sections[path, number] for number in each.section.tolist()], np.int64)
        yield Listing(
            path=path,
            target=target,
            disassembler=each.disassembler,
            answers=_answers(index, section, each.offset),
            size=each.size,
            text=_texts(index, section, each),
            code=each.code,
            flow=each.flow,
            targets=each.targets,
        )


def _texts(index: Index, section: NDArray[np.int64], each: Instructions) -> Sequence[str]:
    """The instructions' text, with targets as queries."""
    wanted = [(number, target) for number, targets in enumerate(each.targets) for target in targets]
    if not wanted:
        return each.text
    numbers, targets = np.array(wanted, np.uint64).T
    texts = list(each.text)
    for number, target, query in zip(
        numbers.tolist(), targets.tolist(), places(index, section[numbers.astype(np.int64)], targets), strict=True
    ):
        texts[number] = _LABEL.sub(partial(_named, f"{target:#x}", f"L{target}", query), texts[number])
    return texts


_LABEL = re.compile(r"(?<![\w.])(?:0x[0-9a-f]+|L[0-9]+)(?![\w.])")
"""A target of a jump as LLVM, nvdisasm and IGA write it."""


def _named(number: str, label: str, query: str, hit: re.Match[str]) -> str:
    return query if hit[0] in (number, label) else hit[0]


def _answers(index: Index, section: NDArray[np.int64], offset: U64) -> Answers:
    location, locations = index.locate_batch(section, offset)
    return Answers(location, (section + 1).astype(np.uint32), offset, locations, index.sections)
