"""The frames at one address of a code object, where its debug data is as compilers write it as a rule: read without columns, whose library takes longer to import
than an answer takes. What the whole index would reconcile, doubt or look for elsewhere is left to it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from symd.core import scopes as core
from symd.core import text_layout
from symd.core.strings import Names, StringReader
from symd.debuginfo import ptx_text
from symd.debuginfo.dwarf.dies import SCOPES, read_rows
from symd.debuginfo.dwarf.lines import TEXT_COLUMN, LineTables, maps_of_units, read_tables
from symd.debuginfo.dwarf.unit_selection import units_for_addresses
from symd.debuginfo.dwarf.units import Units, read_units
from symd.debuginfo.layout import assign
from symd.debuginfo.line_ends import line_ends
from symd.debuginfo.relocation import relocated
from symd.errors import SymdError
from symd.formats.budget import DebugBudget
from symd.model.code import PYTHON_SUFFIX, CodeKind, DebugScheme, Vendor
from symd.model.plain_answers import APPROXIMATE, EXACT, NO_LINE, NotPlain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symd.config import Limits
    from symd.debuginfo.dwarf.sections import DebugSections
    from symd.model.code import CodeObject
    from symd.model.plain_answers import PlainAnswer, PlainFrame

_NO_PARENT = _NO_FUNCTION = 0xFFFFFFFF
_INLINED, _BODY = 1, 2
"""What ``model.debug_info`` says of scopes."""
_DEEPEST = 64
"""Calls inside each other."""
_LARGEST = 1 << 20
"""Bytes of units that are all read; of more some are chosen, or the whole index answers."""
_MOST_STEPS = 1 << 19
"""Ranges that are compared with rows in front of one without a line, a tenth of a second."""
_WIDTH = len(core.SCOPE_COLUMNS)


def answer_at(code: CodeObject, section: int, offset: int, limits: Limits) -> PlainAnswer | None:
    """The answer at a byte of text, by the number of its section; None where the whole index has to say."""
    is_read = code.debug.has_units or code.debug is DebugScheme.LINE_ONLY
    if not is_read or code.kind is not CodeKind.MACHINE or code.kernel_named_by_debug_data:
        return None
    try:
        return _AddressReading(code, section, offset, limits).answer()
    except (SymdError, NotPlain):
        return None


class _Row(NamedTuple):
    """A line row with the linear addresses [start, stop) that it holds."""

    number: int
    start: int
    stop: int


class _AddressReading:
    """A byte of text, the debug data of the units around it, and the row that holds it."""

    def __init__(self, code: CodeObject, section: int, offset: int, limits: Limits) -> None:
        self._code, self._layout = code, assign(code)
        base = self._layout.base_of(section)
        if base is None:
            raise NotPlain
        size = next(each.size for each in code.sections if each.index == section)
        self._address, self._text = base + offset, (base, base + size)
        sections = relocated(code, self._layout, DebugBudget.of(code, limits))
        units = read_units(sections)
        is_elsewhere = any(unit.dwo_name or unit.dwo_id is not None for unit in units.units)
        if is_elsewhere or units.warnings or TEXT_COLUMN in sections.lines.data:
            raise NotPlain
        self._chosen = [self._text]
        """Of these addresses everything is read."""
        if len(units.units) > 1 and (chosen := units_for_addresses(sections, units, [self._address])) is not None:
            units, self._chosen = chosen.units, [*chosen.spans]
        if sum(unit.end - unit.offset for unit in units.units) > _LARGEST:
            raise NotPlain
        self._lines = read_tables(sections, units)
        self._row = self._row_at(section)
        self._scopes = _Scopes(sections, units, self._lines)

    def _row_at(self, section: int) -> _Row:
        """The last row that begins up to the address in the only sequence that holds it."""
        rows, first, found = self._lines.rows, 0, []
        if len(rows.context) or text_layout.begin_together(rows.address, rows.ends):
            raise NotPlain
        for stop in rows.ends:
            addresses = rows.address[first:stop].tolist()
            if addresses != sorted(addresses):
                raise NotPlain
            if addresses[0] <= self._address < addresses[-1]:
                at = bisect_right(addresses, self._address)
                found.append((_Row(first + at - 1, *addresses[at - 1 : at + 1]), addresses[0]))
            first = stop
        if len(found) != 1:
            raise NotPlain
        row, begin = found[0]
        place = self._layout.one_section_of(begin)
        if place is None or place[0] != section or row.stop > self._text[1]:
            raise NotPlain
        return row

    def answer(self) -> PlainAnswer:
        """Raises NotPlain."""
        if not len(self._scopes.parent):
            return EXACT, self._frames_of_symbol()
        chain, function = self._scopes.at(self._address)
        if not any(start <= function[0] and function[1] <= end for start, end in self._chosen):
            raise NotPlain
        if self._code.vendor is Vendor.INTEL:
            self._scopes.check_strays(chain[-1], *function)
        row, rows = self._row, self._lines.rows
        if self._scopes.divide(row.start, self._address + 1) or not function[0] <= row.start < row.stop <= function[1]:
            raise NotPlain  # a row is believed where it begins
        if not rows.line[row.number]:
            earlier = self._earlier(chain, function)
            if earlier is None:
                return NO_LINE, self._frames(chain, row)
            row = earlier
        if not self._scopes.can_have(chain[0], rows.file[row.number], rows.line[row.number]):
            raise NotPlain
        return EXACT if row is self._row else APPROXIMATE, self._frames(chain, row)

    def _earlier(self, chain: Sequence[int], function: tuple[int, int]) -> _Row | None:
        """The row that stands for one without a line: the nearest before it that has one in the same scope."""
        first, last = function
        if self._scopes.is_in_pieces(chain[-1]):
            raise NotPlain
        if any(first < edge < last for _, start, end in self._symbols() for edge in (start, end)):
            raise NotPlain  # labels divide the function
        rows, number, steps = self._lines.rows, self._row.number, 0
        while number > 0 and first < rows.address[number] <= last:
            number -= 1
            row = _Row(number, *rows.address[number : number + 2])
            if row.start == row.stop or row.start < first or row.start > last:
                continue
            steps += self._scopes.count
            if steps > _MOST_STEPS or self._scopes.divide(row.start, row.stop):
                raise NotPlain
            if rows.line[number] and self._scopes.at(row.start)[0] == chain:
                return row
        return None

    def _frames_of_symbol(self) -> tuple[PlainFrame, ...]:
        """Where debug data has lines alone, the only function symbol that holds the address names it."""
        if ptx_text.is_of_llvm(self._code):
            raise NotPlain
        symbols = self._symbols()
        held = [name for name, start, end in symbols if start <= self._address < end]
        if len(held) != 1 or any(self._row.start < start <= self._address for _, start, _ in symbols):
            raise NotPlain
        if not held[0] or not self._lines.rows.line[self._row.number]:
            raise NotPlain
        return ((held[0], None, *self._position(self._row)),)

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

    def _frames(self, chain: Sequence[int], row: _Row) -> tuple[PlainFrame, ...]:
        """The innermost of these scopes at the position of a row, and those around it at their calls. A kernel's own body is told as the kernel."""
        scopes, found, position = self._scopes, [], self._position(row)
        for scope in chain:
            if scopes.inlined[scope] == _BODY:
                continue
            found.append((*scopes.names(scope), *position))
            position = scopes.call_site(scope)
        return tuple(found)


class _Scopes:
    """The functions and inlined calls of some units, by number; columns are as ``debuginfo.dwarf.columns.ScopeColumns`` has them."""

    def __init__(self, sections: DebugSections, units: Units, lines: LineTables) -> None:
        self._sections, self._units, self._files = sections, units, lines.files
        dies, left_out = read_rows(sections, units.units, SCOPES)
        if left_out:
            raise NotPlain
        numbers, maps, names = (
            [unit.number for unit in units.units],
            maps_of_units(lines.file_maps, units.units),
            Names(),
        )
        found = core.read_scopes(dies, numbers, maps, StringReader(sections), names)
        self._strings, self.inlined = names.all(), found.inlined
        columns, self._functions = _columns(found.scopes, _WIDTH), _columns(found.functions, len(core.FUNCTION_COLUMNS))
        self.parent, self._name, self._linkage_name, *self._call, self._unit, self._function = columns
        self._ranges = [*zip(found.range_scope, dies.ranges.start, dies.ranges.stop, strict=True)]
        self.count = len(self._ranges)
        """How many ranges there are."""
        self._checked: tuple[int, int, int] | None = None

    def at(self, address: int) -> tuple[list[int], tuple[int, int]]:
        """(the innermost scope at an address and those around it, the linear addresses [start, end) of its function there). Raises NotPlain unless just these
        hold the address, each by one range, and nobody else has code in that of the function."""
        holding = [each for each in self._ranges if each[1] <= address < each[2]]
        chain = max((self._chain(scope) for scope, _, _ in holding), key=len, default=[])
        if not chain or sorted(chain) != sorted(scope for scope, _, _ in holding):
            raise NotPlain
        function = next(each for each in holding if each[0] == chain[-1])
        if function != self._checked:
            self._check_function(*function)
            self._checked = function
        return chain, function[1:]

    def _chain(self, scope: int) -> list[int]:
        found = [scope]
        while (scope := self.parent[scope]) != _NO_PARENT:
            found.append(scope)
            if len(found) > _DEEPEST:
                raise NotPlain
        return found

    @cached_property
    def _roots(self) -> list[int]:
        """The function around each scope."""
        found: list[int] = []
        for scope, parent in enumerate(self.parent):  # parents come before children
            found.append(scope if parent == _NO_PARENT else found[parent])
        return found

    def _check_function(self, function: int, first: int, last: int) -> None:
        """Nobody else has code among these addresses of a function, and no call in it may be said to be the function itself (``index.unnamed_calls``). Raises NotPlain."""
        roots, said = self._roots, self._said(function)
        if any(start < last and first < end and roots[scope] != function for scope, start, end in self._ranges):
            raise NotPlain
        for scope in {scope for scope, _, _ in self._ranges}:  # Intel's compiler leaves calls without code behind
            is_call = roots[scope] == function and self.inlined[scope] == _INLINED
            if is_call and (self._said(scope) == said or self._files[self._call[0][scope]].endswith(PYTHON_SUFFIX)):
                raise NotPlain

    def _said(self, scope: int) -> tuple[int, int, int]:
        return self._name[scope], self._linkage_name[scope], self._function[scope]

    def check_strays(self, function: int, first: int, last: int) -> None:
        """No block or variable of a function says that it has code among these addresses although its function does not (``stray_ranges``). Raises NotPlain."""
        unit = self._unit[function]
        if sum(of == unit and parent == _NO_PARENT for of, parent in zip(self._unit, self.parent, strict=True)) < 2:
            return
        from symd.debuginfo.block_ranges import outside_of_functions  # noqa: PLC0415 - slow to load, and few need it

        strays = outside_of_functions(self._sections, self._units, [unit])
        if any(start < last and first < end for start, end in strays):
            raise NotPlain

    @cached_property
    def _edges(self) -> list[int]:
        return sorted({edge for _, start, end in self._ranges for edge in (start, end)})

    def divide(self, start: int, stop: int) -> bool:
        """Whether a range of code begins or ends between two addresses."""
        return bisect_right(self._edges, start) < bisect_left(self._edges, stop)

    def is_in_pieces(self, scope: int) -> bool:
        """Whether a scope has several ranges."""
        return sum(each[0] == scope for each in self._ranges) > 1

    @cached_property
    def _line_ends(self) -> array[int]:
        calls = self.parent, memoryview(self.inlined), self._function, *self._call[:2], self._unit
        return line_ends(self._functions, self._strings, calls)

    def can_have(self, scope: int, file: int, line: int) -> bool:
        """Whether the function of a scope can have a line of a file, as far as one knows."""
        function = self._function[scope]
        if function == _NO_FUNCTION or not self._line_ends[function]:
            return True
        _, _, of_file, first, _ = (column[function] for column in self._functions)
        return bool(file == of_file and first <= line < self._line_ends[function])

    def names(self, scope: int) -> tuple[str, str | None]:
        """The name of a scope, and its linkage name where that is another. Raises NotPlain where the scope has no
        name, which a symbol may have."""
        name, linkage_name = self._strings[self._name[scope]], self._strings[self._linkage_name[scope]]
        if not name:
            raise NotPlain
        return name, linkage_name if linkage_name not in ("", name) else None

    def call_site(self, scope: int) -> tuple[str | None, int, int]:
        """File, line and column of a call."""
        file, line, column = (each[scope] for each in self._call)
        return self._files[file] or None, line, column


def _columns(table: array[int], count: int) -> list[memoryview]:
    """The columns that stand one behind the other in a table."""
    size = len(table) // count
    return [memoryview(table)[size * number : size * (number + 1)] for number in range(count)]
