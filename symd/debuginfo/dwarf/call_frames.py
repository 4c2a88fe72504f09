"""Call frame information: by address, where a function's caller is and where the registers are that the caller had.

A section has common entries (CIE) and an entry for each function (FDE), whose instructions make rows: from an address
on, how the canonical frame address (CFA) is computed and, for each register, where the caller's content of it is.

Sources: DWARF 5, 6.4 and 7.24; the Linux Standard Base (DW_CFA_GNU_*); LLVM's "DWARF Extensions For Heterogeneous
Debugging" (DW_CFA_LLVM_*).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from symd.debuginfo.dwarf.forms import Cursor
from symd.errors import Malformed


class Cfa(IntEnum):
    """Call frame instructions. The first three have an operand in their low six bits."""

    DW_CFA_advance_loc = 0x40
    DW_CFA_offset = 0x80
    DW_CFA_restore = 0xC0
    DW_CFA_nop = 0x00
    DW_CFA_set_loc = 0x01
    DW_CFA_advance_loc1 = 0x02
    DW_CFA_advance_loc2 = 0x03
    DW_CFA_advance_loc4 = 0x04
    DW_CFA_offset_extended = 0x05
    DW_CFA_restore_extended = 0x06
    DW_CFA_undefined = 0x07
    DW_CFA_same_value = 0x08
    DW_CFA_register = 0x09
    DW_CFA_remember_state = 0x0A
    DW_CFA_restore_state = 0x0B
    DW_CFA_def_cfa = 0x0C
    DW_CFA_def_cfa_register = 0x0D
    DW_CFA_def_cfa_offset = 0x0E
    DW_CFA_def_cfa_expression = 0x0F
    DW_CFA_expression = 0x10
    DW_CFA_offset_extended_sf = 0x11
    DW_CFA_def_cfa_sf = 0x12
    DW_CFA_def_cfa_offset_sf = 0x13
    DW_CFA_val_offset = 0x14
    DW_CFA_val_offset_sf = 0x15
    DW_CFA_val_expression = 0x16
    DW_CFA_MIPS_advance_loc8 = 0x1D
    DW_CFA_GNU_args_size = 0x2E
    DW_CFA_GNU_negative_offset_extended = 0x2F
    DW_CFA_LLVM_def_aspace_cfa = 0x30
    DW_CFA_LLVM_def_aspace_cfa_sf = 0x31


MAX_INSTRUCTIONS = 100_000
"""Instructions of one entry; compilers write some hundred."""
MAX_RULES = 4096
"""Registers of one row."""
MAX_STATES = 256
"""Rows that are remembered at once."""
_WORD = 4
"""The bytes of an entry's length, and of its offsets where that has no escape."""
_ZEROS = re.compile(rb"\0+")
_MASK = (1 << 64) - 1
_NAME = ".debug_frame"
_EXTENDED = 0x3F
"""The low bits of an instruction, which are its operand where the high two are not 0."""


class RuleKind(Enum):
    """Where the caller's content of a register is."""

    UNDEFINED = "undefined"
    SAME_VALUE = "same value"
    OFFSET = "offset"
    """The caller's content is in memory at CFA + ``number`` (DWARF 5, 6.4.1)."""
    VALUE_OFFSET = "value offset"
    """The caller's content is the number CFA + ``number`` itself (DWARF 5, 6.4.1)."""
    REGISTER = "register"
    """The caller's content is in register ``number`` (DWARF 5, 6.4.1)."""
    EXPRESSION = "expression"
    """The caller's content is in memory at the address that ``expression`` computes, which begins with the CFA on
    its stack (DWARF 5, 6.4.1)."""
    VALUE_EXPRESSION = "value expression"
    """The caller's content is the value that ``expression`` computes, which begins with the CFA on its stack (DWARF
    5, 6.4.1)."""


class RegisterRule(NamedTuple):
    """How the caller's content of a register is found (DWARF 5, 6.4.1). ``number`` is an offset in bytes or a
    register's number, by kind."""

    kind: RuleKind
    number: int = 0
    expression: bytes = b""


UNDEFINED = RegisterRule(RuleKind.UNDEFINED)
SAME_VALUE = RegisterRule(RuleKind.SAME_VALUE)


class FrameAddress(NamedTuple):
    """How the CFA is computed: ``expression``, or else the content of ``register`` plus ``offset`` bytes.
    ``address_space`` is the number of the space that it is an address in; None: the default one, or what the expression
    says."""

    register: int = 0
    offset: int = 0
    address_space: int | None = None
    expression: bytes | None = None


class FrameRow(NamedTuple):
    """What holds in ``[start, end)``. ``cfa`` is None where nothing says it. A register without a rule has the ABI's
    default one."""

    start: int
    end: int
    cfa: FrameAddress | None
    registers: Mapping[int, RegisterRule]
    return_register: int
    """The column that stands for the address to return to."""


class CommonEntry(NamedTuple):
    """A CIE, at ``at`` of the section. ``program`` are the bounds of its instructions."""

    at: int
    version: int
    augmentation: bytes
    address_size: int
    segment_size: int
    code_factor: int
    data_factor: int
    return_register: int
    program: tuple[int, int]


class FunctionEntry(NamedTuple):
    """An FDE, at ``at`` of the section, of the code in ``[start, end)``."""

    at: int
    start: int
    end: int
    common: CommonEntry
    program: tuple[int, int]


class CallFrames:
    """The entries of one ``.debug_frame``, without relocations to come. Entries that cannot be read are left out, and
    named in ``notes``. ``count`` is told the section's name for each entry before it is read, and raises where there
    are too many."""

    def __init__(self, data: bytes, *, address_size: int = 8, count: Callable[[str], None] | None = None) -> None:
        self._data, self._address_size, self._count = data, address_size, count
        self._common: dict[int, CommonEntry | None] = {}
        self.notes: list[str] = []
        found = sorted(self._read(), key=lambda entry: entry.start)
        self.entries: tuple[FunctionEntry, ...] = tuple(found)
        self._starts = [entry.start for entry in found]

    def at(self, address: int) -> FrameRow | None:
        """What holds at an address, by the last entry that begins up to it; None where that one ends before. Entries
        do not overlap (DWARF 5, 6.4.1). Raises Malformed."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address >= self.entries[number].end:
            return None
        entry = self.entries[number]
        state = self._initial(entry)
        for reached in self._instructions(state, entry.common, entry.program):
            if reached > address:
                return state.row(entry, state.location, reached)
            state.location = reached
        return state.row(entry, state.location, entry.end)

    def _read(self) -> Iterator[FunctionEntry]:
        for at, content, end, width in self._extents():
            try:
                entry = self._entry(at, content, end, width)
            except Malformed as error:
                self.notes.append(str(error))
                continue
            if entry is not None and entry.start < entry.end:
                yield entry

    def _extents(self) -> Iterator[tuple[int, int, int, int]]:
        """(where it begins, the bounds of its content, the bytes of an offset) of each entry."""
        cursor = self._cursor(0, len(self._data))
        try:
            while cursor.at < cursor.end:
                at = cursor.at
                length, width = cursor.initial_length()
                if not length and width == _WORD:
                    cursor.at = self._after_zeros(at)
                    continue
                if self._count is not None:
                    self._count(_NAME)
                content = cursor.skip(length)
                if length:
                    yield at, content, cursor.at, width
        except Malformed as error:
            self.notes.append(str(error))

    def _after_zeros(self, at: int) -> int:
        """Where the zero words that begin at ``at`` end: linkers leave terminators and padding between entries."""
        found = _ZEROS.match(self._data, at)
        return at + (found.end() - at) // _WORD * _WORD if found else at + _WORD

    def _entry(self, at: int, content: int, end: int, width: int) -> FunctionEntry | None:
        """The function's entry whose content begins at ``content``; None for a common one."""
        cursor = self._cursor(content, end)
        pointer = cursor.unsigned(width)
        if pointer == (1 << 8 * width) - 1:
            return None
        common = self._common_entry(pointer)
        if common is None:
            raise cursor.fail(f"its common entry, at {pointer:#x}, cannot be read", at)
        cursor.skip(common.segment_size)
        start, size = cursor.address(common.address_size), cursor.address(common.address_size)
        if start + size > 1 << 64:
            raise cursor.fail(f"its code, {size:#x} bytes at {start:#x}, leaves the address space", at)
        return FunctionEntry(at, start, start + size, common, (cursor.at, end))

    def _common_entry(self, at: int) -> CommonEntry | None:
        if at not in self._common:
            try:
                self._common[at] = self._read_common(at)
            except Malformed as error:
                self.notes.append(str(error))
                self._common[at] = None
        return self._common[at]

    def _read_common(self, at: int) -> CommonEntry:
        cursor = self._cursor(at, len(self._data))
        length, width = cursor.initial_length()
        content = cursor.skip(length)
        end = cursor.at
        cursor = self._cursor(content, end)
        if cursor.unsigned(width) != (1 << 8 * width) - 1:
            raise cursor.fail("there is no common entry", at)
        version = cursor.unsigned(1)
        if version not in (1, 3, 4):
            raise cursor.fail(f"version {version} is not known", at)
        augmentation = cursor.text()
        if augmentation and augmentation[:1] != b"[":  # a text in brackets names a vendor and has no data
            raise cursor.fail(f"augmentation {augmentation.decode('latin-1')!r} is not known")
        address_size, segment_size = self._address_size, 0
        if version >= 4:
            address_size, segment_size = cursor.unsigned(1), cursor.unsigned(1)
        code_factor, data_factor = cursor.uleb(), cursor.sleb()
        return_register = cursor.unsigned(1) if version == 1 else cursor.uleb()
        return CommonEntry(
            *(at, version, augmentation, address_size, segment_size),
            *(code_factor, data_factor, return_register, (cursor.at, end)),
        )

    def _cursor(self, at: int, end: int) -> Cursor:
        return Cursor(self._data, _NAME, at, end)

    def _initial(self, entry: FunctionEntry) -> _State:
        """The state before an entry's own instructions."""
        state = _State(entry.start)
        for _ in self._instructions(state, entry.common, entry.common.program):
            raise self._cursor(entry.common.at, 0).fail("a common entry advances the location")
        state.initial = dict(state.registers)
        return state

    def _instructions(self, state: _State, common: CommonEntry, program: tuple[int, int]) -> Iterator[int]:
        """Execute instructions; each location that is reached, before the rules that begin there."""
        cursor = self._cursor(*program)
        for _ in range(MAX_INSTRUCTIONS):
            if cursor.at >= cursor.end:
                return
            code = cursor.unsigned(1)
            high, low = code & ~_EXTENDED, code & _EXTENDED
            if high == Cfa.DW_CFA_advance_loc:
                yield state.location + low * common.code_factor & _MASK
            elif code == Cfa.DW_CFA_set_loc:
                yield cursor.address(common.address_size)
            elif code in _ADVANCE_SIZES:
                yield state.location + cursor.unsigned(_ADVANCE_SIZES[code]) * common.code_factor & _MASK
            elif high == Cfa.DW_CFA_offset:
                state.rule(cursor, low, RegisterRule(RuleKind.OFFSET, cursor.uleb() * common.data_factor))
            elif high == Cfa.DW_CFA_restore:
                state.restore(low)
            else:
                self._other(code, cursor, state, common)
        raise cursor.fail("the instructions do not come to an end")

    def _other(self, code: int, cursor: Cursor, state: _State, common: CommonEntry) -> None:
        """An instruction that neither advances nor has an operand in its own byte."""
        factor = common.data_factor
        if code == Cfa.DW_CFA_nop:
            return
        if code in _REGISTER_RULES:
            register = cursor.uleb()
            state.rule(cursor, register, _register_rule(code, cursor, factor))
        elif code == Cfa.DW_CFA_restore_extended:
            state.restore(cursor.uleb())
        elif code == Cfa.DW_CFA_remember_state:
            state.remember(cursor)
        elif code == Cfa.DW_CFA_restore_state:
            state.recall(cursor)
        elif code == Cfa.DW_CFA_GNU_args_size:
            cursor.uleb()
        elif code in _ADDRESS_RULES:
            state.cfa = _frame_address(code, cursor, state.cfa, factor)
        else:
            raise cursor.fail(f"unknown instruction {code:#04x}", cursor.at - 1)


_ADVANCE_SIZES: Mapping[int, int] = {
    Cfa.DW_CFA_advance_loc1: 1,
    Cfa.DW_CFA_advance_loc2: 2,
    Cfa.DW_CFA_advance_loc4: 4,
    Cfa.DW_CFA_MIPS_advance_loc8: 8,
}
_REGISTER_RULES = frozenset(
    {
        Cfa.DW_CFA_offset_extended, Cfa.DW_CFA_offset_extended_sf, Cfa.DW_CFA_GNU_negative_offset_extended,
        Cfa.DW_CFA_undefined, Cfa.DW_CFA_same_value, Cfa.DW_CFA_register, Cfa.DW_CFA_expression,
        Cfa.DW_CFA_val_offset, Cfa.DW_CFA_val_offset_sf, Cfa.DW_CFA_val_expression,
    }
)  # fmt: skip
_ADDRESS_RULES = frozenset(
    {
        Cfa.DW_CFA_def_cfa, Cfa.DW_CFA_def_cfa_sf, Cfa.DW_CFA_def_cfa_register, Cfa.DW_CFA_def_cfa_offset,
        Cfa.DW_CFA_def_cfa_offset_sf, Cfa.DW_CFA_def_cfa_expression, Cfa.DW_CFA_LLVM_def_aspace_cfa,
        Cfa.DW_CFA_LLVM_def_aspace_cfa_sf,
    }
)  # fmt: skip


def _block(cursor: Cursor) -> bytes:
    size = cursor.uleb()
    start = cursor.skip(size)
    return cursor.data[start : cursor.at]


def _register_rule(code: int, cursor: Cursor, factor: int) -> RegisterRule:
    """The rule whose register was read already."""
    if code == Cfa.DW_CFA_undefined:
        return UNDEFINED
    if code == Cfa.DW_CFA_same_value:
        return SAME_VALUE
    if code == Cfa.DW_CFA_register:
        return RegisterRule(RuleKind.REGISTER, cursor.uleb())
    if code in (Cfa.DW_CFA_expression, Cfa.DW_CFA_val_expression):
        kind = RuleKind.EXPRESSION if code == Cfa.DW_CFA_expression else RuleKind.VALUE_EXPRESSION
        return RegisterRule(kind, expression=_block(cursor))
    value = code in (Cfa.DW_CFA_val_offset, Cfa.DW_CFA_val_offset_sf)
    signed = code in (Cfa.DW_CFA_offset_extended_sf, Cfa.DW_CFA_val_offset_sf)
    number = (cursor.sleb() if signed else cursor.uleb()) * factor
    if code == Cfa.DW_CFA_GNU_negative_offset_extended:
        number = -number
    return RegisterRule(RuleKind.VALUE_OFFSET if value else RuleKind.OFFSET, number)


def _frame_address(code: int, cursor: Cursor, before: FrameAddress | None, factor: int) -> FrameAddress:
    """The CFA's new rule. Raises Malformed where it changes a part of one that is not made of parts."""
    if code == Cfa.DW_CFA_def_cfa_expression:
        return FrameAddress(expression=_block(cursor))
    if code in (Cfa.DW_CFA_def_cfa, Cfa.DW_CFA_def_cfa_sf):
        register = cursor.uleb()
        return FrameAddress(register, cursor.uleb() if code == Cfa.DW_CFA_def_cfa else cursor.sleb() * factor)
    if code in (Cfa.DW_CFA_LLVM_def_aspace_cfa, Cfa.DW_CFA_LLVM_def_aspace_cfa_sf):
        register = cursor.uleb()
        offset = cursor.uleb() if code == Cfa.DW_CFA_LLVM_def_aspace_cfa else cursor.sleb() * factor
        return FrameAddress(register, offset, cursor.uleb())
    if before is None or before.expression is not None:
        raise cursor.fail("the CFA is not a register and an offset, so it cannot be changed", cursor.at - 1)
    if code == Cfa.DW_CFA_def_cfa_register:
        return before._replace(register=cursor.uleb())
    return before._replace(offset=cursor.uleb() if code == Cfa.DW_CFA_def_cfa_offset else cursor.sleb() * factor)


@dataclass(slots=True)
class _State:
    """The rules at ``location`` while instructions are executed."""

    location: int
    cfa: FrameAddress | None = None
    registers: dict[int, RegisterRule] = field(default_factory=dict)
    initial: dict[int, RegisterRule] = field(default_factory=dict)
    remembered: list[tuple[FrameAddress | None, dict[int, RegisterRule]]] = field(default_factory=list)

    def row(self, entry: FunctionEntry, start: int, end: int) -> FrameRow:
        return FrameRow(start, end, self.cfa, dict(self.registers), entry.common.return_register)

    def rule(self, cursor: Cursor, register: int, rule: RegisterRule) -> None:
        if len(self.registers) >= MAX_RULES and register not in self.registers:
            raise cursor.fail(f"a row has rules for more than {MAX_RULES} registers")
        self.registers[register] = rule

    def restore(self, register: int) -> None:
        """Back to what the common entry says."""
        if register in self.initial:
            self.registers[register] = self.initial[register]
        else:
            self.registers.pop(register, None)

    def remember(self, cursor: Cursor) -> None:
        if len(self.remembered) >= MAX_STATES:
            raise cursor.fail(f"more than {MAX_STATES} states are remembered")
        self.remembered.append((self.cfa, dict(self.registers)))

    def recall(self, cursor: Cursor) -> None:
        if not self.remembered:
            raise cursor.fail("there is no remembered state")
        self.cfa, self.registers = self.remembered.pop()
