"""Line programs stated as the rows they mean (DWARF 5, 6.2), encoded in as many ways as the format allows.

    program = build_line_program([[Row(0, line=3), Row(16, line=4), Row(24, end_sequence=True)]], files=[File("k.cl")])

With a ``seed`` the encoder chooses its opcodes at random and mixes in ones that change nothing; the rows stay the same.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from .leb128 import sleb, uleb
from .line_header import File, Shape, StringPool, old_file, unit

__all__ = ("File", "LineProgram", "Row", "Shape", "build_line_program")

COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, NEGATE_STMT = 1, 2, 3, 4, 5, 6
SET_BASIC_BLOCK, CONST_ADD_PC, FIXED_ADVANCE_PC, SET_PROLOGUE_END, SET_EPILOGUE_BEGIN, SET_ISA = 7, 8, 9, 10, 11, 12
END_SEQUENCE, SET_ADDRESS, DEFINE_FILE, SET_DISCRIMINATOR, NVIDIA_INLINED_CALL = 1, 2, 3, 4, 0x90
KNOWN_EXTENDED = {1, 2, 3, 4, 0x90, 0x91}

NAMES = {
    COPY: "copy", ADVANCE_PC: "advance_pc", ADVANCE_LINE: "advance_line", SET_FILE: "set_file",
    SET_COLUMN: "set_column", NEGATE_STMT: "negate_stmt", SET_BASIC_BLOCK: "set_basic_block",
    CONST_ADD_PC: "const_add_pc", FIXED_ADVANCE_PC: "fixed_advance_pc", SET_PROLOGUE_END: "set_prologue_end",
    SET_EPILOGUE_BEGIN: "set_epilogue_begin", SET_ISA: "set_isa",
}  # fmt: skip
EXTENDED_NAMES = {
    END_SEQUENCE: "end_sequence", SET_ADDRESS: "set_address", DEFINE_FILE: "define_file",
    SET_DISCRIMINATOR: "set_discriminator", NVIDIA_INLINED_CALL: "inlined_call",
}  # fmt: skip


class Row(NamedTuple):
    """A row of the line table, with the registers' names. ``context`` and ``name`` are NVIDIA's: the number in this
    sequence of the row that is the call site (0: not inlined), and where the callee's name lies in .debug_str."""

    address: int
    file: int = 1
    line: int = 1
    column: int = 0
    is_stmt: bool = True
    basic_block: bool = False
    end_sequence: bool = False
    prologue_end: bool = False
    epilogue_begin: bool = False
    isa: int = 0
    discriminator: int = 0
    op_index: int = 0
    context: int = 0
    name: int = 0


class LineProgram(NamedTuple):
    """``data`` is a unit of .debug_line; ``strings`` what it needs in .debug_line_str (or .debug_str); ``files`` and
    ``rows`` the truth; ``addresses`` where in ``data`` each set_address has its operand, for relocations; ``opcodes``
    the names of the opcodes that occur."""

    data: bytes
    strings: bytes
    directories: tuple[str, ...]
    files: tuple[File, ...]
    rows: tuple[Row, ...]
    addresses: tuple[int, ...]
    opcodes: frozenset[str]


class _Encoder:
    """Keeps the state machine's registers and appends opcodes that bring them to the next row."""

    def __init__(self, shape: Shape, files: int, late: Sequence[File], seed: int | None) -> None:
        self.shape = shape
        self.random = None if seed is None else random.Random(seed)
        self.out = bytearray()
        self.addresses: list[int] = []
        self.opcodes: set[str] = set()
        self.first_file = 0 if shape.version >= 5 else 1
        self.files = files
        self.late = list(late)
        self.now = self.initial()

    def initial(self) -> Row:
        return Row(0, is_stmt=self.shape.default_is_stmt)

    def sequence(self, rows: Iterable[Row]) -> None:
        self.now = self.initial()
        for number, row in enumerate(rows):
            if number == 0:
                self.set_address(row.address)
            self.row(row)

    def row(self, row: Row) -> None:
        """Appends what makes ``row`` the next row of the table."""
        changes = self.changes(row) + self.noise()
        if self.random:
            self.random.shuffle(changes)
        for change in changes:
            change()
        if row.end_sequence:
            self.reach(row)
            self.extended(END_SEQUENCE)
        else:
            self.move_some(row)
            self.emit(row)
        self.now = row._replace(basic_block=False, prologue_end=False, epilogue_begin=False, discriminator=0)

    # Opcodes

    def standard(self, opcode: int, operands: bytes = b"") -> None:
        if opcode >= self.shape.base:
            raise ValueError(f"{NAMES[opcode]} does not exist below opcode_base {self.shape.base}")
        self.opcodes.add(NAMES[opcode])
        self.out += bytes([opcode]) + operands

    def extended(self, opcode: int, operands: bytes = b"") -> None:
        self.opcodes.add(EXTENDED_NAMES.get(opcode, "unknown_extended"))
        self.out += b"\0" + self.uleb(1 + len(operands)) + bytes([opcode]) + operands

    def uleb(self, value: int) -> bytes:
        return uleb(value, self.padding())

    def padding(self) -> int:
        return self.random.choice((0, 0, 0, 0, 0, 1, 2)) if self.random else 0

    def has(self, opcode: int) -> bool:
        return opcode < self.shape.base

    # Registers other than address and line

    def changes(self, row: Row) -> list[Callable[[], None]]:
        now = self.now
        wanted: list[Callable[[], None]] = []
        if row.file != now.file:
            wanted.append(lambda: self.set_file(row.file))
        if row.column != now.column:
            wanted.append(lambda: self.standard(SET_COLUMN, self.uleb(row.column)))
        if row.is_stmt != now.is_stmt:
            wanted.append(lambda: self.standard(NEGATE_STMT))
        if row.isa != now.isa:
            wanted.append(lambda: self.standard(SET_ISA, self.uleb(row.isa)))
        if row.discriminator:
            wanted.append(lambda: self.extended(SET_DISCRIMINATOR, self.uleb(row.discriminator)))
        if (row.context, row.name) != (now.context, now.name):
            wanted.append(lambda: self.extended(NVIDIA_INLINED_CALL, uleb(row.context) + uleb(row.name)))
        flags = {SET_BASIC_BLOCK: row.basic_block, SET_PROLOGUE_END: row.prologue_end}
        flags[SET_EPILOGUE_BEGIN] = row.epilogue_begin
        wanted += [partial(self.standard, opcode) for opcode, wish in flags.items() if wish]
        return wanted

    def set_file(self, number: int) -> None:
        while number - self.first_file >= self.files and self.late:
            self.extended(DEFINE_FILE, old_file(self.late.pop(0)))
            self.files += 1
        self.standard(SET_FILE, self.uleb(number))

    def noise(self) -> list[Callable[[], None]]:
        """A few opcodes that leave every register as it is; none without a seed."""
        if self.random is None:
            return []
        harmless: list[Callable[[], None]] = [self.unknown_extended, self.nothing]
        harmless += [self.unknown_standard] if self.shape.extra_operands else []
        return self.random.choices(harmless, k=self.random.choice((0, 0, 0, 1, 2)))

    def nothing(self) -> None:
        self.standard(ADVANCE_PC, self.uleb(0))
        self.standard(ADVANCE_LINE, sleb(0, self.padding()))

    def unknown_standard(self) -> None:
        assert self.random
        number = self.random.randrange(len(self.shape.extra_operands))
        operands = (self.uleb(self.random.getrandbits(20)) for _ in range(self.shape.extra_operands[number]))
        self.opcodes.add("unknown_standard")
        self.out += bytes([13 + number]) + b"".join(operands)

    def unknown_extended(self) -> None:
        assert self.random
        opcode = self.random.choice([code for code in range(5, 256) if code not in KNOWN_EXTENDED])
        self.extended(opcode, self.random.randbytes(self.random.randrange(9)))

    # Address and line

    def operations(self, row: Row) -> int | None:
        """How many operations forward the row is (DWARF 5, 6.2.5.1); None where such an advance cannot reach it."""
        instructions, rest = divmod(row.address - self.now.address, self.shape.min_inst_length)
        count = instructions * self.shape.max_ops + row.op_index - self.now.op_index
        return None if rest or count < 0 else count

    def advance(self, count: int) -> None:
        """Moves the registers by ``count`` operations, as advance_pc, const_add_pc and special opcodes do."""
        instructions, op_index = divmod(self.now.op_index + count, self.shape.max_ops)
        address = self.now.address + instructions * self.shape.min_inst_length
        self.now = self.now._replace(address=address, op_index=op_index)

    def advance_pc(self, count: int) -> None:
        self.standard(ADVANCE_PC, self.uleb(count))
        self.advance(count)

    def const_add_pc(self) -> None:
        self.standard(CONST_ADD_PC)
        self.advance(self.const_step)

    @property
    def const_step(self) -> int:
        return (255 - self.shape.base) // self.shape.line_range

    def fixed_advance_pc(self, distance: int) -> None:
        self.standard(FIXED_ADVANCE_PC, struct.pack(self.shape.prefix + "H", distance))
        self.now = self.now._replace(address=self.now.address + distance, op_index=0)

    def set_address(self, address: int) -> None:
        self.extended(SET_ADDRESS, self.shape.address(address))
        self.addresses.append(len(self.out) - self.shape.address_size)
        self.now = self.now._replace(address=address, op_index=0)

    def advance_line(self, distance: int) -> None:
        self.standard(ADVANCE_LINE, sleb(distance, self.padding()))
        self.now = self.now._replace(line=self.now.line + distance)

    def move_some(self, row: Row) -> None:
        """With a seed: goes a part of the way in one of the ways there are."""
        if self.random is None:
            return
        count, distance = self.operations(row), row.address - self.now.address
        ways: list[Callable[[], None]] = [lambda: None]
        if row.op_index == 0:
            ways.append(lambda: self.set_address(row.address))
            if self.has(FIXED_ADVANCE_PC) and 0 <= distance <= 0xFFFF:
                ways.append(lambda: self.fixed_advance_pc(distance))
        if count:
            part = self.random.randint(0, count)
            ways.append(lambda: self.advance_pc(part))
            if self.has(CONST_ADD_PC) and count >= self.const_step:
                ways += [self.const_add_pc] * 3
        self.random.choice(ways)()
        if self.random.random() < 0.2:
            self.advance_line(row.line - self.now.line - self.random.randint(0, 3))

    def special(self, row: Row) -> int | None:
        """The special opcode that goes all the way to ``row``, where there is one."""
        count, shape = self.operations(row), self.shape
        step = row.line - self.now.line - shape.line_base
        if count is None or not 0 <= step < shape.line_range:
            return None
        opcode = step + shape.line_range * count + shape.base
        return opcode if opcode <= 255 else None

    def emit(self, row: Row) -> None:
        opcode = self.special(row)
        if opcode is None or (self.random and self.random.random() < 0.1):
            self.reach(row)
            self.standard(COPY)
        else:
            self.opcodes.add("special")
            self.out.append(opcode)

    def reach(self, row: Row) -> None:
        """Brings address and line to the row's, without a row."""
        count = self.operations(row)
        if count is None:
            self.set_address(row.address)
            count = self.operations(row)
        if count:
            self.advance_pc(count)
        if row.line != self.now.line:
            self.advance_line(row.line - self.now.line)


def build_line_program(
    sequences: Sequence[Sequence[Row]],
    *,
    shape: Shape | None = None,
    files: Sequence[File] = (File("kernel.cl"),),
    directories: Sequence[str] = (),
    late_files: Sequence[File] = (),
    seed: int | None = None,
    string_base: int = 0,
) -> LineProgram:
    """One unit of .debug_line whose rows are ``sequences``, each of which must end with an end_sequence row.

    ``late_files`` are added by DW_LNE_define_file when a row first needs them. ``seed`` None gives the plainest encoding.
    """
    shape = shape or Shape()
    encoder = _Encoder(shape, len(files), late_files, seed)
    for rows in sequences:
        encoder.sequence(rows)
    pool = StringPool(string_base)
    data, start = unit(shape, directories, files, bytes(encoder.out), pool)
    defined = tuple(late_files[: len(late_files) - len(encoder.late)])
    return LineProgram(
        data,
        bytes(pool.data),
        tuple(directories),
        (*files, *defined),
        tuple(row for rows in sequences for row in rows),
        tuple(start + at for at in encoder.addresses),
        frozenset(encoder.opcodes),
    )
