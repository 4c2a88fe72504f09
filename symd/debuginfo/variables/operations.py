"""DWARF's operations by number (DWARF 5, 7.7.1; GNU's extensions), each a few lines over the machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from symd.debuginfo.variables.machine import WHERE, Execute, Machine
from symd.debuginfo.variables.terms import (
    Bits,
    Constant,
    Implicit,
    Operation,
    Register,
    StackValue,
    Symbol,
    Term,
    add,
    binary,
    unary,
)
from symd.errors import Unsupported


def literal(value: int, machine: Machine) -> None:
    machine.push_number(value)


def register(number: int, machine: Machine) -> None:
    machine.push(Register(number))


def based(number: int, machine: Machine) -> None:
    offset = Constant(machine.cursor.sleb() & _mask(machine), machine.size)
    machine.push(add(Register(number), offset, machine.size))


def _mask(machine: Machine) -> int:
    return (1 << 8 * machine.size) - 1


def constant(size: int, signed: bool, machine: Machine) -> None:
    value = machine.cursor.unsigned(size)
    machine.push_number(value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value)


def _address(machine: Machine) -> None:
    value = machine.cursor.address(machine.size)
    text = machine.context.text_at(value)
    machine.push(Constant(value, machine.size) if text is None else Symbol(text))


def _indexed(machine: Machine) -> None:
    index = machine.cursor.uleb()
    value = machine.context.address(index)
    machine.push(Symbol(f"address #{index}, which is not there") if value is None else Constant(value, machine.size))


def _deref(machine: Machine) -> None:
    machine.push(machine.load(machine.pop(), None))


def _deref_size(machine: Machine) -> None:
    size = machine.cursor.unsigned(1)
    machine.push(machine.load(machine.pop(), size))


def _deref_type(machine: Machine) -> None:
    size = machine.cursor.unsigned(1)
    machine.cursor.uleb()
    machine.push(machine.load(machine.pop(), size))


def _xderef(machine: Machine) -> None:
    address, space = machine.pop(), machine.pop_number()
    machine.push(machine.load(address, None, space))


def _xderef_size(machine: Machine) -> None:
    size = machine.cursor.unsigned(1)
    address, space = machine.pop(), machine.pop_number()
    machine.push(machine.load(address, size, space))


def _pick(machine: Machine) -> None:
    machine.push(machine.peek(machine.cursor.unsigned(1)))


def _drop(machine: Machine) -> None:
    machine.pop()


def _swap(machine: Machine) -> None:
    machine.peek(1)
    machine.stack[-1], machine.stack[-2] = machine.stack[-2], machine.stack[-1]


def _rotate(machine: Machine) -> None:
    machine.peek(2)
    machine.stack.insert(-2, machine.stack.pop())


def two(sign: str, machine: Machine) -> None:
    right, left = machine.pop(), machine.pop()
    machine.push(binary(sign, left, right, machine.size))


def one(sign: str, machine: Machine) -> None:
    machine.push(unary(sign, machine.pop(), machine.size))


def _plus_uconst(machine: Machine) -> None:
    offset = Constant(machine.cursor.uleb() & _mask(machine), machine.size)
    machine.push(add(machine.pop(), offset, machine.size))


def _skip(machine: Machine) -> None:
    jump(machine, machine.cursor.unsigned(2))


def _branch(machine: Machine) -> None:
    distance = machine.cursor.unsigned(2)
    if machine.pop_number():
        jump(machine, distance)


def jump(machine: Machine, distance: int) -> None:
    """Go on ``distance`` (16 bits, signed) bytes from here."""
    cursor = machine.cursor
    target = cursor.at + (distance - 0x10000 if distance >= 0x8000 else distance)
    if not 0 <= target <= cursor.end:
        raise cursor.fail("a branch leaves the expression")
    cursor.at = target


def _nothing(machine: Machine) -> None:
    del machine


def _fbreg(machine: Machine) -> None:
    offset = Constant(machine.cursor.sleb() & _mask(machine), machine.size)
    expression = machine.context.frame_base()
    base = _nested(machine, expression) if expression is not None else None
    machine.push(add(base or Symbol("frame base"), offset, machine.size))


def _nested(machine: Machine, expression: bytes) -> Term | None:
    """What another expression computes, with a stack of its own."""
    inner = machine.inner(expression)
    return inner.pop() if inner.stack else None


def _call(size: int, machine: Machine) -> None:
    offset = machine.cursor.unsigned(size)
    expression = machine.context.called(offset if size > 4 else machine.context.unit + offset)
    machine.run_here(expression or b"")


def _call_ref(machine: Machine) -> None:
    machine.run_here(machine.context.called(machine.cursor.unsigned(machine.context.widths.offset)) or b"")


def _entry_value(machine: Machine) -> None:
    size = machine.cursor.uleb()
    start = machine.cursor.skip(size)
    inner = _nested(machine, machine.cursor.data[start : machine.cursor.at])
    machine.push(Operation("entry value of", (inner,)) if inner is not None else Symbol("an empty entry value"))


def _piece(machine: Machine) -> None:
    machine.take_piece(8 * machine.cursor.uleb())


def _bit_piece(machine: Machine) -> None:
    size, offset = machine.cursor.uleb(), machine.cursor.uleb()
    machine.take_piece(size, offset)


def _implicit_value(machine: Machine) -> None:
    size = machine.cursor.uleb()
    start = machine.cursor.skip(size)
    machine.push(Implicit(machine.cursor.data[start : machine.cursor.at]))


def _stack_value(machine: Machine) -> None:
    machine.push(StackValue(machine.pop()))


def _implicit_pointer(machine: Machine) -> None:
    target = machine.cursor.unsigned(machine.context.widths.ref_addr)
    offset = Constant(machine.cursor.sleb() & _mask(machine), machine.size)
    name = machine.context.name_of(target) or f"the variable at {target:#x}"
    machine.push(StackValue(add(Symbol(f"pointer to {name}"), offset, machine.size)))


def _const_type(machine: Machine) -> None:
    machine.cursor.uleb()
    size = machine.cursor.unsigned(1)
    start = machine.cursor.skip(size)
    machine.push_number(int.from_bytes(machine.cursor.data[start : machine.cursor.at][: machine.size], "little"))


def _regval_type(machine: Machine) -> None:
    number = machine.cursor.uleb()
    machine.cursor.uleb()
    machine.push(Register(number))


def _convert(machine: Machine) -> None:
    if machine.cursor.uleb():
        machine.push(Operation("converted", (machine.pop(),)))


def _parameter_reference(machine: Machine) -> None:
    target = machine.context.unit + machine.cursor.unsigned(4)
    machine.push(Symbol(f"parameter {machine.context.name_of(target) or hex(target)} as passed"))


def _intel_register(machine: Machine) -> None:
    machine.push(Register(machine.pop_number()))


def _intel_bits_of(machine: Machine) -> None:
    """Pops size and start in bits and a register's place."""
    size, start, place = machine.pop_number(), machine.pop_number(), machine.pop()
    if not isinstance(place, Register):
        raise Unsupported("takes bits of something that is no register", where=WHERE)
    machine.push(Bits(place.number, start, size))


def _intel_register_bits(machine: Machine) -> None:
    """Pops start in bits and the register's number; the size is an operand."""
    size = machine.cursor.unsigned(1)
    start, number = machine.pop_number(), machine.pop_number()
    machine.push(Bits(number, start, size))


def _intel_lane(machine: Machine) -> None:
    machine.uses_lane = True
    machine.push_number(machine.lane)


def _intel_piece(machine: Machine) -> None:
    """DW_OP_piece with its size on the stack."""
    machine.take_piece(8 * machine.pop_number())


def _intel_bit_piece(machine: Machine) -> None:
    """DW_OP_bit_piece with size and start on the stack, in the order of _intel_bits_of."""
    size, start = machine.pop_number(), machine.pop_number()
    machine.take_piece(size, start)


OPERATIONS: Mapping[int, Execute] = {
    0x03: _address,
    0x06: _deref,
    **{0x08 + number: partial(constant, 1 << number // 2, bool(number % 2)) for number in range(8)},
    0x10: lambda machine: machine.push_number(machine.cursor.uleb()),
    0x11: lambda machine: machine.push_number(machine.cursor.sleb()),
    0x12: lambda machine: machine.push(machine.peek()),
    0x13: _drop,
    0x14: lambda machine: machine.push(machine.peek(1)),
    0x15: _pick,
    0x16: _swap,
    0x17: _rotate,
    0x18: _xderef,
    0x19: partial(one, "abs"),
    0x1A: partial(two, "&"),
    0x1B: partial(two, "/"),
    0x1C: partial(two, "-"),
    0x1D: partial(two, "mod"),
    0x1E: partial(two, "*"),
    0x1F: partial(one, "-"),
    0x20: partial(one, "~"),
    0x21: partial(two, "|"),
    0x22: partial(two, "+"),
    0x23: _plus_uconst,
    0x24: partial(two, "<<"),
    0x25: partial(two, ">>"),
    0x26: partial(two, ">>>"),
    0x27: partial(two, "^"),
    0x28: _branch,
    0x29: partial(two, "=="),
    0x2A: partial(two, ">="),
    0x2B: partial(two, ">"),
    0x2C: partial(two, "<="),
    0x2D: partial(two, "<"),
    0x2E: partial(two, "!="),
    0x2F: _skip,
    **{0x30 + number: partial(literal, number) for number in range(32)},
    **{0x50 + number: partial(register, number) for number in range(32)},
    **{0x70 + number: partial(based, number) for number in range(32)},
    0x90: lambda machine: machine.push(Register(machine.cursor.uleb())),
    0x91: _fbreg,
    0x92: lambda machine: based(machine.cursor.uleb(), machine),
    0x93: _piece,
    0x94: _deref_size,
    0x95: _xderef_size,
    0x96: _nothing,
    0x97: lambda machine: machine.push(Symbol("object address")),
    0x98: partial(_call, 2),
    0x99: partial(_call, 4),
    0x9A: _call_ref,
    0x9B: lambda machine: machine.push(Operation("thread-local", (machine.pop(),))),
    0x9C: lambda machine: machine.push(Symbol("CFA")),
    0x9D: _bit_piece,
    0x9E: _implicit_value,
    0x9F: _stack_value,
    0xA0: _implicit_pointer,
    0xA1: _indexed,
    0xA2: _indexed,
    0xA3: _entry_value,
    0xA4: _const_type,
    0xA5: _regval_type,
    0xA6: _deref_type,
    0xA8: _convert,
    0xA9: _convert,
    0xE0: lambda machine: machine.push(Operation("thread-local", (machine.pop(),))),
    0xF0: _nothing,
    0xF2: _implicit_pointer,
    0xF3: _entry_value,
    0xF4: _const_type,
    0xF5: _regval_type,
    0xF6: _deref_type,
    0xF7: _convert,
    0xF9: _convert,
    0xFA: _parameter_reference,
    0xFB: _indexed,
    0xFC: _indexed,
}
"""What every vendor's code may use."""
INTEL_OPERATIONS: Mapping[int, Execute] = {
    **OPERATIONS,
    0xEB: _intel_register,
    0xEC: _intel_bits_of,
    0xED: _intel_lane,
    0xEE: _intel_piece,
    0xEF: _intel_bit_piece,
    0xFE: _intel_register_bits,
}
"""The same with the operations of Intel's compiler (DW_OP_INTEL_regs, push_bit_piece_stack, push_simd_lane, piece_stack,
bit_piece_stack, regval_bits)."""
