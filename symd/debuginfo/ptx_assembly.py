"""Lines that LLVM counts up within inline assembly in PTX.

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

from symd.core import text_layout
from symd.core.line_program import LineRows
from symd.debuginfo import ptx_text
from symd.debuginfo.dwarf.lines import read_tables
from symd.debuginfo.relocation import GAP, LinearLayout
from symd.errors import SymdError
from symd.model.code import CodeObject
from symd.model.light_typing import Final, NamedTuple

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


def read(code: CodeObject, layout: LinearLayout) -> AssemblyRows:
    """The machine code of an image whose lines are not those of its source; empty where the image does not carry its
    PTX, or the PTX cannot be read."""
    with suppress(SymdError):
        sections = ptx_text.line_sections(code, layout)
        if sections is not None:
            tables = read_tables(sections)
            names = [*map(basename, tables.files)] if len(tables.files) > 1 else [ptx_text.TEXT]
            found = {text.name: shifts(text.data.split(b"\0")) for text in ptx_text.sections(code)}
            return _rows(tables.rows, [found.get(name, {}) for name in names], layout)
    return AssemblyRows.empty()


def _rows(rows: LineRows, by_file: Sequence[dict[int, int]], layout: LinearLayout) -> AssemblyRows:
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
