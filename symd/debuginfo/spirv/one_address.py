"""The frames at one address of a SPIR-V module, without NumPy (``debuginfo.one_address``). Lines and scopes are stated
independently in SPIR-V, so that neither puts the other in doubt; what an index would doubt or look for elsewhere is
left to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from symd.debuginfo import leaves_out_calls
from symd.debuginfo.address_scopes import NO_PARENT, AddressScopes
from symd.debuginfo.spirv import every_text
from symd.debuginfo.spirv.decoded import SCOPE_COLUMNS, decode
from symd.debuginfo.text_widths import widths_by_file
from symd.formats.spirv.module import debug_words
from symd.model.code import CodeObject, DebugScheme, Function
from symd.model.frame_text import (
    APPROXIMATE,
    CONTRADICTORY,
    EXACT,
    INFERRED,
    NO_LINE,
    AnswerTuple,
    FrameTuple,
    NeedsIndex,
)

_END_SEQUENCE = 4
"""The flag of a row that ends a sequence, as in ``model.debug_info``."""


def answer_at_offset(code: CodeObject, offset: int) -> AnswerTuple:
    """The answer at a byte of the module. Raises SymdError for debug data that cannot be read, and NeedsIndex where the
    whole index has to say, also of a module inside a container, for which nobody asks by an address."""
    if code.debug is not DebugScheme.SPIRV or len(code.sections) != 1 or code.is_compiler_input:
        raise NeedsIndex("SPIR-V without debug data, or inside a container")
    return _AddressReading(code, offset).answer()


class _AddressReading:
    """A byte of a module, and what is decoded of that."""

    def __init__(self, code: CodeObject, offset: int) -> None:
        self._code, self._address = code, offset
        self._words = debug_words(code)
        self._rows, scopes, self._files, names, _, _ = decode(self._words)
        count = len(SCOPE_COLUMNS)
        parent, name, linkage_name, inlined, *call, function = (
            memoryview(scopes.table)[number::count] for number in range(count)
        )
        ranges = scopes.range_scope, scopes.range_start, scopes.range_end
        self._scopes = AddressScopes([parent, name, linkage_name, *call, function], inlined, ranges, names, self._files)

    def answer(self) -> AnswerTuple:
        """Raises NeedsIndex."""
        rows, row, chain, symbol = self._rows, self._row(), self._chain(), self._symbol()
        if (not chain and symbol is None) or (not len(self._scopes) and not len(rows.offset)):
            raise NeedsIndex("no function holds the address")
        if row is None:
            return NO_LINE, self._frames(chain, symbol, None)
        if not len(self._scopes) and leaves_out_calls(self._code):
            if symbol is None or not rows.line[row]:
                raise NeedsIndex("rows alone name no function with a line")
            reason = CONTRADICTORY if self._is_strange(row, symbol) else INFERRED
            return reason, self._frames(chain, symbol, row)
        if rows.line[row]:
            return EXACT, self._frames(chain, symbol, row)
        nearest = self._nearest_row_with_line(chain, symbol)
        if nearest is None:
            return NO_LINE, self._frames(chain, symbol, row)
        return APPROXIMATE, self._frames(chain, symbol, nearest)

    def _row(self) -> int | None:
        """The number of the row that holds the address."""
        row = bisect_right(self._rows.offset, self._address) - 1
        return None if row < 0 or self._rows.flags[row] & _END_SEQUENCE else row

    def _chain(self) -> list[int]:
        """The innermost scope and those around it; none where no function says that it has the address."""
        is_held = self._scopes.ranges_overlapping(self._address, self._address + 1)
        return self._scopes.chain_at(self._address)[0] if is_held else []

    def _symbol(self) -> Function | None:
        """The function around, by its name."""
        found = [each for each in self._code.functions if 0 <= self._address - each.offset < each.size]
        return found[0] if found else None

    def _frames(self, chain: Sequence[int], symbol: Function | None, row: int | None) -> tuple[FrameTuple, ...]:
        """The scopes around, or else the function, at the position of a row. Raises NeedsIndex where another function
        begins or ends in the row, or it lies outside of a text that the module carries."""
        position: tuple[str | None, int, int] = None, 0, 0
        if row is not None:
            start, stop = self._rows.offset[row : row + 2]
            edges = (edge for each in self._code.functions for edge in (each.offset, each.offset + each.size))
            if any(start < edge < stop for edge in edges):
                raise NeedsIndex("a function begins or ends inside the row")
            file, line, column = (column[row] for column in self._rows[1:4])
            if line and self._is_outside(self._files[file], line, column):
                raise NeedsIndex("the row lies outside of the text that the module carries")
            position = self._files[file] or None, line, column
        if chain:
            return self._scopes.frames(chain, position)
        assert symbol is not None  # noqa: S101 - or nobody has the address
        return ((symbol.name, None, *position),)

    def _is_outside(self, file: str, line: int, column: int) -> bool:
        texts = every_text(self._words, self._code.path)
        if not texts:
            return False
        widths = widths_by_file(texts).get(file)
        return widths is not None and (line >= len(widths) or column > widths[line])

    def _is_strange(self, row: int, symbol: Function) -> bool:
        """Whether a row has a line that the function around cannot have, as far as one knows by its first row
        (``row_scopes``)."""
        rows = self._rows
        first = bisect_left(rows.offset, symbol.offset)
        return rows.file[row] != rows.file[first] or rows.line[row] < rows.line[first]

    def _nearest_row_with_line(self, chain: Sequence[int], symbol: Function | None) -> int | None:
        """The row that stands for one without a line: the nearest before it that has one in the same scope, or else in
        the function outside of all scopes."""
        rows = self._rows
        for start, stop in self._own_code(chain, symbol):
            number = bisect_right(rows.offset, min(stop, self._address) - 1) - 1
            while number >= 0 and rows.offset[number + 1] > start:
                if rows.line[number]:
                    return number
                number -= 1
        return None

    def _own_code(self, chain: Sequence[int], symbol: Function | None) -> list[tuple[int, int]]:
        """The pieces [start, stop) of the innermost scope, or of the function, up to the address that no scope inside
        it has; the last one first."""
        ranges = [*zip(*self._scopes.ranges, strict=True)]
        around, number = [each[1:] for each in ranges if chain and each[0] == chain[0]], 0
        if symbol is not None and not chain:
            around = [(symbol.offset, symbol.offset + symbol.size)]
        parent = chain[0] if chain else NO_PARENT
        inside = sorted(each[1:] for each in ranges if self._scopes.parent[each[0]] == parent)
        found = []
        for start, stop in around:
            while number < len(inside) and inside[number][0] < stop:
                found.append((start, inside[number][0]))
                start = max(start, inside[number][1])  # noqa: PLW2901 - what is left
                number += 1
            found.append((start, stop))
        return [(start, stop) for start, stop in reversed(found) if start < stop and start < self._address]
