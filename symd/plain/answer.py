"""The frames at one address of an image."""

from __future__ import annotations

from symd.model.plain_answers import EXACT, NotPlain
from symd.plain.image import Image
from symd.plain.line_table import LineTable
from symd.plain.scopes import Scope, Scopes
from symd.plain.units import Sections, unit_of

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from symd.model.plain_answers import PlainAnswer, PlainFrame
    from symd.plain.line_program import Row


def answer_at(read: Callable[[int, int], bytes], size: int, address: int) -> PlainAnswer:
    """The answer at an object address of the file that ``read`` gives bytes of, by offset and size; it has ``size`` bytes. Raises NotPlain
    unless the answer is EXACT, and all of what it depends on as compilers write it as a rule."""
    try:
        return EXACT, _frames(Image(read, size), address)
    except (IndexError, KeyError, ValueError, OverflowError, StopIteration) as error:  # numbers of what is not there
        raise NotPlain from error


def _frames(image: Image, address: int) -> tuple[PlainFrame, ...]:
    if not image.text[0] <= address < image.text[1]:
        raise NotPlain
    unit, spans = unit_of(Sections(image), address)
    scopes = Scopes(unit)
    function = scopes.function_at(address)
    lines = LineTable(unit)
    row = lines.program.row_at(address)
    scope = function.innermost(address)
    _check_fit(function, scope, row, address)
    _check_line(scopes, lines, function, scope, row)
    found: list[PlainFrame] = []
    file, line, column = lines.path(row.file), row.line, row.column
    while True:
        found.append((*scopes.names(scope), file.decode("utf-8", "replace") or None, line, column))
        if scope.around is None:
            break
        register, line, column = scope.call_site()
        file, scope = lines.path(register), scope.around
    if not all(span_end <= image.text[1] and image.text[0] <= start for start, span_end in (*function.spans, *spans)):
        raise NotPlain
    return tuple(found)


def _check_fit(function: Scope, scope: Scope, row: Row, address: int) -> None:
    """The row holds in one scope, from its beginning to its end."""
    for each in (function, scope):
        start, end = next(span for span in each.spans if span[0] <= address < span[1])
        if not start <= row.start < row.stop <= end:
            raise NotPlain
    if any(start < row.stop and row.start < end for call in scope.calls for start, end in call.spans):
        raise NotPlain


def _check_line(scopes: Scopes, lines: LineTable, function: Scope, scope: Scope, row: Row) -> None:
    """The row has a line, and one that the function can have: from its declaration up to the next one in the same file. What
    ``debuginfo.function_lines`` leaves alone besides is left to it."""
    if not row.line or not lines.path(row.file):
        raise NotPlain
    definition = scopes.definition(scope)
    if definition is None:
        return
    whole, (register, first) = definition
    file = lines.path(register)
    if lines.path(row.file) != file or row.line < first:
        raise NotPlain
    last = first
    for call in function.every():
        register_of_call, line, _ = call.call_site()
        if call.around is not None and lines.path(register_of_call) == file:
            caller = scopes.definition(call.around)
            last = max(last, line) if caller is not None and caller[0] == whole else last
    if any(last < line <= row.line and lines.path(other) == file for other, line in scopes.declared()):
        raise NotPlain
