"""All code objects of a module side by side: their columns end to end, in one space of text positions and with one
numbering of strings, scopes and symbols, so that what follows is done once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import SymdError
from symd.formats.elf import debug_link
from symd.index.format import Column, narrow
from symd.index.functions import without_wrong_names
from symd.model.answers import Reason
from symd.model.code import CodeObject, DebugScheme, Function, Kernel, Section
from symd.model.columns import I64, Interner, combined, runs
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, DebugInfo, LineRows, Scopes, TextSpans, WrittenScopes

_NOTHING = DebugInfo(LineRows.empty(), Scopes.empty())


class DecodedObject(NamedTuple):
    """A code object with what could be decoded of it, or why nothing could; None when nobody tried yet: then its
    sections and kernels are known and nothing in them is."""

    code: CodeObject
    debug: DebugInfo | SymdError | None


class TextSections(NamedTuple):
    """Text sections, in the order of their objects. ``number`` is the section's own, ``base`` the text position where
    one starts, ``name`` a string number, ``decoded`` whether somebody tried to decode what is in it."""

    object: Column
    name: Column
    number: Column
    address: Column
    size: Column
    base: Column
    decoded: Column

    def positions(self, section: Column, offset: Column) -> Column:
        """Text sections by number (-1: none) and offsets in them as text positions, clipped to the sections; what is
        in no text is at 0."""
        base, size = (np.concatenate((column, np.zeros(1, column.dtype))) for column in (self.base, self.size))
        position: Column = np.empty(np.broadcast_shapes(section.shape, offset.shape), base.dtype)
        np.minimum(offset, size[section], out=position, casting="unsafe")
        position += base[section]
        return position


class NamedRanges(NamedTuple):
    """Kernels or function symbols. ``name`` is a string number, ``section`` -1 where one is in no text; [start, stop)
    are text positions."""

    object: Column
    name: Column
    section: I64
    offset: Column
    size: Column
    start: Column
    stop: Column


class RowTables(NamedTuple):
    """Line rows: ``section`` as one entry where all have the same, ``file`` string numbers. ``counts`` says how many an
    object has."""

    counts: I64
    section: I64
    offset: Column
    file: Column
    line: Column
    column: Column
    flags: Column


class ScopeRanges(NamedTuple):
    """The ranges of scopes: ``offset`` and ``end`` in ``section`` (-1: in no text), and the same as text positions."""

    scope: Column
    section: I64
    offset: Column
    end: Column
    start: Column
    stop: Column


class ScopeTable(NamedTuple):
    """Scopes, numbered through all objects. ``name``, ``linkage_name`` and ``call_file`` are string numbers;
    ``function`` is a number in ``ModuleTables.functions``, or NO_FUNCTION. ``written`` is for each the scope that has
    what is written of it, itself as a rule; empty where that is so of all."""

    object: Column
    parent: Column
    name: Column
    linkage_name: Column
    inlined: Column
    call_file: Column
    call_line: Column
    call_column: Column
    function: Column
    written: Column = np.zeros(0, np.int64)

    def differing(self) -> NDArray[np.bool_]:
        """The scopes of which, or of one around which, something else is written."""
        if not len(self.written):
            return np.zeros(len(self.parent), np.bool_)
        found: NDArray[np.bool_] = self.written != np.arange(len(self.written))
        return found


class StrayTable(NamedTuple):
    """The code of all objects that lies outside its functions (``DebugInfo.strays``), as text positions [start,
    stop)."""

    start: Column
    stop: Column


class WrittenTable(NamedTuple):
    """The code of all objects that is answered otherwise than its rows say (``DebugInfo.written``): text positions
    [start, stop), ``scope`` as numbered through all objects (-1: none)."""

    start: Column
    stop: Column
    scope: I64
    reason: Column
    lined: NDArray[np.bool_]
    line: Column

    def over(self, position: Column) -> I64:
        """The number of the span that holds each text position, or -1."""
        found = np.searchsorted(self.start, position, side="right") - 1
        found[position >= np.append(self.stop, self.stop.dtype.type(0))[found]] = -1
        return found


class FunctionLineTable(NamedTuple):
    """The lines of the functions of all objects (``FunctionLines``), numbered through all objects: ``unit`` is
    another one in another object, ``file`` a string number."""

    unit: Column
    file: Column
    first: Column
    end: Column


class ModuleTables(NamedTuple):
    """A module. ``no_debug_reason`` has for each object the ``Reason`` why it has no lines, or 0; ``machine_code`` says
    that it is not SPIR-V, ``line_tables_alone`` that its debug data is line tables without units; ``elsewhere`` are the
    text positions [start, stop) of ``DebugInfo.elsewhere``, and ``doubted`` those of ``DebugInfo.doubted``; ``files``
    are the (object, string number) of every source file."""

    texts: TextSections
    kernels: NamedRanges
    symbols: NamedRanges
    rows: RowTables
    scopes: ScopeTable
    ranges: ScopeRanges
    functions: FunctionLineTable
    strays: StrayTable
    no_debug_reason: Column
    machine_code: NDArray[np.bool_]
    line_tables_alone: NDArray[np.bool_]
    elsewhere: tuple[Column, Column]
    doubted: tuple[Column, Column]
    written: WrittenTable
    files: tuple[Column, Column]


def module_tables(objects: Sequence[DecodedObject], strings: Interner) -> ModuleTables:
    """Files are interned first: theirs are the numbers that occur most often, and small ones are narrow."""
    debugs = [item.debug if isinstance(item.debug, DebugInfo) else _NOTHING for item in objects]
    files = _StringTables([debug.files for debug in debugs], strings)
    texts, sections = _text_sections(objects, strings)
    kernels = _named_ranges([item.code.kernels for item in objects], texts, sections, strings)
    names = _StringTables([debug.names for debug in debugs], strings)
    symbols = _named_ranges(
        [item.code.functions if item.debug is not None or item.code.is_compiler_input else () for item in objects],
        texts,
        sections,
        strings,
    )
    every = [debug.scopes for debug in debugs]
    first_scope = _firsts([len(scopes) for scopes in every])
    ranges = _ranges(every, first_scope, texts, sections)
    return ModuleTables(
        texts,
        kernels,
        symbols,
        _rows([debug.rows for debug in debugs], sections, files),
        without_wrong_names(_scopes(debugs, first_scope, names, files), ranges, kernels, lambda: strings.values),
        ranges,
        _function_lines(debugs, files),
        _strays(debugs, texts, sections),
        np.array([_no_debug_reason(item) for item in objects], np.uint8),
        np.array([item.code.debug is not DebugScheme.SPIRV for item in objects], np.bool_),
        np.array([item.code.debug is DebugScheme.LINE_ONLY for item in objects], np.bool_),
        _positions([debug.elsewhere for debug in debugs], texts, sections),
        _positions([debug.doubted for debug in debugs], texts, sections),
        _written([debug.written for debug in debugs], first_scope, texts, sections),
        files.distinct(),
    )


def _positions(every: Sequence[TextSpans], texts: TextSections, sections: _SectionNumbers) -> tuple[Column, Column]:
    section = sections.text_sections([spans.section for spans in every])
    start, end = (_end_to_end([spans[part] for spans in every]) for part in (1, 2))
    return texts.positions(section, start), texts.positions(section, end)


def _written(
    every: Sequence[WrittenScopes], first_scope: I64, texts: TextSections, sections: _SectionNumbers
) -> WrittenTable:
    start, stop = _positions([TextSpans(*each[:3]) for each in every], texts, sections)
    scope = _moved_or_none([each.scope for each in every], first_scope, NO_PARENT).astype(np.int64)
    scope[scope == NO_PARENT] = -1
    reason, lined, line = (_end_to_end([each[part] for each in every]) for part in (4, 5, 6))
    order = np.argsort(start, kind="stable")
    return WrittenTable(
        start[order], stop[order], scope[order], reason[order], lined.astype(np.bool_)[order], line[order]
    )


def _no_debug_reason(item: DecodedObject) -> int:
    """Why a whole object has no lines; a unit that describes nothing is no debug information."""
    if not isinstance(item.debug, DebugInfo):
        return 0 if item.debug is None else Reason.MALFORMED
    empty = not len(item.debug.rows) and not len(item.debug.scopes)
    if item.code.debug is DebugScheme.NONE and debug_link(item.code.sections):
        return Reason.DEBUG_DATA_ELSEWHERE
    return Reason.NO_DEBUG_INFO if item.code.debug is DebugScheme.NONE or empty else 0


def _end_to_end(columns: Sequence[Column]) -> Any:
    """Columns end to end; one alone is itself."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns) if columns else np.zeros(0, np.uint8)


def _firsts(counts: Sequence[int]) -> I64:
    """Where each of the parts that have so many entries begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _moved(columns: Sequence[Column], by: I64) -> Any:
    """Columns end to end, the numbers in each of which counted from its entry of ``by``."""
    if len(columns) == 1 and not by[0]:
        return columns[0]
    return _end_to_end(columns) + np.repeat(by[: len(columns)], [len(column) for column in columns])


class _StringTables:
    """A table of strings for each object, and all of them as one table of string numbers."""

    def __init__(self, tables: Sequence[Sequence[str]], strings: Interner) -> None:
        self._counts = [len(table) for table in tables]
        self._numbers = narrow(strings.add_all(chain.from_iterable(tables), sum(self._counts)))
        self._firsts = _firsts(self._counts)

    def numbers(self, columns: Sequence[Column]) -> Any:
        """The string numbers of columns that index the tables."""
        return self._numbers.take(_moved(columns, self._firsts))

    def distinct(self) -> tuple[Column, Column]:
        """(object, string number) of each string that an object's table has, without ""."""
        code_object = np.repeat(np.arange(len(self._counts)), self._counts)
        pairs = np.sort(code_object << 32 | self._numbers.astype(np.int64))
        pairs = pairs[runs(pairs)]
        pairs = pairs[pairs & 0xFFFFFFFF > 0]
        return pairs >> 32, pairs & 0xFFFFFFFF


class _SectionNumbers:
    """(object, section number) to the number of a text section, as one dense table over all objects."""

    def __init__(self, texts: Sequence[Sequence[Section]]) -> None:
        self._limits = np.array([max((text.index for text in each), default=0) + 1 for each in texts], np.uint32)
        self._firsts = _firsts((self._limits + 1).tolist())
        self._table: I64 = np.full(int(self._firsts[-1]), -1)
        at = [first + text.index for first, each in zip(self._firsts.tolist(), texts, strict=False) for text in each]
        self._table[at] = np.arange(len(at))

    def text_sections(self, columns: Sequence[Column]) -> I64:
        """The text section of each entry of the objects' columns of section numbers: -1 for what is no text, and one
        entry alone where all are the same."""
        return self.of(_end_to_end(columns), [len(column) for column in columns])

    def of(self, section: Column, counts: Sequence[int]) -> I64:
        """``text_sections`` of columns that are end to end already; ``counts`` says how many entries an object has."""
        if len(counts) == 1:
            same = len(section) and section.min() == section.max()
            return self._numbers_at(np.minimum(section[:1] if same else section, self._limits[0]))
        section = np.minimum(section, np.repeat(self._limits, counts))
        return self._numbers_at(section + np.repeat(self._firsts[:-1], counts))

    def _numbers_at(self, at: Column) -> I64:
        return np.asarray(self._table[at], np.int64)


_LAST_ADDRESS = (1 << 64) - 1
"""Text begins, as address queries say it, at its address and the bias of its object, within 64 bits."""


def _text_sections(objects: Sequence[DecodedObject], strings: Interner) -> tuple[TextSections, _SectionNumbers]:
    """Text positions are 32 bits wide where they fit."""
    texts = [[section for section in item.code.sections if section.executable] for item in objects]
    every = list(chain.from_iterable(texts))
    code_object = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
    sizes = [text.size for text in every]
    size = np.array(sizes, np.uint64)
    base = np.cumsum(size, dtype=np.uint64) - size
    wide = sum(sizes) >= 1 << 32
    found = TextSections(
        object=code_object,
        name=strings.add_all([text.name for text in every], len(every)),
        number=np.array([text.index for text in every], np.uint64),
        address=np.array(
            [
                text.address + item.code.bias & _LAST_ADDRESS
                for item, own in zip(objects, texts, strict=True)
                for text in own
            ],
            np.uint64,
        ),
        size=size,
        base=base if wide else base.astype(np.uint32),
        decoded=np.array([item.debug is not None for item in objects], np.bool_)[code_object],
    )
    return found, _SectionNumbers(texts)


def _named_ranges(
    each: Sequence[Sequence[Function] | Sequence[Kernel]],
    texts: TextSections,
    sections: _SectionNumbers,
    strings: Interner,
) -> NamedRanges:
    counts = [len(own) for own in each]
    fields = zip(*chain.from_iterable(each), strict=True)
    name, number, begin, length, *_ = fields if any(counts) else ((), (), (), ())
    section = np.broadcast_to(sections.of(np.array(number, np.uint32), counts), len(number))
    offset, size = np.array(begin, np.uint64), np.array(length, np.uint64)
    return NamedRanges(
        object=np.repeat(np.arange(len(each)), counts),
        name=strings.add_all(name, len(name)),
        section=section,
        offset=offset,
        size=size,
        start=texts.positions(section, offset),
        stop=texts.positions(section, offset + size),
    )


def _rows(every: Sequence[LineRows], sections: _SectionNumbers, files: _StringTables) -> RowTables:
    counts = np.array([len(rows) for rows in every], np.int64)
    section = sections.text_sections([rows.section for rows in every])
    return RowTables(
        counts,
        section,
        narrow(_end_to_end([rows.offset for rows in every])),
        files.numbers([rows.file for rows in every]),
        _end_to_end([rows.line for rows in every]),
        narrow(_end_to_end([rows.column for rows in every])),
        _end_to_end([rows.flags for rows in every]),
    )


def _scopes(debugs: Sequence[DebugInfo], firsts: I64, names: _StringTables, files: _StringTables) -> ScopeTable:
    every = [debug.scopes for debug in debugs]
    first_function = _firsts([len(debug.functions.first) for debug in debugs])
    return ScopeTable(
        object=np.repeat(np.arange(len(every)), np.diff(firsts)),
        parent=_moved_or_none([scopes.parent for scopes in every], firsts, NO_PARENT),
        name=names.numbers([scopes.name for scopes in every]),
        linkage_name=names.numbers([scopes.linkage_name for scopes in every]),
        inlined=_end_to_end([scopes.inlined for scopes in every]),
        call_file=files.numbers([scopes.call_file for scopes in every]),
        call_line=_end_to_end([scopes.call_line for scopes in every]),
        call_column=_end_to_end([scopes.call_column for scopes in every]),
        function=_moved_or_none([_functions_of(scopes) for scopes in every], first_function, NO_FUNCTION),
    )


def _moved_or_none(columns: Sequence[Column], by: I64, nothing: int) -> Column:
    """Numbers as ``_moved`` has them, but for ``nothing``, which stays."""
    same: Column = _end_to_end(columns)
    return np.where(same == nothing, nothing, _moved(columns, by)).astype(np.uint32)


def _functions_of(scopes: Scopes) -> Column:
    return np.full(len(scopes), NO_FUNCTION, np.uint32) if scopes.function is None else scopes.function


def _strays(debugs: Sequence[DebugInfo], texts: TextSections, sections: _SectionNumbers) -> StrayTable:
    every = [debug.strays for debug in debugs]
    section = sections.text_sections([each.section for each in every])
    start, end = _end_to_end([each.start for each in every]), _end_to_end([each.end for each in every])
    return StrayTable(texts.positions(section, start), texts.positions(section, end))


def _function_lines(debugs: Sequence[DebugInfo], files: _StringTables) -> FunctionLineTable:
    every = [debug.functions for debug in debugs]
    code_object = np.repeat(np.arange(len(every)), [len(functions.first) for functions in every])
    return FunctionLineTable(
        combined(code_object, _end_to_end([functions.unit for functions in every])),
        files.numbers([functions.file for functions in every]),
        _end_to_end([functions.first for functions in every]),
        _end_to_end([functions.end for functions in every]),
    )


def _ranges(every: Sequence[Scopes], firsts: I64, texts: TextSections, sections: _SectionNumbers) -> ScopeRanges:
    section = sections.text_sections([scopes.range_section for scopes in every])
    offset, end = (
        _end_to_end([scopes.range_offset for scopes in every]),
        _end_to_end([scopes.range_end for scopes in every]),
    )
    return ScopeRanges(
        scope=_moved([scopes.range_scope for scopes in every], firsts),
        section=section,
        offset=offset,
        end=end,
        start=texts.positions(section, offset),
        stop=texts.positions(section, end),
    )
