"""LLVM's operations for places in address spaces and in lanes of registers, which ROCm's compilers write: an operation's number
after DW_OP_LLVM_user.

Source: LLVM's "DWARF Extensions For Heterogeneous Debugging"; ROCm before 6 wrote them as operations of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from symd.debuginfo.dwarf.variable_constants import ROCM_5_OPERATIONS, LlvmOp, Op
from symd.debuginfo.variables.machine import WHERE, Execute, Machine
from symd.debuginfo.variables.terms import (
    Constant,
    MemoryLocation,
    Nowhere,
    Operation,
    Register,
    RegisterPart,
    Term,
    add,
    wrapped,
)
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
        raise Unsupported("counts bits in something that is no register", where=WHERE)
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
"""By the numbers of ROCm before 6."""
