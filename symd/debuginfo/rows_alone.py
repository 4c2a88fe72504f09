"""Inlined calls that line rows alone state, by each compiler's habits, the frames of one row where there is no more
debug data, as ``reading`` and the index have them, and lines that LLVM counts up within inline assembly in PTX. It does
without NumPy, whose import takes longer than an answer.

LLVM 23 (llvm-project, pull request 177718) writes a ``.loc`` before each instruction of an inline assembly, whose line
is that of the call and as many more as lines of the assembly are before it; an instruction with a guard (``@%p1``) has
that of the one before. Triton 3.8 and 3.9 make what reads and writes memory of such assemblies, so that a load of four
words has a line four lines below its own.

Images carry the text of their PTX (``.nv_debug_ptx_txt``) with an empty line in place of each ``.loc`` and comment.
Triton's accesses can be told there: LLVM itself writes no blank behind a bracket (``[%rd1]``, where Triton has
``[ %rd1 + 0 ]``), and what an access gives is set first in the same assembly (``mov.u32 %r1, 0x0;``). Of assemblies in
braces, Triton's own and its users', nobody knows which line they are of; those of users without braces are not told
from other code."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from posixpath import basename

from symd.core import row_scopes as core
from symd.core import text_layout
from symd.core.inlined_calls import InlinedCalls
from symd.core.line_program import LineProgramRows
from symd.core.row_scopes import CONTRADICTORY, RowScopes
from symd.debuginfo import ptx_text
from symd.debuginfo.address_scopes import NO_PARENT
from symd.debuginfo.dwarf.lines import LineTables, read_tables
from symd.debuginfo.relocation import GAP, LinearLayout
from symd.errors import SymdError
from symd.model.code import CodeObject, Function, is_symbol_of
from symd.model.frame_text import EXACT, PYTHON_SUFFIX, AnswerTuple, FrameTuple, NeedsIndex
from symd.model.light_typing import Any, Final, NamedTuple
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
) -> AnswerTuple | None:
    """The answer at an offset in the code of a row, which no other sequence may have; None where nothing is said of it
    but its position. ``how`` rows can be read says ``core.row_scopes``. Raises NeedsIndex."""
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
        raise NeedsIndex("calls were left out, or something is said of code without one")
    if scope < 0:
        return None
    unnamed = _unnamed_calls(found, names, lines.files, scope)
    reason, is_lined, line = (said[0][4], said[0][5], said[0][6]) if said else (EXACT, True, 0)
    if unnamed:
        reason, is_lined = CONTRADICTORY, is_lined or reason != CONTRADICTORY
    position = lines.files[rows.file[row]] or None, line or rows.line[row], rows.column[row]
    if reason == CONTRADICTORY and not is_lined:
        position = None, line, 0
    frames: list[FrameTuple] = []
    for each in _chain(found, scope):
        name = "" if each in unnamed else names[found.name[each]]
        frames.append((name or None, None, *position))
        position = lines.files[found.call_file[each]] or None, found.call_line[each], found.call_column[each]
    if frames[0][0] is None is frames[0][2]:
        raise NeedsIndex("neither function nor file is known")
    return reason, tuple(frames)


def _chain(scopes: RowScopes, scope: int) -> list[int]:
    """A scope and those around it."""
    found = [scope]
    while (around := scopes.parent[found[-1]]) != NO_PARENT:
        found.append(around)
    return found


def _unnamed_calls(scopes: RowScopes, names: Sequence[str], files: Sequence[str], scope: int) -> set[int]:
    """The calls around a scope that a compiler of Python says are the function around them (``index.functions``).
    Raises NeedsIndex where another one says so."""
    *calls, root = _chain(scopes, scope)
    symbol = names[scopes.name[root]]
    roots: list[int] = []
    for each, around in enumerate(scopes.parent):
        roots.append(each if around == NO_PARENT else roots[around])
    own = (each for each, around in enumerate(roots) if around == root)
    is_of_python = any(files[scopes.call_file[each]].endswith(PYTHON_SUFFIX) for each in own)
    known = {each: names[scopes.name[each]] for each in calls}
    if not is_of_python and symbol in known.values():
        raise NeedsIndex("a call is said to be the function around it")
    return {each for each, name in known.items() if is_of_python and name and is_symbol_of(symbol, name)}


_END_SEQUENCE: Final = 4
"""``RowFlag.END_SEQUENCE``."""
UNKNOWN: Final = -1
_GUARDED: Final = re.compile(rb"@!?%p\d+ ")
_ACCESS: Final = re.compile(rb"(?:@!?%p\d+ )?[a-z][\w.:]* ([^\[]*)\[ %")
_SET: Final = re.compile(rb"mov\.[a-z]\d+ (%\w+), (?:0x[0-9a-fA-F]+|%\w+);")
_BLOCK: Final = b"$L__BB"
"""Labels of basic blocks: behind one a ``.loc`` stands as a rule, and what has none is left as it is."""
_POLICY: Final = b"createpolicy."
"""An assembly of its own in front of an access with a policy of eviction."""
_FUNCTION: Final = (b".entry", b".func", b".visible", b".weak")
_REGISTER: Final = re.compile(rb"%\w+")


class AssemblyRows(NamedTuple):
    """Machine code of inline assemblies, in order and apart: offsets from ``start`` to ``end`` (u64) in the section of
    that number (u32), and by how many its line is too high, or UNKNOWN (i64)."""

    section: array[int]
    start: array[int]
    end: array[int]
    shift: array[int]

    @classmethod
    def empty(cls) -> AssemblyRows:
        return cls(array("I"), array("Q"), array("Q"), array("q"))


def assembly_rows(code: CodeObject, layout: LinearLayout) -> AssemblyRows:
    """The machine code of an image whose lines are not those of its source; empty where the image does not carry its
    PTX, or the PTX cannot be read."""
    with suppress(SymdError):
        sections = ptx_text.line_sections(code, layout)
        if sections is not None:
            tables = read_tables(sections)
            names = [*map(basename, tables.files)] if len(tables.files) > 1 else [ptx_text.TEXT]
            found = {text.name: shifts(text.data.split(b"\0")) for text in ptx_text.sections(code)}
            return _assembly_rows(tables.rows, [found.get(name, {}) for name in names], layout)
    return AssemblyRows.empty()


def _assembly_rows(rows: LineProgramRows, by_file: Sequence[dict[int, int]], layout: LinearLayout) -> AssemblyRows:
    columns = *text_layout.section_of(layout, GAP, rows.address), rows.file, rows.line, rows.flags
    known = [each for each in zip(*columns, strict=True) if each[2]]
    found = []
    for (section, start, _, file, line, flags), (_, stop, *_) in pairwise([*known, (0,) * len(columns)]):
        shift = by_file[file].get(line, 0)
        if shift and stop > start and not flags & _END_SEQUENCE:
            found.append((section, start, stop, shift))
    found.sort(key=itemgetter(0, 1))
    return AssemblyRows(*(array(kind, [each[at] for each in found]) for at, kind in enumerate("IQQq")))


def shifts(lines: Sequence[bytes]) -> dict[int, int]:
    """The lines of PTX whose source line is too high, and by how many lines, or UNKNOWN. Lines count from 1; those
    that are right are left out."""
    lines = [line.strip() for line in lines]
    found = _of_braces(lines)
    for number, line in enumerate(lines):
        access = _ACCESS.match(line)
        given = access[1] if access else line if line.startswith(_POLICY) else b""
        if not given or found.get(number + 1, UNKNOWN) != UNKNOWN:
            continue
        shift = 0
        for own, above in _set_before(lines, number, set(_REGISTER.findall(given))):
            found[own + 1] = above
            shift = max(shift, above + 1)
        if shift:
            found[number + 1] = shift - 1 if _GUARDED.match(line) else shift
            for behind in _without_location(lines, number):
                found.setdefault(behind + 1, found[number + 1])
    return {number: shift for number, shift in found.items() if shift}


def _without_location(lines: Sequence[bytes], access: int) -> Iterator[int]:
    """The lines behind an access before the next ``.loc``, which LLVM leaves out where the place of the call goes on;
    two empty lines end an assembly, and one begins the next."""
    at = access
    while lines[at + 1 : at + 3] == [b"", b""]:
        at += 3
        while at < len(lines) and lines[at] and lines[at] != b"}" and not lines[at].startswith(_BLOCK):
            yield at
            at += 1
        at += 1
        if at >= len(lines) or not (_GUARDED.match(lines[at]) and _ACCESS.match(lines[at])):
            return
        yield at


def _set_before(lines: Sequence[bytes], access: int, registers: set[bytes]) -> list[tuple[int, int]]:
    """The lines in front of an access that set what it gives, each with how many of them are before it. A ``.loc``
    is before each, so that there is an empty line between two."""
    found: list[int] = []
    at = access - (1 if _GUARDED.match(lines[access]) else 2)
    while at > 0 and registers and (hit := _SET.fullmatch(lines[at])) and hit[1] in registers and not lines[at - 1]:
        if not found and lines[at + 1 : access] not in ([], [b""]):
            break
        registers.discard(hit[1])
        found.append(at)
        at -= 2
    return [(line, number) for number, line in enumerate(reversed(found))]


def _of_braces(lines: Sequence[bytes]) -> dict[int, int]:
    """Instructions in braces within a function from the first ``.loc`` there on; calls are in braces too, and begin
    with their parameters."""
    found: dict[int, int] = {}
    depth, has_begun, is_call = 0, False, False
    for number, line in enumerate(lines):
        if line.startswith(_FUNCTION):
            depth = 0
        opened = line.count(b"{") - line.count(b"}")
        inside = max(depth, depth + opened)
        if inside > 1 and opened > 0:
            has_begun = is_call = False
        elif inside > 1 and line.strip(b"}") and not is_call:
            is_call = line.startswith(b".param")
            has_begun |= not lines[number - 1]
            if has_begun and not is_call:
                found[number + 1] = UNKNOWN
        depth += opened
    return found
