"""Line programs run one instruction at a time, straight from DWARF 5, 6.2.5: what tests compare damaged programs with,
where pyelftools reads past the end of an instruction instead of refusing it."""

from __future__ import annotations

from typing import NamedTuple

from symd.model.debug_info import RowFlag
from tests.dwarf.second_opinion import Line

U64 = 2**64
ROW_FLAGS = {7: RowFlag.BASIC_BLOCK, 10: RowFlag.PROLOGUE_END, 11: RowFlag.EPILOGUE_BEGIN}


class Header(NamedTuple):
    opcode_base: int
    line_base: int
    line_range: int
    min_inst_length: int
    default_is_stmt: bool
    operand_counts: bytes


class Refused(Exception):
    """An instruction does not end where it must."""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Refused
        self.at += count
        return self.data[self.at - count : self.at]

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def text(self) -> bytes:
        out = b""
        while (byte := self.take(1)) != b"\0":
            out += byte
        return out


def run(header: Header, program: bytes) -> list[Line]:
    """The rows of all sequences that end; ``Line.file`` is the file register as text. Raises Refused."""
    code, rows, sequence = _Bytes(program), [], []
    address, file, line, column, flags, is_stmt = 0, 1, 1, 0, 0, header.default_is_stmt
    step = header.min_inst_length

    def emit(more: int = 0) -> None:
        stmt = RowFlag.IS_STMT if is_stmt else 0
        number = str(min(file, 2**32 - 1)).encode()
        sequence.append(Line(address % U64, number, line % 2**32, min(column, 2**32 - 1), flags | more | stmt))

    while code.at < len(program):
        opcode = code.take(1)[0]
        if opcode == 0:
            inner = _Bytes(code.take(code.uleb()))
            kind = inner.take(1)[0]
            if kind == 1:
                emit(RowFlag.END_SEQUENCE)
                rows += sequence
                sequence.clear()
                address, file, line, column, flags, is_stmt = 0, 1, 1, 0, 0, header.default_is_stmt
            elif kind == 2:
                operand = inner.take(len(inner.data) - 1)
                if len(operand) not in (2, 4, 8):
                    raise Refused
                address = int.from_bytes(operand, "little")
            elif kind == 3:
                inner.text(), inner.uleb(), inner.uleb(), inner.uleb()
            elif kind == 0x90:
                inner.uleb(), inner.uleb()
        elif opcode >= header.opcode_base:
            address += (opcode - header.opcode_base) // header.line_range * step
            line += header.line_base + (opcode - header.opcode_base) % header.line_range
            emit()
            flags = 0
        elif opcode == 1:
            emit()
            flags = 0
        elif opcode == 2:
            address += code.uleb() * step
        elif opcode == 3:
            line += code.sleb()
        elif opcode == 4:
            file = code.uleb()
        elif opcode == 5:
            column = code.uleb()
        elif opcode == 6:
            is_stmt = not is_stmt
        elif opcode == 8:
            address += (255 - header.opcode_base) // header.line_range * step
        elif opcode == 9:
            address += int.from_bytes(code.take(2), "little")
        elif opcode in ROW_FLAGS:
            flags |= ROW_FLAGS[opcode]
        else:
            for _ in range(1 if opcode == 12 else header.operand_counts[opcode - 1]):
                code.uleb()
    return rows
