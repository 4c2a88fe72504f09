"""The tests' own reader of line tables, straight from DWARF 2 to 4, 6.2, with NVIDIA's inlined calls: one instruction at a
time, and with opinions about damage, where pyelftools reads past the end of an instruction instead of refusing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from symd.model.debug_info import RowFlag

U64 = 2**64
ROW_FLAGS = {7: RowFlag.BASIC_BLOCK, 10: RowFlag.PROLOGUE_END, 11: RowFlag.EPILOGUE_BEGIN}


class Header(NamedTuple):
    opcode_base: int
    line_base: int
    line_range: int
    min_inst_length: int
    default_is_stmt: bool
    operand_counts: bytes
    max_ops: int = 1


class Row(NamedTuple):
    """``file`` is the register; ``context`` the row of the call site in the same sequence, counted from 1, and ``name``
    the offset of the name, both 0 where nothing is inlined."""

    address: int
    file: int
    line: int
    column: int
    flags: int
    context: int = 0
    name: int = 0


@dataclass
class Table:
    """One table of a section: ``files`` are (directory, name) by file register, from 1."""

    offset: int
    header: Header
    files: list[tuple[bytes, bytes]]
    names_base: int
    rows: list[Row] = field(default_factory=list)

    def file(self, register: int) -> str:
        """The directory and the name, as the table has them."""
        if not 1 <= register <= len(self.files):
            return ""
        directory, name = self.files[register - 1]
        return (directory + b"/" + name if directory else name).decode("utf-8", "replace")


class Refused(Exception):
    """Something does not end where it must, or is not known."""


class Bytes:
    """Reads forward, and refuses to read past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Refused
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value % U64

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = min(7 * (self.at - start), 64)
        return value - (1 << bits) if value >> bits - 1 else value

    def text(self) -> bytes:
        out = b""
        while (byte := self.take(1)) != b"\0":
            out += byte
        return out


def read_section(data: bytes) -> list[Table | None]:
    """The tables of a section up to one that does not end in it; None for one that is refused."""
    tables: list[Table | None] = []
    section = Bytes(data)
    while section.at < len(data):
        offset = section.at
        try:
            length, width = _length(section)
            unit = section.take(length)
        except Refused:
            return tables
        if not length:
            continue
        try:
            tables.append(_table(Bytes(unit), offset, width))
        except Refused:
            tables.append(None)
    return tables


def _length(section: Bytes) -> tuple[int, int]:
    """A table's length, and the bytes that an offset takes in it."""
    length = section.number(4)
    if length == 0xFFFFFFFF:
        return section.number(8), 8
    if length >= 0xFFFFFFF0:
        raise Refused
    return length, 4


def _table(unit: Bytes, offset: int, width: int) -> Table:
    version = unit.number(2)
    if not 2 <= version <= 4:
        raise Refused
    lists = Bytes(unit.take(unit.number(width)))
    min_inst_length, max_ops = lists.number(1), lists.number(1) if version == 4 else 1
    is_stmt, line_base, line_range, opcode_base = (lists.number(1) for _ in range(4))
    if not max_ops or not line_range or not opcode_base:
        raise Refused
    line_base -= 256 if line_base >= 128 else 0
    counts = lists.take(opcode_base - 1)
    header = Header(opcode_base, line_base, line_range, min_inst_length, bool(is_stmt), counts, max_ops)
    table = _lists(lists, Table(offset, header, [], 0))
    table.rows = run(header, unit.data[unit.at :], table.files)
    return table


def _lists(lists: Bytes, table: Table) -> Table:
    if lists.at == len(lists.data):
        return table
    directories = [b""]
    while directory := lists.text():
        directories.append(directory)
    files = []
    while name := lists.text():
        files.append((lists.uleb(), name))
        lists.uleb(), lists.uleb()
    table.files = [(directories[number] if number < len(directories) else b"", name) for number, name in files]
    if len(lists.data) - lists.at == 4:
        table.names_base = lists.number(4)
    return table


def run(header: Header, program: bytes, files: list[tuple[bytes, bytes]] | None = None) -> list[Row]:
    """The rows of all sequences that end. Raises Refused."""
    code, rows, sequence = Bytes(program), [], []
    address, op_index, file, line, column, flags, is_stmt = 0, 0, 1, 1, 0, 0, header.default_is_stmt
    context = name = 0
    constant_advance = (255 - header.opcode_base) // header.line_range

    def emit(more: int = 0) -> None:
        stmt = RowFlag.IS_STMT if is_stmt else 0
        sequence.append(
            Row(
                address % U64,
                min(file, 2**32 - 1),
                line % 2**32,
                min(column, 2**32 - 1),
                flags | more | stmt,
                context,
                name,
            )
        )

    def advance(operations: int) -> tuple[int, int]:
        total = op_index + operations
        return address + header.min_inst_length * (total // header.max_ops), total % header.max_ops

    while code.at < len(program):
        opcode = code.take(1)[0]
        if opcode == 0:
            inner = Bytes(code.take(code.uleb()))
            kind = inner.take(1)[0]
            if kind == 1:
                emit(RowFlag.END_SEQUENCE)
                rows += sequence
                sequence.clear()
                address, op_index, file, line, column, flags, is_stmt = 0, 0, 1, 1, 0, 0, header.default_is_stmt
                context = name = 0
            elif kind == 2:
                operand = inner.take(len(inner.data) - 1)
                if len(operand) not in (2, 4, 8):
                    raise Refused
                address, op_index = int.from_bytes(operand, "little"), 0
            elif kind == 3:
                defined = inner.text(), inner.uleb(), inner.uleb(), inner.uleb()
                if files is not None:
                    files.append((b"", defined[0]))
            elif kind == 0x90:
                context, name = inner.uleb(), inner.uleb()
        elif opcode >= header.opcode_base:
            address, op_index = advance((opcode - header.opcode_base) // header.line_range)
            line += header.line_base + (opcode - header.opcode_base) % header.line_range
            emit()
            flags = 0
        elif opcode == 1:
            emit()
            flags = 0
        elif opcode == 2:
            address, op_index = advance(code.uleb())
        elif opcode == 3:
            line += code.sleb()
        elif opcode == 4:
            file = code.uleb()
        elif opcode == 5:
            column = code.uleb()
        elif opcode == 6:
            is_stmt = not is_stmt
        elif opcode == 8:
            address, op_index = advance(constant_advance)
        elif opcode == 9:
            address, op_index = address + code.number(2), 0
        elif opcode in ROW_FLAGS:
            flags |= ROW_FLAGS[opcode]
        else:
            for _ in range(1 if opcode == 12 else header.operand_counts[opcode - 1]):
                code.uleb()
    return rows
