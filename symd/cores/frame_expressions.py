"""Expressions of AMD's call frame information, computed with what a dump holds: the stack's entries are values or
places, as in LLVM's extensions for heterogeneous debugging.

Sources: DWARF 5, 2.5; LLVM's "DWARF Extensions For Heterogeneous Debugging", in the encoding of today (an operation and
its number after DW_OP_LLVM_user) and in that of ROCm before 6 (operations of their own)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from symd.debuginfo.dwarf.forms import Cursor
from symd.debuginfo.dwarf.variable_constants import ROCM_5_OPERATIONS, LlvmOp, Op

MAX_STEPS = 1000
"""Operations of one expression."""
MAX_PIECES = 256
_MASK = (1 << 64) - 1
_ADDRESS_BYTES = 8
WHERE = "call frame information"


class NotInDump(Exception):
    """What an expression needs is not in the dump; the text says what."""


class FrameMemory(NamedTuple):
    """Memory at a byte address of an address space, by DWARF's number of it (0: global memory)."""

    space: int
    address: int


class RegisterLocation(NamedTuple):
    """A register from byte ``offset`` on."""

    number: int
    offset: int = 0


class FramePiece(NamedTuple):
    """``bits`` bits of a place, from bit ``skipped`` on."""

    place: FrameMemory | RegisterLocation
    bits: int
    skipped: int = 0


class Composite(NamedTuple):
    """Pieces of several places, lowest bits first."""

    pieces: tuple[FramePiece, ...]


Location: TypeAlias = FrameMemory | RegisterLocation | Composite
Entry: TypeAlias = int | FrameMemory | RegisterLocation | Composite
"""A value, as an unsigned number of 64 bits, or a place."""


class CallState(Protocol):
    """What expressions read. Each raises NotInDump for what is not there."""

    def register(self, number: int) -> bytes:
        """The content of a register in this frame."""
        ...

    def entry_register(self, number: int) -> bytes:
        """The content of a register when the function was called."""
        ...

    def memory(self, place: FrameMemory, size: int) -> bytes:
        """Memory of the wave."""
        ...


def contents(place: Location, size: int, context: CallState) -> bytes:
    """``size`` bytes of a place. Raises NotInDump."""
    if isinstance(place, FrameMemory):
        return context.memory(place, size)
    if isinstance(place, RegisterLocation):
        whole = context.register(place.number)
        if place.offset + size > len(whole):
            raise NotInDump(f"byte {place.offset + size} of a register of {len(whole)}")
        return whole[place.offset : place.offset + size]
    found, filled = 0, 0
    for piece in place.pieces:
        first, rest = divmod(piece.skipped, 8)
        data = contents(_from_byte(piece.place, first), (rest + piece.bits + 7) // 8, context)
        found |= (int.from_bytes(data, "little") >> rest & (1 << piece.bits) - 1) << filled
        filled += piece.bits
        if filled >= 8 * size:
            break
    if filled < 8 * size:
        raise NotInDump(f"byte {size} of {filled // 8}")
    return (found & (1 << 8 * size) - 1).to_bytes(size, "little")


def _from_byte(place: FrameMemory | RegisterLocation, offset: int) -> FrameMemory | RegisterLocation:
    if isinstance(place, FrameMemory):
        return place._replace(address=place.address + offset & _MASK)
    return place._replace(offset=place.offset + offset)


def evaluate(expression: bytes, context: CallState, start: Entry | None = None) -> Entry:
    """What an expression computes: a place, or a value. ``start`` is on its stack at the beginning. Raises
    NotInDump, Malformed for what makes no sense."""
    machine = _Machine(Cursor(expression, WHERE, 0, len(expression)), context, [] if start is None else [start])
    machine.run()
    return machine.result()


@dataclass(slots=True)
class _Machine:
    cursor: Cursor
    context: CallState
    stack: list[Entry]
    pieces: list[FramePiece] = field(default_factory=list)

    def run(self) -> None:
        for _ in range(MAX_STEPS):
            if self.cursor.at >= self.cursor.end:
                return
            code = self.cursor.unsigned(1)
            table: Mapping[int, _Execute] = _OPERATIONS
            if code == Op.DW_OP_LLVM_user:
                code, table = self.cursor.uleb(), _LLVM_OPERATIONS
            operation = table.get(code)
            if operation is None:
                raise self.cursor.fail(f"operation {code:#04x} is not known")
            operation(self)
        raise self.cursor.fail("the expression does not come to an end")

    def result(self) -> Entry:
        if self.pieces:
            return Composite(tuple(self.pieces))
        if not self.stack:
            raise NotInDump("a place that is undefined")
        return self.stack[-1]

    def pop(self) -> Entry:
        if not self.stack:
            raise self.cursor.fail("an operation finds too few operands")
        return self.stack.pop()

    def pop_number(self) -> int:
        """The top as a value; of a place the 8 bytes that are there."""
        top = self.pop()
        return top if isinstance(top, int) else self.load(top, _ADDRESS_BYTES)

    def pop_location(self) -> Location:
        """The top as a place; a value is an address of global memory."""
        top = self.pop()
        return FrameMemory(0, top) if isinstance(top, int) else top

    def pop_whole(self) -> FrameMemory | RegisterLocation:
        """The top as a place that is not made of pieces: reading pieces of pieces of pieces would take forever."""
        place = self.pop_location()
        if isinstance(place, Composite):
            raise self.cursor.fail("pieces of a place that has pieces itself")
        return place

    def load(self, place: Location, size: int) -> int:
        if isinstance(place, RegisterLocation):
            size = min(size, max(len(self.context.register(place.number)) - place.offset, 1))
        return int.from_bytes(contents(place, size, self.context), "little")

    def take_piece(self, bits: int, skipped: int) -> None:
        if len(self.pieces) >= MAX_PIECES:
            raise self.cursor.fail("too many pieces")
        self.pieces.append(FramePiece(self.pop_whole(), bits, skipped))


_Execute: TypeAlias = Callable[[_Machine], None]


def _number(value: int, machine: _Machine) -> None:
    machine.stack.append(value & _MASK)


def _fixed(size: int, signed: bool, machine: _Machine) -> None:
    value = machine.cursor.unsigned(size)
    _number(value - (1 << 8 * size) if signed and value >> 8 * size - 1 else value, machine)


def _register(number: int, machine: _Machine) -> None:
    machine.stack.append(RegisterLocation(number))


def _based(number: int, machine: _Machine) -> None:
    content = machine.load(RegisterLocation(number), _ADDRESS_BYTES)
    _number(content + machine.cursor.sleb(), machine)


def _deref(machine: _Machine) -> None:
    machine.stack.append(machine.load(machine.pop_location(), _ADDRESS_BYTES))


def _deref_size(machine: _Machine) -> None:
    """The low bytes of a value: in these extensions a literal is a place that holds it."""
    size = machine.cursor.unsigned(1)
    top = machine.pop()
    machine.stack.append(top & (1 << 8 * size) - 1 if isinstance(top, int) else machine.load(top, size))


def _swap(machine: _Machine) -> None:
    top, below = machine.pop(), machine.pop()
    machine.stack += [top, below]


def _duplicate(machine: _Machine) -> None:
    top = machine.pop()
    machine.stack += [top, top]


def _drop(machine: _Machine) -> None:
    machine.pop()


def _two(compute: Callable[[int, int], int], machine: _Machine) -> None:
    right, left = machine.pop_number(), machine.pop_number()
    _number(compute(left, right), machine)


def _piece(machine: _Machine) -> None:
    machine.take_piece(8 * machine.cursor.uleb(), 0)


def _bit_piece(machine: _Machine) -> None:
    bits = machine.cursor.uleb()
    machine.take_piece(bits, machine.cursor.uleb())


def _nothing(machine: _Machine) -> None:
    del machine


def _form_address(machine: _Machine) -> None:
    space, address = machine.pop_number(), machine.pop_number()
    machine.stack.append(FrameMemory(space, address))


def _moved(by: int, machine: _Machine) -> None:
    machine.stack.append(_from_byte(machine.pop_whole(), by))


def _offset(machine: _Machine) -> None:
    by = machine.pop_number()
    _moved(by - (1 << 64) if by >> 63 else by, machine)


def _entry_register(machine: _Machine) -> None:
    content = machine.context.entry_register(machine.cursor.uleb())
    machine.stack.append(int.from_bytes(content, "little"))


def _select(machine: _Machine) -> None:
    """A place of ``count`` pieces of ``bits`` bits: each is one of the top place's where the mask has its bit, else of
    that below."""
    bits, count = machine.cursor.uleb(), machine.cursor.uleb()
    if count > MAX_PIECES:
        raise machine.cursor.fail("too many pieces")
    mask, chosen, other = machine.pop_number(), machine.pop_whole(), machine.pop_whole()
    pieces = (FramePiece(chosen if mask >> number & 1 else other, bits, bits * number) for number in range(count))
    machine.stack.append(Composite(tuple(pieces)))


def _piece_end(machine: _Machine) -> None:
    if machine.pieces:
        machine.stack.append(Composite(tuple(machine.pieces)))
        machine.pieces.clear()


_LLVM_OPERATIONS: Mapping[int, _Execute] = {
    LlvmOp.DW_OP_LLVM_nop: _nothing,
    LlvmOp.DW_OP_LLVM_form_aspace_address: _form_address,
    LlvmOp.DW_OP_LLVM_offset: _offset,
    LlvmOp.DW_OP_LLVM_offset_uconst: lambda machine: _moved(machine.cursor.uleb(), machine),
    LlvmOp.DW_OP_LLVM_call_frame_entry_reg: _entry_register,
    LlvmOp.DW_OP_LLVM_piece_end: _piece_end,
    LlvmOp.DW_OP_LLVM_select_bit_piece: _select,
}
_OPERATIONS: Mapping[int, _Execute] = {
    **{Op.DW_OP_lit0 + number: partial(_number, number) for number in range(32)},
    **{Op.DW_OP_reg0 + number: partial(_register, number) for number in range(32)},
    **{Op.DW_OP_breg0 + number: partial(_based, number) for number in range(32)},
    **{Op.DW_OP_const1u + at: partial(_fixed, 1 << at // 2, bool(at & 1)) for at in range(8)},
    Op.DW_OP_constu: lambda machine: _number(machine.cursor.uleb(), machine),
    Op.DW_OP_consts: lambda machine: _number(machine.cursor.sleb(), machine),
    Op.DW_OP_regx: lambda machine: _register(machine.cursor.uleb(), machine),
    Op.DW_OP_bregx: lambda machine: _based(machine.cursor.uleb(), machine),
    Op.DW_OP_deref: _deref,
    Op.DW_OP_deref_size: _deref_size,
    Op.DW_OP_dup: _duplicate,
    Op.DW_OP_drop: _drop,
    Op.DW_OP_swap: _swap,
    Op.DW_OP_plus_uconst: lambda machine: _number(machine.pop_number() + machine.cursor.uleb(), machine),
    Op.DW_OP_plus: partial(_two, lambda left, right: left + right),
    Op.DW_OP_minus: partial(_two, lambda left, right: left - right),
    Op.DW_OP_mul: partial(_two, lambda left, right: left * right),
    Op.DW_OP_and: partial(_two, lambda left, right: left & right),
    Op.DW_OP_or: partial(_two, lambda left, right: left | right),
    Op.DW_OP_shl: partial(_two, lambda left, right: left << min(right, 64)),
    Op.DW_OP_shr: partial(_two, lambda left, right: left >> min(right, 64)),
    Op.DW_OP_nop: _nothing,
    Op.DW_OP_stack_value: _nothing,
    Op.DW_OP_piece: _piece,
    Op.DW_OP_bit_piece: _bit_piece,
    **{code: _LLVM_OPERATIONS[each] for code, each in ROCM_5_OPERATIONS.items() if each in _LLVM_OPERATIONS},
}
