"""What is decoded from one code object: line rows and scopes, as columns.

Nobody changes any of it. No dataclass says so: a frozen one takes ten times as long to make, and a module may have
thousands of code objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import U8, U32, U64


class RowFlag(IntFlag):
    """Bits of ``LineRows.flags`` (DWARF 5, 6.2.2)."""

    IS_STMT = 1
    BASIC_BLOCK = 2
    END_SEQUENCE = 4
    PROLOGUE_END = 8
    EPILOGUE_BEGIN = 16
    IMPLIED = 32
    """The row is not in the table: NVIDIA's assembler moved the address on and left its row out."""


class Doubt(IntFlag):
    """What is not as written in the inlined calls of a line row (bits of ``RowCalls.doubt``)."""

    NAME = 1
    """The function's name is another one than the row says, or none is known."""
    CALLER = 2
    """Nobody knows where the call stands."""
    CALL_FILE = 4
    """The line of the call is known and its file is not."""


class RowCalls(NamedTuple):
    """The inlined calls that line rows carry themselves (NVIDIA's extension), an entry for each row.

    ``site`` is the number of the row of the call site, plus one; 0 where nothing is inlined. It is always an earlier
    row of the same sequence. ``name`` indexes ``DebugInfo.names`` and is 0 where ``site`` is, or where no name is
    known. ``written_site`` and ``written_name`` are what the table says to the letter. ``doubt`` has bits of ``Doubt``.
    """

    site: U32
    name: U32
    written_site: U32
    written_name: U32
    doubt: U8

    @classmethod
    def none(cls, count: int) -> RowCalls:
        """The calls of ``count`` line rows of which none was inlined."""
        nothing = np.zeros(count, np.uint32)
        return cls(nothing, nothing, nothing, nothing, np.zeros(count, np.uint8))


@dataclass(slots=True, eq=False, repr=False)
class LineRows:
    """A decoded line table of one code object, in table order: equally long columns.

    ``section`` holds ELF section indexes and ``offset`` bytes from that section's start (a SPIR-V module has one
    section, number 0, the module itself). ``file`` indexes ``DebugInfo.files``; its entry 0 is "no file".
    ``calls`` exists only where the line table carries inlining itself (NVIDIA's extension).
    """

    section: U32
    offset: U64
    file: U32
    line: U32
    column: U32
    flags: U8
    calls: RowCalls | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def ends(self) -> U64:
        """The offset in its section where each row ends: that of the row behind it, and of an end_sequence row its
        own."""
        last = (self.flags & np.uint8(RowFlag.END_SEQUENCE)) != 0
        return np.where(last, self.offset, np.append(self.offset[1:], np.uint64(0)))

    @classmethod
    @cache
    def empty(cls) -> LineRows:
        u32 = np.zeros(0, np.uint32)
        return cls(u32, np.zeros(0, np.uint64), u32, u32, u32, np.zeros(0, np.uint8))


NO_PARENT = 0xFFFFFFFF
BODY = 2
NO_FUNCTION = 0xFFFFFFFF


@dataclass(slots=True, eq=False, repr=False)
class Scopes:
    """Functions and inlined calls of one code object: two tables of equally long columns.

    A scope row: ``parent`` (scope number, or NO_PARENT for a function), ``name`` and ``linkage_name`` (indexes into
    ``DebugInfo.names``, entry 0 is "no name"), ``inlined`` (0 or 1; BODY: the kernel around it is the same function,
    which clang compiles as two), and where the call that was inlined stands:
    ``call_file`` (index into ``DebugInfo.files``), ``call_line``, ``call_column``. Parents come before children.
    A range row: ``[range_offset, range_end)`` in section ``range_section`` belongs to ``range_scope``.
    ``function`` is the number of a scope's function in ``DebugInfo.functions``, or NO_FUNCTION; None: of no scope is it
    known.
    """

    parent: U32
    name: U32
    linkage_name: U32
    inlined: U8
    call_file: U32
    call_line: U32
    call_column: U32
    range_scope: U32
    range_section: U32
    range_offset: U64
    range_end: U64
    function: U32 | None = None

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    @cache
    def empty(cls) -> Scopes:
        u32, u64 = np.zeros(0, np.uint32), np.zeros(0, np.uint64)
        return cls(u32, u32, u32, np.zeros(0, np.uint8), u32, u32, u32, u32, u32, u64, u64)


class FunctionLines(NamedTuple):
    """Which lines of its source file a function can have, by the place where it and others are declared: those from
    ``first`` up to ``end``, which is not one of them; 0 where that cannot be told. ``file`` indexes
    ``DebugInfo.files``; functions of different ``unit`` say nothing of each other."""

    unit: U32
    file: U32
    first: U32
    end: U32

    @classmethod
    @cache
    def empty(cls) -> FunctionLines:
        return cls(*[np.zeros(0, np.uint32)] * 4)


class WrittenScopes(NamedTuple):
    """Text that is answered otherwise than its rows say: offsets from ``start`` to ``end`` in the section of that
    number, the innermost scope there as written (NO_PARENT: none), and the ``Reason`` of the answer. ``lined`` says
    that the row's own position holds all the same, but for its line where ``line`` is not 0."""

    section: U32
    start: U64
    end: U64
    scope: U32
    reason: U8
    lined: NDArray[np.bool_]
    line: U32

    @classmethod
    @cache
    def empty(cls) -> WrittenScopes:
        u32, u64, u8 = np.zeros(0, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        return cls(u32, u64, u64, u32, u8, np.zeros(0, np.bool_), u32)


class TextSpans(NamedTuple):
    """Stretches of text: offsets from ``start`` to ``end`` in the section of that number."""

    section: U32
    start: U64
    end: U64

    @classmethod
    @cache
    def empty(cls) -> TextSpans:
        return cls(np.zeros(0, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint64))


@dataclass(slots=True, eq=False, repr=False)
class DebugInfo:
    """Everything decoded from one code object's debug data. ``files`` and ``names`` begin with "". ``elsewhere`` is the
    code whose functions and inlined calls are described in files that are not here; ``strays`` is code that something
    in a function says is its own although the function's ranges do not hold it; ``doubted`` is code of which line
    tables say several things, none of which is known to hold, or a line that the source does not have."""

    rows: LineRows
    scopes: Scopes
    files: Sequence[str] = ("",)
    names: Sequence[str] = ("",)
    warnings: tuple[str, ...] = ()
    functions: FunctionLines = field(default_factory=FunctionLines.empty)
    elsewhere: TextSpans = field(default_factory=TextSpans.empty)
    strays: TextSpans = field(default_factory=TextSpans.empty)
    doubted: TextSpans = field(default_factory=TextSpans.empty)
    written: WrittenScopes = field(default_factory=WrittenScopes.empty)
