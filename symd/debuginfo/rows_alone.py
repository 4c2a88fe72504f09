"""Inlined calls that line rows alone state, by each compiler's habits, and the frames of one row where there is no more
debug data, as ``reading`` and the index have them. It does without NumPy, whose import takes longer than an answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from symd.core import row_scopes as core
from symd.core.inlined_calls import InlinedCalls
from symd.core.row_scopes import CONTRADICTORY, RowScopes
from symd.debuginfo.dwarf.lines import LineTables
from symd.model.code import CodeObject, Function, is_symbol_of
from symd.model.frame_text import EXACT, PYTHON_SUFFIX, NotPlain, PlainAnswer, PlainFrame
from symd.model.light_typing import Any, NamedTuple
from symd.model.texts import counted

_HOPPER = 90


class InlinedRows(NamedTuple):
    """``names`` begins with the names that were passed; ``warnings`` say what was left out."""

    scopes: core.RowScopes
    names: tuple[str, ...]
    warnings: tuple[str, ...]


def inlined_rows(
    rows: Sequence[Any],
    calls: Sequence[Any],
    names: Sequence[str],
    functions: Sequence[Function],
    files: Sequence[str],
    **how: Any,
) -> InlinedRows:
    """The scopes of rows (``core.row_scopes``, which says what both columns hold and ``how`` they can be read)."""
    python_files = bytes(file.endswith(PYTHON_SUFFIX) for file in files)

    known: dict[tuple[int, int], bool] = {}  # names may be long, and many rows have one

    def is_around(function: int, name: int) -> bool:
        found = known.get((function, name))
        if found is None:
            found = known[function, name] = is_symbol_of(functions[function].name, names[name])
        return found

    unnamed = is_around if 1 in python_files else None
    found = core.row_scopes(rows, calls, functions, unnamed=unnamed, python_files=python_files, names=len(names), **how)
    own = (functions[number].name if number >= 0 else "" for number in found.functions)
    left_out = f"left out: the callers of {counted(found.lost, 'row')} inlined more than {core.MAX_DEPTH} deep"
    return InlinedRows(found, (*names, *own), (left_out,) if found.lost else ())


def is_from_hopper_on(target: str) -> bool:
    """Whether a target is sm_90 or newer, for which NVIDIA's assembler writes line tables in another way."""
    number = target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return target.startswith("sm_") and number.isdecimal() and int(number) >= _HOPPER


_NO_PARENT = 0xFFFFFFFF


class RowSequence(NamedTuple):
    """The rows of one sequence, by their numbers, in the section of this number, which begins at the linear address
    ``base``."""

    rows: range
    section: int
    base: int


def answer_of_row(
    code: CodeObject,
    lines: LineTables,
    calls: InlinedCalls,
    sequence: RowSequence,
    row: int,
    offset: int,
    **how: Any,
) -> PlainAnswer | None:
    """The answer at an offset in the code of a row, which no other sequence may have; None where nothing is said of it
    but its position. ``how`` rows can be read says ``core.row_scopes``. Raises NotPlain."""
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
    found, names, warnings = inlined_rows(
        columns,
        (sites, calls.name[part], written_sites, calls.written_name[part], calls.doubt[part]),
        calls.names,
        [each for each in code.functions if each.section_index == section],
        lines.files,
        leaves_out_files=is_from_hopper_on(code.target or ""),
        **how,
    )
    scope = found.of_row[row - first]
    said = [each for each in zip(*found.written, strict=True) if each[1] <= offset < each[2]]
    if warnings or (scope < 0 and said):
        raise NotPlain("calls were left out, or something is said of code without one")
    if scope < 0:
        return None
    unnamed = _unnamed_calls(found, names, lines.files, scope)
    reason, is_lined, line = (said[0][4], said[0][5], said[0][6]) if said else (EXACT, True, 0)
    if unnamed:
        reason, is_lined = CONTRADICTORY, is_lined or reason != CONTRADICTORY
    position = lines.files[rows.file[row]] or None, line or rows.line[row], rows.column[row]
    if reason == CONTRADICTORY and not is_lined:
        position = None, line, 0
    frames: list[PlainFrame] = []
    for each in _chain(found, scope):
        name = "" if each in unnamed else names[found.name[each]]
        frames.append((name or None, None, *position))
        position = lines.files[found.call_file[each]] or None, found.call_line[each], found.call_column[each]
    if frames[0][0] is None is frames[0][2]:
        raise NotPlain("neither function nor file is known")
    return reason, tuple(frames)


def _chain(scopes: RowScopes, scope: int) -> list[int]:
    """A scope and those around it."""
    found = [scope]
    while (around := scopes.parent[found[-1]]) != _NO_PARENT:
        found.append(around)
    return found


def _unnamed_calls(scopes: RowScopes, names: Sequence[str], files: Sequence[str], scope: int) -> set[int]:
    """The calls around a scope that a compiler of Python says are the function around them (``index.functions``).
    Raises NotPlain where another one says so."""
    *calls, root = _chain(scopes, scope)
    symbol = names[scopes.name[root]]
    roots: list[int] = []
    for each, around in enumerate(scopes.parent):
        roots.append(each if around == _NO_PARENT else roots[around])
    own = (each for each, around in enumerate(roots) if around == root)
    is_of_python = any(files[scopes.call_file[each]].endswith(PYTHON_SUFFIX) for each in own)
    known = {each: names[scopes.name[each]] for each in calls}
    if not is_of_python and symbol in known.values():
        raise NotPlain("a call is said to be the function around it")
    return {each for each, name in known.items() if is_of_python and name and is_symbol_of(symbol, name)}
