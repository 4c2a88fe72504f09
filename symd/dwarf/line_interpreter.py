"""Runs one line program instruction by instruction, for the rare headers that the bulk decoder does not take: VLIW
targets (several operations an instruction) and more than 127 standard opcodes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from symd.dwarf.constants import Lne, Lns
from symd.dwarf.cursor import Cursor
from symd.dwarf.line_header import EXTENDED_OPCODE, LineHeader, file_entry_directory
from symd.dwarf.line_program import BETWEEN_ROWS, NAMED, ProgramRows
from symd.dwarf.opcode_boundaries import operand_count
from symd.dwarf.sections import DebugSection
from symd.errors import Malformed
from symd.model.debug_info import RowFlag

_COLUMNS = 7
_U32 = 0xFFFFFFFF
_U64 = 0xFFFFFFFFFFFFFFFF
# Plain numbers: to combine enumeration members takes longer than all the rest of an instruction.
_IS_STMT, _END_SEQUENCE, _BASIC_BLOCK = int(RowFlag.IS_STMT), int(RowFlag.END_SEQUENCE), int(RowFlag.BASIC_BLOCK)
_IMPLIED = int(RowFlag.IMPLIED)
_PROLOGUE_END, _EPILOGUE_BEGIN = int(RowFlag.PROLOGUE_END), int(RowFlag.EPILOGUE_BEGIN)


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
    is_called: bool = False
    """The inlined call was set since the last row."""
    is_fresh: bool = False
    """It was, and the address was not moved on since."""
    is_moved: bool = False
    """The instruction before moved the address on, the first one to do so since the call was set."""


@dataclass(slots=True)
class _Machine:
    header: LineHeader
    cursor: Cursor
    state: _State
    rows: array[int] = field(default_factory=lambda: array("Q"))
    ends: list[int] = field(default_factory=list)

    def advance(self, operations: int) -> None:
        parameters, state = self.header.parameters, self.state
        total = state.op_index + operations
        state.address += parameters.min_inst_length * (total // parameters.max_ops)
        state.op_index = total % parameters.max_ops

    def emit(self, flags: int = 0) -> None:
        s = self.state
        flags |= (_IS_STMT if s.is_stmt else 0) | (NAMED if s.is_called else 0)
        if not flags & _IMPLIED:  # the other flags are those of the next row that is written
            flags |= s.flags
            s.flags = 0
        self.rows.extend(
            (s.address & _U64, min(s.file, _U32), s.line & _U32, min(s.column, _U32), flags, s.context, s.name)
        )
        s.is_called = s.is_fresh = False

    def step(self) -> None:
        parameters = self.header.parameters
        start = self.cursor.at
        opcode = self.cursor.unsigned(1)
        if self.state.is_moved:
            self.state.is_moved = False
            if self._begins_another_row(opcode, start):
                self.emit(_IMPLIED)
        if opcode >= parameters.opcode_base:
            self.advance((opcode - parameters.opcode_base) // parameters.line_range)
            self.state.line += parameters.line_base + (opcode - parameters.opcode_base) % parameters.line_range
            self.emit()
        elif opcode == EXTENDED_OPCODE:
            self.extended()
        elif opcode in _STANDARD:
            _STANDARD[opcode](self)
        else:
            for _ in range(operand_count(parameters, opcode)):
                self.cursor.uleb()

    def _begins_another_row(self, opcode: int, start: int) -> bool:
        """Whether an instruction behind DW_LNS_advance_pc belongs to the next row already, so that the one of the advance was left out
        (``line_program.ProgramRows``)."""
        if opcode != EXTENDED_OPCODE:
            return opcode >= self.header.parameters.opcode_base or opcode in BETWEEN_ROWS
        ahead = Cursor(self.cursor.data, self.cursor.section, start + 1, self.cursor.end)
        ahead.uleb()
        return ahead.unsigned(1) == Lne.DW_LNE_NVIDIA_inlined_call

    def extended(self) -> None:
        size = self.cursor.uleb()
        start = self.cursor.skip(size)
        operands = Cursor(self.cursor.data, self.cursor.section, start, start + size)
        run_extended = _EXTENDED.get(operands.unsigned(1))
        if run_extended is not None:
            run_extended(self, operands)

    def advance_pc(self) -> None:
        self.advance(self.cursor.uleb())
        self.state.is_moved, self.state.is_fresh = self.state.is_fresh, False

    def advance_line(self) -> None:
        self.state.line += self.cursor.sleb()

    def set_file(self) -> None:
        self.state.file = self.cursor.uleb()

    def set_column(self) -> None:
        self.state.column = self.cursor.uleb()

    def negate_stmt(self) -> None:
        self.state.is_stmt = not self.state.is_stmt

    def const_add_pc(self) -> None:
        parameters = self.header.parameters
        self.advance((255 - parameters.opcode_base) // parameters.line_range)

    def fixed_advance_pc(self) -> None:
        self.state.address += self.cursor.unsigned(2)
        self.state.op_index = 0

    def set_basic_block(self) -> None:
        self.state.flags |= _BASIC_BLOCK

    def set_prologue_end(self) -> None:
        self.state.flags |= _PROLOGUE_END

    def set_epilogue_begin(self) -> None:
        self.state.flags |= _EPILOGUE_BEGIN

    def end_sequence(self, operands: Cursor) -> None:
        del operands
        self.emit(_END_SEQUENCE)
        self.ends.append(len(self.rows) // _COLUMNS)
        self.state = _State(self.header.parameters.default_is_stmt)

    def set_address(self, operands: Cursor) -> None:
        self.state.address, self.state.op_index = operands.address(operands.end - operands.at), 0

    def define_file(self, operands: Cursor) -> None:
        self.header.files.append((operands.text(), file_entry_directory(operands)))

    def inlined_call(self, operands: Cursor) -> None:
        self.state.context, self.state.name = operands.uleb(), operands.uleb()
        self.state.is_called = self.state.is_fresh = True


_STANDARD: Mapping[int, Callable[[_Machine], None]] = {
    Lns.DW_LNS_copy: _Machine.emit,
    Lns.DW_LNS_advance_pc: _Machine.advance_pc,
    Lns.DW_LNS_advance_line: _Machine.advance_line,
    Lns.DW_LNS_set_file: _Machine.set_file,
    Lns.DW_LNS_set_column: _Machine.set_column,
    Lns.DW_LNS_negate_stmt: _Machine.negate_stmt,
    Lns.DW_LNS_set_basic_block: _Machine.set_basic_block,
    Lns.DW_LNS_const_add_pc: _Machine.const_add_pc,
    Lns.DW_LNS_fixed_advance_pc: _Machine.fixed_advance_pc,
    Lns.DW_LNS_set_prologue_end: _Machine.set_prologue_end,
    Lns.DW_LNS_set_epilogue_begin: _Machine.set_epilogue_begin,
}
_EXTENDED: Mapping[int, Callable[[_Machine, Cursor], None]] = {
    Lne.DW_LNE_end_sequence: _Machine.end_sequence,
    Lne.DW_LNE_set_address: _Machine.set_address,
    Lne.DW_LNE_define_file: _Machine.define_file,
    Lne.DW_LNE_NVIDIA_inlined_call: _Machine.inlined_call,
}
"""The other extended instructions are passed over."""


def run(section: DebugSection, header: LineHeader) -> ProgramRows:
    """As ``line_program.run`` for one header; any parameters."""
    cursor = Cursor(section.data, section.name, header.program, header.end)
    machine = _Machine(header, cursor, _State(header.parameters.default_is_stmt))
    malformed: dict[int, tuple[int, str]] = {}
    while machine.cursor.at < machine.cursor.end:
        start = machine.cursor.at
        try:
            machine.step()
        except Malformed as error:
            malformed[0] = (start, error.message)
            machine.rows, machine.ends = array("Q"), []
            break
    every = np.array(machine.rows, np.uint64).reshape(-1, _COLUMNS)
    rows = every[: machine.ends[-1] if machine.ends else 0]
    unfinished = (0,) if len(rows) < len(every) else ()
    columns = rows.T.copy()
    inlined = bool((columns[4] & np.uint64(NAMED)).any())
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
        malformed=malformed,
        open=unfinished,
    )
