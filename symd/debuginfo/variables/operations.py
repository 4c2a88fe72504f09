"""DWARF's operations by number, each a few lines over the machine: those of the standard, GNU's, Intel's and LLVM's.

LLVM's, which ROCm's compilers write, are for places in address spaces and in lanes of registers: an operation's number
after DW_OP_LLVM_user, or operations of their own from ROCm before 6.

Sources: DWARF 5, 7.7.1; LLVM's "DWARF Extensions For Heterogeneous Debugging".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from symd.debuginfo.dwarf.variable_constants import ROCM_5_OPERATIONS, LlvmOp, Op
from symd.debuginfo.variables.machine import (
    WHERE,
    Bits,
    Constant,
    Execute,
    HeterogeneousLocation,
    Implicit,
    Machine,
    MemoryLocation,
    Nowhere,
    Operation,
    Register,
    RegisterPart,
    StackValue,
    Term,
    TermSymbol,
    add,
    binary,
    unary,
    wrapped,
)
from symd.debuginfo.variables.registers import PRIVATE_SPACES
from symd.errors import Unsupported


def user(machine: Machine) -> None:
    """The operation whose number follows. Raises Unsupported for one that is not known."""
    number = machine.cursor.uleb()
    operation = _OPERATIONS.get(number)
    if operation is None:
        raise Unsupported(f"unknown operation {Op.DW_OP_LLVM_user:#04x} {number:#04x}", where=WHERE)
    operation(machine)


def _nothing(machine: Machine) -> None:
    del machine


def _form_address(machine: Machine) -> None:
    """Pops an address space and an address."""
    space = machine.pop_number()
    machine.push(MemoryLocation(machine.pop(), space))


def _based_address(machine: Machine) -> None:
    """Pops an address space; register and offset are operands."""
    number, offset = machine.cursor.uleb(), machine.cursor.sleb()
    space = machine.pop_number()
    machine.push(MemoryLocation(add(Register(number), wrapped(offset, machine.size), machine.size), space))


def _lane(machine: Machine) -> None:
    machine.uses_lane = True
    machine.push_number(machine.lane)


def _offset(machine: Machine) -> None:
    """Pops a number of bytes and a place."""
    by, place = machine.pop(), machine.pop_place()
    if isinstance(place, MemoryLocation):
        machine.push(MemoryLocation(add(place.address, by, machine.size), place.space))
    elif isinstance(place, Register | RegisterPart):
        machine.push(_bits_from(place, 8 * _number(by)))
    else:
        machine.push(add(place, by, machine.size))


def _offset_constant(machine: Machine) -> None:
    machine.push_number(machine.cursor.uleb())
    _offset(machine)


def _bit_offset(machine: Machine) -> None:
    """Pops a number of bits and a place."""
    by, place = machine.pop_number(), machine.pop_place()
    if not isinstance(place, Register | RegisterPart):
        raise Unsupported("counts bits in something that is not a register", where=WHERE)
    machine.push(_bits_from(place, by))


def _number(term: Term) -> int:
    if not isinstance(term, Constant):
        raise Unsupported("depends on a register's content", where=WHERE)
    return term.signed


def _bits_from(place: Register | RegisterPart, by: int) -> RegisterPart:
    start = by + (place.start if isinstance(place, RegisterPart) else 0)
    if start < 0:
        raise Unsupported("begins before its register", where=WHERE)
    return RegisterPart(place.number, start)


def _entry_register(machine: Machine) -> None:
    machine.push(Operation("entry value of", (Register(machine.cursor.uleb()),)))


def _piece_end(machine: Machine) -> None:
    """The pieces become one place, which is the result where nothing follows."""
    if machine.cursor.at < machine.cursor.end or machine.depth:
        raise Unsupported("computes with a place of several pieces", where=WHERE)


def _not_followed(name: str, machine: Machine) -> None:
    del machine
    raise Unsupported(f"{name} is not followed", where=WHERE)


_OPERATIONS: Mapping[int, Execute] = {
    LlvmOp.DW_OP_LLVM_nop: _nothing,
    LlvmOp.DW_OP_LLVM_form_aspace_address: _form_address,
    LlvmOp.DW_OP_LLVM_push_lane: _lane,
    LlvmOp.DW_OP_LLVM_offset: _offset,
    LlvmOp.DW_OP_LLVM_offset_uconst: _offset_constant,
    LlvmOp.DW_OP_LLVM_bit_offset: _bit_offset,
    LlvmOp.DW_OP_LLVM_call_frame_entry_reg: _entry_register,
    LlvmOp.DW_OP_LLVM_undefined: lambda machine: machine.push(Nowhere()),
    LlvmOp.DW_OP_LLVM_aspace_bregx: _based_address,
    LlvmOp.DW_OP_LLVM_piece_end: _piece_end,
    LlvmOp.DW_OP_LLVM_extend: partial(_not_followed, "DW_OP_LLVM_extend"),
    LlvmOp.DW_OP_LLVM_select_bit_piece: partial(_not_followed, "DW_OP_LLVM_select_bit_piece"),
}
ROCM_5: Mapping[int, Execute] = {code: _OPERATIONS[operation] for code, operation in ROCM_5_OPERATIONS.items()}
"""The operations of ROCm's compilers before version 6, by the numbers that those gave them."""


def literal(value: int, machine: Machine) -> None:
    machine.push_number(value)


def register(number: int, machine: Machine) -> None:
    machine.push(Register(number))


def based(number: int, machine: Machine) -> None:
    offset = wrapped(machine.cursor.sleb(), machine.size)
    machine.push(add(Register(number), offset, machine.size))


def constant(size: int, signed: bool, machine: Machine) -> None:
    value = machine.cursor.unsigned(size)
    machine.push_number(value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value)


def _address(machine: Machine) -> None:
    machine.push(_addressed(machine, machine.cursor.address(machine.size)))


def _indexed(machine: Machine) -> None:
    """DW_OP_addr whose operand is in ``.debug_addr``, and constants that are there because they are relocated."""
    index = machine.cursor.uleb()
    value = machine.context.address(index)
    known = None if value is None else _addressed(machine, value)
    machine.push(known or TermSymbol(f"address #{index}, which is not there"))


def _addressed(machine: Machine, value: int) -> Term:
    """An address; one of code by its name, because the addresses of the linear layout are nobody else's."""
    text = machine.context.text_at(value)
    return Constant(value, machine.size, linked=True) if text is None else TermSymbol(text)


def _deref(machine: Machine) -> None:
    machine.push(machine.load(machine.pop_place(), None))


def _deref_size(machine: Machine) -> None:
    size = machine.cursor.unsigned(1)
    machine.push(machine.load(machine.pop_place(), size))


def _deref_type(machine: Machine) -> None:
    size = machine.cursor.unsigned(1)
    machine.cursor.uleb()
    machine.push(machine.load(machine.pop_place(), size))


def _xderef(machine: Machine) -> None:
    address, space = machine.pop(), machine.pop_number()
    if _marks_a_value(address, space, machine):
        machine.push(address if isinstance(address, Register) else StackValue(address))
        return
    machine.push(machine.load(address, None, space))


def _marks_a_value(address: Term, space: int, machine: Machine) -> bool:
    """Whether this is a variable's value and no address of it: LLVM leaves its mark of private memory behind values
    too, when it keeps a variable in none."""
    if not machine.context.without_private or space not in PRIVATE_SPACES:
        return False
    return not (isinstance(address, TermSymbol) or (isinstance(address, Constant) and address.linked))


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
    offset = wrapped(machine.cursor.uleb(), machine.size)
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


def _fbreg(machine: Machine) -> None:
    offset = wrapped(machine.cursor.sleb(), machine.size)
    expression = machine.context.frame_base()
    base = (_nested(machine, expression) if expression is not None else None) or TermSymbol("frame base")
    if isinstance(base, MemoryLocation):
        machine.push(MemoryLocation(add(base.address, offset, machine.size), base.space))
    else:
        machine.push(add(base, offset, machine.size))


def _nested(machine: Machine, expression: bytes) -> Term | None:
    """What another expression computes, with a stack of its own; it may be a place."""
    inner = machine.inner(expression)
    return inner.pop_place() if inner.stack else None


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
    if isinstance(inner, HeterogeneousLocation):
        raise Unsupported("computes with a place", where=WHERE)
    machine.push(Operation("entry value of", (inner,)) if inner is not None else TermSymbol("an empty entry value"))


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
    offset = wrapped(machine.cursor.sleb(), machine.size)
    name = machine.context.name_of(target) or f"the variable at {target:#x}"
    machine.push(StackValue(add(TermSymbol(f"pointer to {name}"), offset, machine.size)))


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
    machine.push(TermSymbol(f"parameter {machine.context.name_of(target) or hex(target)} as passed"))


def _intel_register(machine: Machine) -> None:
    machine.push(Register(machine.pop_number()))


def _intel_bits_of(machine: Machine) -> None:
    """Pops size and start in bits and a register's place."""
    size, start, place = machine.pop_number(), machine.pop_number(), machine.pop()
    if not isinstance(place, Register):
        raise Unsupported("takes bits of something that is not a register", where=WHERE)
    machine.push(Bits(place.number, start, size))


def _intel_register_bits(machine: Machine) -> None:
    """Pops start in bits and the register's number; the size is an operand."""
    size = machine.cursor.unsigned(1)
    start, number = machine.pop_number(), machine.pop_number()
    machine.push(Bits(number, start, size))


def _intel_piece(machine: Machine) -> None:
    """DW_OP_piece with its size on the stack."""
    machine.take_piece(8 * machine.pop_number())


def _intel_bit_piece(machine: Machine) -> None:
    """DW_OP_bit_piece with size and start on the stack, in the order of _intel_bits_of."""
    size, start = machine.pop_number(), machine.pop_number()
    machine.take_piece(size, start)


OPERATIONS: Mapping[int, Execute] = {
    Op.DW_OP_addr: _address,
    Op.DW_OP_deref: _deref,
    **{Op.DW_OP_const1u + at: partial(constant, 1 << at // 2, bool(at & 1)) for at in range(8)},
    Op.DW_OP_constu: lambda machine: machine.push_number(machine.cursor.uleb()),
    Op.DW_OP_consts: lambda machine: machine.push_number(machine.cursor.sleb()),
    Op.DW_OP_dup: lambda machine: machine.push(machine.peek()),
    Op.DW_OP_drop: _drop,
    Op.DW_OP_over: lambda machine: machine.push(machine.peek(1)),
    Op.DW_OP_pick: _pick,
    Op.DW_OP_swap: _swap,
    Op.DW_OP_rot: _rotate,
    Op.DW_OP_xderef: _xderef,
    Op.DW_OP_abs: partial(one, "abs"),
    Op.DW_OP_and: partial(two, "&"),
    Op.DW_OP_div: partial(two, "/"),
    Op.DW_OP_minus: partial(two, "-"),
    Op.DW_OP_mod: partial(two, "mod"),
    Op.DW_OP_mul: partial(two, "*"),
    Op.DW_OP_neg: partial(one, "-"),
    Op.DW_OP_not: partial(one, "~"),
    Op.DW_OP_or: partial(two, "|"),
    Op.DW_OP_plus: partial(two, "+"),
    Op.DW_OP_plus_uconst: _plus_uconst,
    Op.DW_OP_shl: partial(two, "<<"),
    Op.DW_OP_shr: partial(two, ">>"),
    Op.DW_OP_shra: partial(two, ">>>"),
    Op.DW_OP_xor: partial(two, "^"),
    Op.DW_OP_bra: _branch,
    Op.DW_OP_eq: partial(two, "=="),
    Op.DW_OP_ge: partial(two, ">="),
    Op.DW_OP_gt: partial(two, ">"),
    Op.DW_OP_le: partial(two, "<="),
    Op.DW_OP_lt: partial(two, "<"),
    Op.DW_OP_ne: partial(two, "!="),
    Op.DW_OP_skip: _skip,
    **{Op.DW_OP_lit0 + number: partial(literal, number) for number in range(32)},
    **{Op.DW_OP_reg0 + number: partial(register, number) for number in range(32)},
    **{Op.DW_OP_breg0 + number: partial(based, number) for number in range(32)},
    Op.DW_OP_regx: lambda machine: machine.push(Register(machine.cursor.uleb())),
    Op.DW_OP_fbreg: _fbreg,
    Op.DW_OP_bregx: lambda machine: based(machine.cursor.uleb(), machine),
    Op.DW_OP_piece: _piece,
    Op.DW_OP_deref_size: _deref_size,
    Op.DW_OP_xderef_size: _xderef_size,
    Op.DW_OP_nop: _nothing,
    Op.DW_OP_push_object_address: lambda machine: machine.push(TermSymbol("object address")),
    Op.DW_OP_call2: partial(_call, 2),
    Op.DW_OP_call4: partial(_call, 4),
    Op.DW_OP_call_ref: _call_ref,
    Op.DW_OP_form_tls_address: lambda machine: machine.push(Operation("thread-local", (machine.pop(),))),
    Op.DW_OP_call_frame_cfa: lambda machine: machine.push(TermSymbol("CFA")),
    Op.DW_OP_bit_piece: _bit_piece,
    Op.DW_OP_implicit_value: _implicit_value,
    Op.DW_OP_stack_value: _stack_value,
    Op.DW_OP_implicit_pointer: _implicit_pointer,
    Op.DW_OP_addrx: _indexed,
    Op.DW_OP_constx: _indexed,
    Op.DW_OP_entry_value: _entry_value,
    Op.DW_OP_const_type: _const_type,
    Op.DW_OP_regval_type: _regval_type,
    Op.DW_OP_deref_type: _deref_type,
    Op.DW_OP_convert: _convert,
    Op.DW_OP_reinterpret: _convert,
    Op.DW_OP_LLVM_user: user,
    Op.DW_OP_GNU_push_tls_address: lambda machine: machine.push(Operation("thread-local", (machine.pop(),))),
    Op.DW_OP_GNU_uninit: _nothing,
    Op.DW_OP_GNU_implicit_pointer: _implicit_pointer,
    Op.DW_OP_GNU_entry_value: _entry_value,
    Op.DW_OP_GNU_const_type: _const_type,
    Op.DW_OP_GNU_regval_type: _regval_type,
    Op.DW_OP_GNU_deref_type: _deref_type,
    Op.DW_OP_GNU_convert: _convert,
    Op.DW_OP_GNU_reinterpret: _convert,
    Op.DW_OP_GNU_parameter_ref: _parameter_reference,
    Op.DW_OP_GNU_addr_index: _indexed,
    Op.DW_OP_GNU_const_index: _indexed,
}
"""What every vendor's code may use."""
AMD_OPERATIONS: Mapping[int, Execute] = {**OPERATIONS, **ROCM_5}
"""What code for AMD's devices may use: ``OPERATIONS``, and the operations of ROCm's compilers before version 6."""
INTEL_OPERATIONS: Mapping[int, Execute] = {
    **OPERATIONS,
    Op.DW_OP_INTEL_regs: _intel_register,
    Op.DW_OP_INTEL_push_bit_piece_stack: _intel_bits_of,
    Op.DW_OP_INTEL_push_simd_lane: _lane,
    Op.DW_OP_INTEL_piece_stack: _intel_piece,
    Op.DW_OP_INTEL_bit_piece_stack: _intel_bit_piece,
    Op.DW_OP_INTEL_regval_bits: _intel_register_bits,
}
"""What code for Intel's devices may use: ``OPERATIONS``, and the operations of Intel's compiler."""
