"""Runs one line program instruction by instruction, for the rare headers that the bulk decoder does not take: VLIW
targets (several operations an instruction) and more than 127 standard opcodes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from symd.dwarf.constants import Lne, Lns
from symd.dwarf.cursor import Cursor
from symd.dwarf.line_header import EXTENDED_OPCODE, SECTION, LineHeader, file_entry_directory
from symd.dwarf.line_program import ProgramRows
from symd.dwarf.opcode_boundaries import operand_count
from symd.errors import Malformed
from symd.model.debug_info import RowFlag

_COLUMNS = 7
_U32 = 0xFFFFFFFF
_U64 = 0xFFFFFFFFFFFFFFFF
# Plain numbers: to combine enumeration members takes longer than all the rest of an instruction.
_IS_STMT, _END_SEQUENCE = int(RowFlag.IS_STMT), int(RowFlag.END_SEQUENCE)
_ROW_FLAGS: dict[int, int] = {
    Lns.DW_LNS_set_basic_block: int(RowFlag.BASIC_BLOCK),
    Lns.DW_LNS_set_prologue_end: int(RowFlag.PROLOGUE_END),
    Lns.DW_LNS_set_epilogue_begin: int(RowFlag.EPILOGUE_BEGIN),
}


@dataclass(slots=True)
class _State:
    """The registers (DWARF 5, 6.2.2); ``flags`` are those of the next row alone."""

    is_stmt: bool
    address: int = 0
    op_index: int = 0
    file: int = 1
    line: int = 1
    column: int = 0
    flags: int = 0
    context: int = 0
    name: int = 0


@dataclass(slots=True)
class _Machine:
    header: LineHeader
    cursor: Cursor
    state: _State
    rows: array[int] = field(default_factory=lambda: array("Q"))
    ends: list[int] = field(default_factory=list)

    def advance(self, operations: int) -> None:
        shape, state = self.header.shape, self.state
        total = state.op_index + operations
        state.address += shape.min_inst_length * (total // shape.max_ops)
        state.op_index = total % shape.max_ops

    def emit(self, flags: int = 0) -> None:
        s = self.state
        flags |= s.flags | (_IS_STMT if s.is_stmt else 0)
        self.rows.extend(
            (s.address & _U64, min(s.file, _U32), s.line & _U32, min(s.column, _U32), flags, s.context, s.name)
        )
        s.flags = 0

    def step(self) -> None:
        shape = self.header.shape
        opcode = self.cursor.unsigned(1)
        if opcode == EXTENDED_OPCODE:
            self.extended()
        elif opcode < shape.opcode_base:
            self.standard(opcode)
        else:
            self.advance((opcode - shape.opcode_base) // shape.line_range)
            self.state.line += shape.line_base + (opcode - shape.opcode_base) % shape.line_range
            self.emit()

    def standard(self, opcode: int) -> None:  # noqa: C901 - one branch an opcode
        state, cursor = self.state, self.cursor
        if opcode == Lns.DW_LNS_copy:
            self.emit()
        elif opcode == Lns.DW_LNS_advance_pc:
            self.advance(cursor.uleb())
        elif opcode == Lns.DW_LNS_advance_line:
            state.line += cursor.sleb()
        elif opcode == Lns.DW_LNS_set_file:
            state.file = cursor.uleb()
        elif opcode == Lns.DW_LNS_set_column:
            state.column = cursor.uleb()
        elif opcode == Lns.DW_LNS_negate_stmt:
            state.is_stmt = not state.is_stmt
        elif opcode == Lns.DW_LNS_const_add_pc:
            self.advance((255 - self.header.shape.opcode_base) // self.header.shape.line_range)
        elif opcode == Lns.DW_LNS_fixed_advance_pc:
            state.address += cursor.unsigned(2)
            state.op_index = 0
        elif opcode in _ROW_FLAGS:
            state.flags |= _ROW_FLAGS[opcode]
        else:
            for _ in range(operand_count(self.header.shape, opcode)):
                cursor.uleb()

    def extended(self) -> None:
        size = self.cursor.uleb()
        start = self.cursor.skip(size)
        operands = Cursor(self.cursor.data, SECTION, start, start + size)
        opcode = operands.unsigned(1)
        state = self.state
        if opcode == Lne.DW_LNE_end_sequence:
            self.emit(_END_SEQUENCE)
            self.ends.append(len(self.rows) // _COLUMNS)
            self.state = _State(self.header.shape.default_is_stmt)
        elif opcode == Lne.DW_LNE_set_address:
            state.address, state.op_index = operands.address(size - 1), 0
        elif opcode == Lne.DW_LNE_define_file:
            self.header.files.append((operands.text(), file_entry_directory(operands)))
        elif opcode == Lne.DW_LNE_NVIDIA_inlined_call:
            state.context, state.name = operands.uleb(), operands.uleb()


def run(data: bytes, header: LineHeader) -> ProgramRows:
    """As ``line_program.run`` for one header; any shape."""
    machine = _Machine(header, Cursor(data, SECTION, header.program, header.end), _State(header.shape.default_is_stmt))
    sick: dict[int, tuple[int, str]] = {}
    while machine.cursor.at < machine.cursor.end:
        start = machine.cursor.at
        try:
            machine.step()
        except Malformed as error:
            sick[0] = (start, error.message)
            machine.rows, machine.ends = array("Q"), []
            break
    every = np.array(machine.rows, np.uint64).reshape(-1, _COLUMNS)
    rows = every[: machine.ends[-1] if machine.ends else 0]
    unfinished = (0,) if len(rows) < len(every) else ()
    columns = rows.T.copy()
    inlined = bool(columns[5].any() or columns[6].any())
    return ProgramRows(
        address=columns[0],
        file=columns[1].astype(np.uint32),
        line=columns[2].astype(np.uint32),
        column=columns[3].astype(np.uint32),
        flags=columns[4].astype(np.uint8),
        ends=np.array(machine.ends, np.int64),
        program=np.zeros(len(machine.ends), np.uint32),
        context=columns[5] if inlined else None,
        name=columns[6] if inlined else None,
        sick=sick,
        open=unfinished,
    )
