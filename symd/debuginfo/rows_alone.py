"""The frames of one row where debug data is line rows alone, which say themselves what was inlined: as ``reading`` and the index have them, without columns."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from symd.debuginfo.inlined_rows import inlined_rows, is_from_hopper_on
from symd.model.code import PYTHON_SUFFIX
from symd.model.plain_answers import EXACT, NotPlain

if TYPE_CHECKING:
    from collections.abc import Callable

    from symd.core.inlined_calls import InlinedCalls
    from symd.debuginfo.dwarf.lines import LineTables
    from symd.model.code import CodeObject
    from symd.model.plain_answers import PlainAnswer, PlainFrame

_NO_PARENT = 0xFFFFFFFF
_INFERRED = 12
"""``Reason.INFERRED``."""


class RowSequence(NamedTuple):
    """The rows of one sequence, by their numbers, in the section of this number, which begins at the linear address ``base``."""

    rows: range
    section: int
    base: int


def answer_of_row(
    code: CodeObject,
    lines: LineTables,
    calls: InlinedCalls,
    sequence: RowSequence,
    row: int,
    spend: Callable[[int], object],
) -> PlainAnswer | None:
    """The answer in the code of a row, which no other sequence may have; None where nothing is said of it but its position. Raises NotPlain."""
    rows, first, section = lines.rows, sequence.rows.start, sequence.section
    part = slice(first, sequence.rows.stop)
    offsets = array("Q", [address - sequence.base for address in rows.address[part]])
    columns = (
        array("I", [section]) * len(offsets),
        offsets,
        rows.file[part],
        rows.line[part],
        rows.column[part],
        rows.flags[part],
    )
    sites, written_sites = (
        array("I", [site and site - first for site in each[part]]) for each in (calls.site, calls.written_site)
    )
    functions = [each for each in code.functions if each.section_index == section]
    found, names, warnings = inlined_rows(
        columns,
        (sites, calls.name[part], written_sites, calls.written_name[part], calls.doubt[part]),
        calls.names,
        functions,
        lines.files,
        leaves_out_files=is_from_hopper_on(code.target or ""),
        spend=spend,
    )
    scope, offset = found.of_row[row - first], offsets[row - first]
    if warnings:
        raise NotPlain
    said = [each for each in zip(*found.written, strict=True) if each[1] <= offset < each[2]]
    if scope < 0:
        if said:
            raise NotPlain
        return None
    chain = [scope]
    while (around := found.parent[chain[-1]]) != _NO_PARENT:
        chain.append(around)
    root = names[found.name[chain[-1]]]
    for each, parent in enumerate(found.parent):  # ``index.unnamed_calls``
        is_call = parent != _NO_PARENT
        if is_call and (names[found.name[each]] == root or lines.files[found.call_file[each]].endswith(PYTHON_SUFFIX)):
            raise NotPlain
    reason, is_lined, line = (said[0][4], said[0][5], said[0][6]) if said else (EXACT, True, 0)
    position = lines.files[rows.file[row]] or None, line or rows.line[row], rows.column[row]
    if reason != _INFERRED and not is_lined:
        position = None, 0, 0
    frames: list[PlainFrame] = []
    for each in chain:
        frames.append((names[found.name[each]] or None, None, *position))
        position = lines.files[found.call_file[each]] or None, found.call_line[each], found.call_column[each]
    return reason, tuple(frames)
