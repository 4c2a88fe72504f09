"""The frames at one address of a code object, read without NumPy, whose import takes longer than the answer. What an
index would reconcile, doubt or look for elsewhere raises NeedsIndex, and the index answers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise

from symd.config import Limits
from symd.core import scopes as core
from symd.core import text_layout
from symd.core.byte_reader import Names, StringReader
from symd.core.inlined_calls import InlinedCalls
from symd.debuginfo import ptx_text
from symd.debuginfo.address_scopes import NO_FUNCTION, NO_PARENT, AddressScopes
from symd.debuginfo.dwarf.lines import LineTables, line_ends, maps_of_units, may_have_texts, read_tables
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import (
    SCOPES,
    BlocksOf,
    Unit,
    Units,
    outside_of_functions,
    read_rows,
    read_units,
    units_for_addresses,
)
from symd.debuginfo.relocation import LinearLayout, linear_layout, relocated
from symd.formats.budget import DebugBudget
from symd.model.code import CodeKind, CodeObject, DebugScheme, Vendor
from symd.model.frame_text import APPROXIMATE, EXACT, NO_LINE, AnswerTuple, FrameTuple, NeedsIndex
from symd.model.light_typing import NamedTuple, NoReturn

_MAX_UNIT_BYTES = 1 << 20
"""Bytes of units that are read; if there are more, the index answers."""
_MAX_STEPS = 1 << 19
"""Ranges that are compared with rows in front of one without a line, a tenth of a second."""
_WIDTH = len(core.SCOPE_COLUMNS)


def answer_at(code: CodeObject, section: int, offset: int, limits: Limits) -> AnswerTuple:
    """The answer at a byte of text, by the number of its section. Raises NeedsIndex where the whole index has to say,
    and SymdError for debug data that cannot be read."""
    is_read = code.debug.has_units or code.debug is DebugScheme.LINE_ONLY
    if not is_read or code.kind is not CodeKind.MACHINE or code.kernel_named_by_debug_data:
        raise NeedsIndex("another reader has the debug data, or names the kernels")
    return _read_around(code, section, offset, limits).answer()


class _Row(NamedTuple):
    """A line row with the linear addresses [start, stop) that it holds."""

    number: int
    start: int
    stop: int


def _read_around(code: CodeObject, section: int, offset: int, limits: Limits) -> _AddressReading:
    """Read the debug data around a byte of text. Raises NeedsIndex where it is not all that says something of it."""
    layout = linear_layout(code)
    base = layout.base_of(section)
    if base is None:
        raise NeedsIndex("the section has no code of its own")
    size = next(each.size for each in code.sections if each.index == section)
    address, text = base + offset, (base, base + size)
    sections = relocated(code, layout, DebugBudget.of(code, limits))
    units = read_units(sections)
    is_elsewhere = any(unit.dwo_name or unit.dwo_id is not None for unit in units.units)
    if is_elsewhere or units.warnings or may_have_texts(sections.lines.data):
        raise NeedsIndex("debug data is in separate files or damaged, or line tables may carry source texts")
    spans = [text]
    if len(units.units) > 1 and (chosen := units_for_addresses(sections, units, [address])) is not None:
        units, spans = chosen.units, [*chosen.spans]
    if sum(unit.end - unit.offset for unit in units.units) > _MAX_UNIT_BYTES:
        raise NeedsIndex("too many units hold the address")
    lines = read_tables(sections, units)
    return _AddressReading(code, section, layout, address, text, sections, units, spans, lines)


class _AddressReading:
    """A byte of text, and what was read around it."""

    def __init__(
        self,
        code: CodeObject,
        section: int,
        layout: LinearLayout,
        address: int,
        text: tuple[int, int],
        sections: DebugSections,
        units: Units,
        spans: Sequence[tuple[int, int]],
        lines: LineTables,
    ) -> None:
        """``text`` are the linear addresses [start, end) of the section. ``units`` are those that say something of the
        ``address``, and all that say something of ``spans``."""
        self._code, self._section, self._layout, self._address, self._text = code, section, layout, address, text
        self._sections, self._units, self._spans, self._lines = sections, units, spans, lines

    @cached_property
    def _scopes(self) -> _Scopes:
        return _Scopes(self._sections, self._units, self._lines)

    def _row_and_sequence(self) -> tuple[_Row, range] | None:
        """The last row that begins up to the address in the only sequence that holds it, and the rows of that; None
        where no sequence does."""
        rows = self._lines.rows
        if text_layout.begin_together(rows.address, rows.ends) and self._have_folded():
            raise NeedsIndex("several line sequences begin together")
        number, first = text_layout.row_at(rows.address, rows.ends, self._address)
        if first < 0:
            raise NeedsIndex("several line sequences hold the address, or rows are out of order")
        if number < 0:
            return None
        row = _Row(number, *rows.address[number : number + 2])
        place = self._layout.one_section_of(rows.address[first])
        if place is None or place[0] != self._section or row.stop > self._text[1]:
            raise NeedsIndex("the row reaches out of its section")
        return row, range(first, rows.ends[bisect_right(rows.ends, number)])

    def _have_folded(self) -> bool:
        """Whether line sequences that begin together have code in text (``folded_sequences``)."""
        found = Counter(start for start, end in self._extents() if start < end)
        return any(many > 1 and self._layout.one_section_of(start) is not None for start, many in found.items())

    def _extents(self) -> list[tuple[int, int]]:
        """The linear addresses [start, end) of each line sequence."""
        address = self._lines.rows.address
        return [(address[first], address[stop - 1]) for first, stop in self._sequences()]

    def _sequences(self) -> Iterator[tuple[int, int]]:
        """The numbers [first, stop) of the rows of each line sequence."""
        ends = self._lines.rows.ends
        return zip((0, *ends), ends, strict=False)

    def answer(self) -> AnswerTuple:
        """The answer at the address. Raises NeedsIndex."""
        found = self._row_and_sequence()
        if found is None:
            return NO_LINE, self._frames_without_row()
        held, sequence = found
        if not len(self._scopes):
            return self._answer_of_rows_alone(held, sequence)
        chain, function = self._scopes.chain_at(self._address)
        if not any(start <= function[0] and function[1] <= end for start, end in self._spans):
            raise NeedsIndex("the function reaches out of what is read")
        if self._code.vendor is Vendor.INTEL:
            self._scopes.check_nothing_outside_function(chain[-1], *function)
        row, rows = held, self._lines.rows
        is_inside = function[0] <= row.start < row.stop <= function[1]
        if not is_inside or self._scopes.has_edge_inside(row.start, self._address + 1):
            raise NeedsIndex("a row reaches out of its scope")  # a row is believed where it begins
        if not rows.line[row.number]:
            nearest = self._nearest_row_with_line(row, chain, function)
            if nearest is None:
                return NO_LINE, self._scopes.frames(chain, self._position(row))
            row = nearest
        if not self._scopes.may_have_line(chain[0], rows.file[row.number], rows.line[row.number]):
            raise NeedsIndex("the function cannot have the row's line")
        return EXACT if row is held else APPROXIMATE, self._scopes.frames(chain, self._position(row))

    def _nearest_row_with_line(self, row: _Row, chain: Sequence[int], function: tuple[int, int]) -> _Row | None:
        """The row that stands for one without a line: the nearest before it that has one in the same scope."""
        first, last = function
        if self._scopes.is_in_pieces(chain[-1]):
            raise NeedsIndex("a function in pieces has a row without a line")
        if any(first < edge < last for _, start, end in self._symbols() for edge in (start, end)):
            raise NeedsIndex("labels divide a function that has a row without a line")
        steps = 0
        for before in self._rows_before(row, first, last):
            steps += len(self._scopes.ranges[0])
            is_cut = self._scopes.has_edge_inside(before.start, before.stop)
            if before.start < first or steps > _MAX_STEPS or is_cut:
                raise NeedsIndex("no row near has a line in the same scope")
            if self._lines.rows.line[before.number] and self._scopes.chain_at(before.start)[0] == chain:
                return before
        return None

    def _rows_before(self, row: _Row, first: int, last: int) -> Iterator[_Row]:
        """The rows before another one that hold any of [first, last), by their addresses, the nearest first. A file has
        its line sequences in any order. Raises NeedsIndex where they overlap there."""
        address = self._lines.rows.address
        extents = sorted(
            (address[begin], address[stop - 1], begin, stop)
            for begin, stop in self._sequences()
            if address[begin] < last and max(first, address[begin]) < address[stop - 1]
        )
        if any(before[1] > after[0] for before, after in pairwise(extents)):
            raise NeedsIndex("line sequences overlap")
        for start, _, begin, stop in reversed(extents):
            if start > row.start:
                continue
            is_its_own = begin <= row.number < stop
            for number in range(row.number if is_its_own else stop - 1, begin, -1):
                before = _Row(number - 1, *address[number - 1 : number + 1])
                if before.stop <= first:
                    return
                if before.start < before.stop:
                    yield before

    def _frames_without_row(self) -> tuple[FrameTuple, ...]:
        """The frames of code without a row: the only function symbol that holds it."""
        is_empty = all(self._layout.one_section_of(start) is None for start, _ in self._extents())
        is_whole = not is_empty and self._spans == [self._text]
        if not is_whole or self._scopes.ranges_overlapping(self._address, self._address + 1):
            raise NeedsIndex("code without a row, whose function is in doubt")
        return ((self._symbol_at(self._address)[0], None, None, 0, 0),)

    def _answer_of_rows_alone(self, row: _Row, sequence: range) -> AnswerTuple:
        """The answer where debug data has lines alone: the frame of the only function symbol that holds the row and the
        address, and the calls that the row says were inlined there. Raises NeedsIndex."""
        symbol = self._symbol_at(self._address)
        if any(row.start < start <= self._address for _, start, _ in self._symbols()):
            if self._code.debug is not DebugScheme.LINE_ONLY:
                raise NeedsIndex("a symbol begins inside the row")
            return NO_LINE, ((symbol[0], None, None, 0, 0),)  # ``index.cover``
        if symbol != self._symbol_at(row.start) or not self._lines.rows.line[row.number]:
            raise NeedsIndex("the row has no line, or another function's")
        return self._inlined_in(row, sequence) or (EXACT, ((symbol[0], None, *self._position(row)),))

    def _inlined_in(self, row: _Row, sequence: range) -> AnswerTuple | None:
        """The answer where rows are call sites of others, as ``reading`` has it; None where none is. Raises
        NeedsIndex."""
        code, calls, rows = self._code, self._lines.calls, self._lines.rows
        is_of_llvm = ptx_text.is_of_llvm(code)
        has_calls = calls is not None and any(
            any(any(each[first:stop]) for each in (calls.written_site, calls.site, calls.doubt))
            and self._layout.one_section_of(rows.address[first]) is not None
            for first, stop in self._sequences()
        )
        leaves_out_calls = not has_calls and ptx_text.leaves_out_calls(code, self._lines.files)
        if code.vendor is not Vendor.NVIDIA or not (is_of_llvm or leaves_out_calls or has_calls):
            return None
        if not self._is_only_sequence_here(sequence):
            raise NeedsIndex("several line sequences have the same code")
        from symd.debuginfo import rows_alone  # noqa: PLC0415 - 5 ms: only for NVIDIA's images with lines alone

        return rows_alone.answer_of_row(
            code,
            self._lines,
            calls or InlinedCalls(rows.count),
            rows_alone.RowSequence(sequence, self._section, self._text[0]),
            row.number,
            self._address - self._text[0],
            leaves_out_calls=leaves_out_calls,
            assembly=rows_alone.assembly_rows(code, self._layout) if is_of_llvm else None,
            spend=partial(self._sections.spend, where=self._sections.lines.name),
        )

    def _is_only_sequence_here(self, sequence: range) -> bool:
        """Whether a sequence has code of its section that no other sequence has."""
        address = self._lines.rows.address
        first, last = address[sequence.start], address[sequence.stop - 1]
        return (
            last <= self._text[1] and [start < last and first < end for start, end in self._extents()].count(True) == 1
        )

    def _symbol_at(self, address: int) -> tuple[str, int, int]:
        """The smallest function symbol that holds an address: the assembler puts functions of its own, such as
        divisions, into those of kernels."""
        held = sorted((last - first, name, first) for name, first, last in self._symbols() if first <= address < last)
        if not held or not held[0][1] or (len(held) > 1 and held[0][0] == held[1][0]):
            raise NeedsIndex("no single function symbol holds the address")
        size, name, first = held[0]
        return name, first, first + size

    def _symbols(self) -> list[tuple[str, int, int]]:
        """The function symbols in text: name, and linear addresses [start, end)."""
        bases = self._layout.bases()
        return [
            (name, bases[section] + offset, bases[section] + offset + size)
            for name, section, offset, size in self._code.functions
            if section in bases
        ]

    def _position(self, row: _Row) -> tuple[str | None, int, int]:
        rows, number = self._lines.rows, row.number
        return self._lines.files[rows.file[number]] or None, rows.line[number], rows.column[number]


class _Scopes(AddressScopes):
    """The functions and inlined calls of some units, by number; columns are as ``debuginfo.dwarf.columns.ScopeColumns``
    has them."""

    def __init__(self, sections: DebugSections, units: Units, lines: LineTables) -> None:
        self._sections, self._units = sections, units
        dies, left_out = read_rows(sections, units.units, SCOPES)
        if left_out:
            raise NeedsIndex("some units could not be read")
        numbers, maps, names = (
            [unit.number for unit in units.units],
            maps_of_units(lines.file_maps, units.units),
            Names(),
        )
        found = core.read_scopes(dies, [dies.count], numbers, maps, [StringReader(sections)], [names])
        self._scope_rows = found
        *columns, self._unit, function = _columns(found.scopes, _WIDTH)
        self._functions = _columns(found.functions, len(core.FUNCTION_COLUMNS))
        ranges = found.range_scope, dies.ranges.start, dies.ranges.stop
        super().__init__([*columns, function], memoryview(found.inlined), ranges, names.all(), lines.files)

    def check_nothing_outside_function(self, function: int, first: int, last: int) -> None:
        """No block or variable of a function says that it has code among these addresses although its function does not
        (``outside_of_functions``). Raises NeedsIndex."""
        unit = self._unit[function]
        if sum(of == unit and parent == NO_PARENT for of, parent in zip(self._unit, self.parent, strict=True)) < 2:
            return
        own = [each for each in self._units.units if each.number == unit]
        [strays] = outside_of_functions([BlocksOf(self._sections, own, _not_listed)])
        if any(start < last and first < end for start, end in strays):
            raise NeedsIndex("blocks or variables are outside of their functions")

    @cached_property
    def _line_ends(self) -> array[int]:
        return line_ends(self._scope_rows, [self._strings])

    def may_have_line(self, scope: int, file: int, line: int) -> bool:
        """Whether the function of a scope can have a line of a file, as far as one knows."""
        function = self._function[scope]
        if function == NO_FUNCTION or not self._line_ends[function]:
            return True
        _, _, of_file, first, _ = (column[function] for column in self._functions)
        return bool(file == of_file and first <= line < self._line_ends[function])


def _not_listed(_unit: Unit, _die: int, _offset: int | None) -> NoReturn:
    """Raises NeedsIndex."""
    raise NeedsIndex("a location list may have the code of a variable, and is read with NumPy")


def _columns(table: array[int], count: int) -> list[memoryview]:
    """The columns that stand one behind the other in a table."""
    size = len(table) // count
    return [memoryview(table)[size * number : size * (number + 1)] for number in range(count)]
