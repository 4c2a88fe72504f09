"""The frames at one address of an image."""

from __future__ import annotations

from symd.model.plain_answers import APPROXIMATE, EXACT, NO_LINE, NotPlain
from symd.plain.image import Image
from symd.plain.line_table import LineTable
from symd.plain.scopes import Scopes
from symd.plain.symbols import is_one_symbols, kernel_address
from symd.plain.units import Sections, unit_of

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.model.plain_answers import PlainAnswer, PlainFrame
    from symd.plain.image import Read
    from symd.plain.line_program import Row
    from symd.plain.units import Spans


def answer_at(read: Read, size: int, address: int, kernel: str = "") -> PlainAnswer:
    """The answer at an object address of the file that ``read`` gives bytes of, by offset and size; it has ``size`` bytes. With ``kernel`` the
    address counts from where that begins. Raises NotPlain unless the address is code of a function, and all of what its answer depends on as
    compilers write it as a rule."""
    try:
        image = Image(read, size)
        return _AddressReading(image, address + (kernel_address(image, kernel) if kernel else 0)).answer()
    except IndexError as error:  # a place past the end of a section or a table
        raise NotPlain from error


_SHORT = 1 << 14
"""Bytes of a function of which all rows up to an address are read at once: one of them may stand for one without a line."""


class _AddressReading:
    """An address, the function and the innermost scope whose code it is, and the row that holds it."""

    def __init__(self, image: Image, address: int) -> None:
        first, last = image.text
        if not first <= address < last:
            raise NotPlain
        self._image, self._address = image, address
        unit, spans = unit_of(Sections(image), address)
        self._scopes = Scopes(unit)
        self._function = self._scopes.function_at(address)
        if not all(first <= start and end <= last for start, end in (*self._function.spans, *spans)):
            raise NotPlain
        self._scope = self._function.innermost(address)
        self._lines = LineTable(unit)
        start, end = self._function.span_at(address)
        since = start if end - start <= _SHORT else address
        self._rows = self._lines.program.rows_to(since, address)
        self._row = self._rows[-1]

    def answer(self) -> PlainAnswer:
        if self._row.line:
            self._check_fit(self._row, self._address)
            self._check_line(self._row)
            return EXACT, self._frames(self._row)
        earlier = self._earlier()
        return (NO_LINE, self._frames(self._row)) if earlier is None else (APPROXIMATE, self._frames(earlier))

    def _frames(self, row: Row) -> tuple[PlainFrame, ...]:
        """The scope at a row's position, and those around it at their calls."""
        found: list[PlainFrame] = []
        scope, register, line, column = self._scope, row.file, row.line, row.column
        while True:
            file = self._lines.path(register).decode("utf-8", "replace") or None
            scope = self._scopes.told(scope)
            found.append((*self._scopes.names(scope), file, line, column))
            if scope.around is None:
                if any(each[:2] == found[-1][:2] for each in found[:-1]):
                    raise NotPlain  # ``index.unnamed_calls`` may doubt the name
                return tuple(found)
            at, line, column = scope.call_site
            register, scope = -1 if at is None else at, scope.around

    def _check_fit(self, row: Row, address: int) -> None:
        """The row, which holds the address, holds in the scope from its beginning to its end."""
        for each in (self._function, self._scope):
            start, end = each.span_at(address)
            if not start <= row.start < row.stop <= end:
                raise NotPlain
        if any(start < row.stop and row.start < end for call in self._scope.calls for start, end in call.spans):
            raise NotPlain

    def _check_line(self, row: Row) -> None:
        """The row has a line that the scope's function can have: from its declaration up to the next one in the same file. What
        ``debuginfo.function_lines`` leaves alone besides is left to it."""
        if not self._lines.path(row.file):
            raise NotPlain
        definition = self._scopes.definition(self._scope)
        if definition is None:
            return
        whole, (register, first) = definition
        file = self._lines.path(register)
        if self._lines.path(row.file) != file or row.line < first:
            raise NotPlain
        last = max([first, *self._lines_of_calls(whole, file)])
        if any(last < line <= row.line and self._lines.path(other) == file for other, line in self._scopes.declared()):
            raise NotPlain

    def _lines_of_calls(self, whole: int, file: bytes) -> list[int]:
        """The lines of a file from which the function that stands at ``whole`` calls what was inlined into it."""
        found = []
        for call in self._function.every():
            register, line, _ = call.call_site
            if call.around is not None and self._lines.path(register) == file:
                caller = self._scopes.definition(call.around)
                if caller is not None and caller[0] == whole:
                    found.append(line)
        return found

    def _earlier(self) -> Row | None:
        """The row that stands for one without a line: the nearest before it that has one in the same scope. Raises NotPlain where one that
        may be it does not fit, and where labels divide the function."""
        if len(self._function.spans) != 1:
            raise NotPlain
        ((first, last),) = self._function.spans
        if not is_one_symbols(self._image, first, last):
            raise NotPlain
        own = _without(self._scope.spans, tuple(span for call in self._scope.calls for span in call.spans))
        if last - first > _SHORT:
            self._rows = self._lines.program.rows_to(first, self._address)
        for row in reversed(self._rows):
            inside = [max(start, row.start) for start, end in own if start < row.stop and row.start < end]
            if row.line and inside:
                self._check_fit(row, inside[0])
                self._check_line(row)
                return row
        return None


def _without(spans: Spans, others: Spans) -> Spans:
    """What of some spans lies in none of the others, each of which lies in one of them."""
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]
                   + [(start, -1) for start, _ in others] + [(end, 1) for _, end in others])  # fmt: skip
    found, depth, begin = [], 0, 0
    for at, change in edges:
        if depth == 1 and begin < at:
            found.append((begin, at))
        depth, begin = depth + change, at
    return tuple(found)
