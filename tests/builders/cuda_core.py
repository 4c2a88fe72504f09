"""CUDA core dumps stated as devices, modules, grids and warps (NVIDIA's ``cudacoredump.h``).

dump = CudaCore()
device = dump.device(sm="sm_90")
dump.module(device, handle=7, relocated=relocated(cubin, {".text.k": 0x7F00_0000_0000}))
grid = dump.grid(device, entry=0x7F00_0000_0000, module=7)
warp = dump.warp(dump.block(dump.sm(device), grid), lanes=0b1)
dump.lane(warp, pc=0x7F00_0000_0010, exception=14)
open("core.nvcudmp", "wb").write(dump.build())

Rows are as long as ``driver`` (the number of the driver's branch) writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.builders.elf import Section, build_elf

EM_CUDA, OSABI_CUDA, ABI_VERSION, ET_CORE = 190, 0x33, 7, 4
USER = 0x80000000
DEVICES, CONTEXTS, SMS, GRIDS, BLOCKS, WARPS, LANES, MODULES = (USER + number for number in range(9, 17))
PARAMETERS = USER + 18
GLOBAL, LOCAL, SHARED = USER + 2, USER + 3, USER + 4
REGISTERS, IMAGE, RELOCATED, CALLS = USER + 5, USER + 6, USER + 7, USER + 8
PREDICATES, UNIFORM_REGISTERS, META = USER + 17, USER + 19, USER + 22
LENGTHS = {
    DEVICES: ((0, 72), (400, 80), (575, 88)),
    CONTEXTS: ((0, 40),),
    MODULES: ((0, 8),),
    GRIDS: ((0, 104), (525, 120), (565, 136)),
    SMS: ((0, 8), (555, 24), (565, 40), (580, 48)),
    BLOCKS: ((0, 24), (525, 40), (565, 56)),
    WARPS: ((0, 32), (525, 40), (570, 48), (575, 64), (590, 80)),
    LANES: ((0, 48), (575, 56), (615, 64)),
    CALLS: ((0, 24),),
    META: ((0, 32),),
}
"""Bytes of a row since a driver branch."""


@dataclass
class Table:
    """A section of rows. ``parent`` and ``row`` are what sh_link and sh_info say."""

    kind: int
    name: str
    parent: Table | None = None
    row: int = 0
    rows: list[bytes] = field(default_factory=list)
    address: int = 0

    def add(self, content: bytes) -> Row:
        self.rows.append(content)
        return Row(self, len(self.rows) - 1)


@dataclass(frozen=True)
class Row:
    """A row of a table; ``index`` is part of the names of what belongs to it."""

    table: Table
    index: int


@dataclass
class CudaCore:
    """``driver`` decides how long rows are; ``metadata`` are driver, minor, CUDA, minor, flags, time."""

    driver: int = 580
    metadata: tuple[int, ...] | None = (580, 65, 13, 0, 0, 1_760_000_000)
    generator: str = "symd's tests"
    abi_version: int = ABI_VERSION
    tables: list[Table] = field(default_factory=list)
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    _children: dict[tuple[int, int, int], Table] = field(default_factory=dict)

    def device(
        self, *, number: int = 0, name: str = "Test GPU", sm: str = "sm_90", sms: int = 4, registers: int = 255
    ) -> Row:
        major, minor = int(sm[3:-1] or 0), int(sm[-1])
        fields = (number, 1, 2, sms, 64, 32, registers, 7, major, minor, 16, 0, 63, 7)
        row = struct.pack("<3Q14I", self._text(name), self._text("GH100"), self._text(sm), *fields)
        return self._row(DEVICES, ".cudbg.devtbl", None, row)

    def context(self, device: Row, *, handle: int = 0xC0, thread: int = 4242) -> Row:
        bases = (0x0100_0000, 0x0200_0000, 0)
        row = struct.pack("<4Q2I", handle, *bases, device.index, thread)
        return self._row(CONTEXTS, f".cudbg.ctxtbl.dev{device.index}", device, row)

    def module(self, context: Row, *, handle: int, relocated: bytes | None = None, image: bytes | None = None) -> Row:
        place = f"dev{context.table.row}.ctx{context.index}"
        module = self._row(MODULES, f".cudbg.modtbl.{place}", context, struct.pack("<Q", handle))
        for kind, name, content in ((RELOCATED, "relfimg", relocated), (IMAGE, "elfimg", image)):
            if content is not None:
                self.tables.append(Table(kind, f".cudbg.{name}.{place}", module.table, module.index, [content]))
        return module

    def grid(
        self,
        device: Row,
        *,
        number: int = 1,
        context: int = 0xC0,
        entry: int = 0,
        module: int = 0,
        grid: tuple[int, int, int] = (4, 1, 1),
        block: tuple[int, int, int] = (64, 1, 1),
    ) -> Row:
        wide = (number, context, 0xF00, entry, module, 0, 0x160)
        row = struct.pack("<7Q12I", *wide, 2, 0, 2, 24, *grid, *block, 0, 4242)
        return self._row(GRIDS, f".cudbg.gridtbl.dev{device.index}", device, row)

    def sm(self, device: Row, *, number: int = 0, exception: int = 0, error_pc: int | None = None) -> Row:
        row = struct.pack("<4IQ", number, 0, exception, error_pc is not None, error_pc or 0)
        return self._row(SMS, f".cudbg.smtbl.dev{device.index}", device, row)

    def block(self, sm: Row, *, grid: int = 1, index: tuple[int, int, int] = (0, 0, 0)) -> Row:
        return self._row(BLOCKS, f".cudbg.ctatbl.{_place(sm)}", sm, struct.pack("<Q4I", grid, *index, 0))

    def warp(
        self,
        block: Row,
        *,
        number: int = 0,
        existing: int = 0xFFFF_FFFF,
        active: int = 0xFFFF_FFFF,
        broken: bool = False,
        error_pc: int | None = None,
        uniform: Sequence[int] | None = None,
    ) -> Row:
        fields = (number, existing, active, broken, error_pc is not None, 0, 24)
        row = struct.pack("<Q7I", error_pc or 0, *fields)
        warp = self._row(WARPS, f".cudbg.wptbl.{_place(block)}", block, row)
        if uniform is not None:
            self._leaf(UNIFORM_REGISTERS, "uregs", warp, _words(uniform))
        return warp

    def lane(
        self,
        warp: Row,
        *,
        number: int = 0,
        pc: int,
        offset: int = 0,
        thread: tuple[int, int, int] | None = None,
        exception: int = 0,
        calls: Sequence[tuple[int, int]] = (),
        registers: Sequence[int] | None = None,
        predicates: Sequence[int] | None = None,
    ) -> Row:
        """``calls`` are (offset to return to, address to return to), innermost first."""
        fields = (number, *(thread or (number, 0, 0)), exception, len(calls), 0, 0)
        lane = self._row(LANES, f".cudbg.lntbl.{_place(warp)}", warp, struct.pack("<2Q8I", pc, offset, *fields))
        for level, (inside, address) in enumerate(calls):
            self._row(CALLS, f".cudbg.bt.{_place(lane)}", lane, struct.pack("<2Q2I", inside, address, level, 0))
        if registers is not None:
            self._leaf(REGISTERS, "regs", lane, _words(registers))
        if predicates is not None:
            self._leaf(PREDICATES, "pred", lane, _words(predicates))
        return lane

    def local(self, lane: Row, address: int, content: bytes) -> None:
        """The local memory of a lane, from an address on."""
        self._leaf(LOCAL, "local", lane, content, address)

    def shared(self, block: Row, content: bytes) -> None:
        """The shared memory of a block."""
        self._leaf(SHARED, "shared", block, content)

    def parameters(self, grid: Row, content: bytes) -> None:
        """The parameters of a launch, which begin at 0x160 of its constant bank."""
        self.tables.append(Table(PARAMETERS, f".cudbg.params.grid{grid.index}", grid.table, grid.index, [content]))

    def memory(self, address: int, content: bytes) -> None:
        """Global memory at a device address."""
        name = f".cudbg.global.{sum(table.kind == GLOBAL for table in self.tables)}"
        self.tables.append(Table(GLOBAL, name, None, 0, [content], address))

    def build(self) -> bytes:
        """The dump. Parents may stand after their children in the file, as in real ones."""
        if self.metadata is not None:
            row = struct.pack("<Q6I", self._text(self.generator), *self.metadata)
            self._row(META, ".cudbg.meta", None, row)
        numbers = {id(table): number for number, table in enumerate(self.tables, 1)}
        sections = [
            Section(
                table.name,
                table.kind,
                address=table.address,
                data=b"".join(table.rows),
                link=numbers[id(table.parent)] if table.parent is not None else 0,
                info=table.row,
                entsize=len(table.rows[0]) if table.kind in LENGTHS else 4,
                align=8,
            )
            for table in self.tables
        ]
        sections.append(Section(".strtab", 3, data=bytes(self.strings)))
        return build_elf(
            machine=EM_CUDA, type=ET_CORE, osabi=OSABI_CUDA, abiversion=self.abi_version, sections=sections
        )

    def _row(self, kind: int, name: str, parent: Row | None, content: bytes) -> Row:
        key = (kind, id(parent.table) if parent else 0, parent.index if parent else 0)
        table = self._children.get(key)
        if table is None:
            table = Table(kind, name, parent.table if parent else None, parent.index if parent else 0)
            self._children[key] = table
            self.tables.append(table)
        length = [size for since, size in LENGTHS[kind] if since <= self.driver][-1]
        return table.add(content.ljust(length, b"\0")[:length])

    def _leaf(self, kind: int, name: str, owner: Row, content: bytes, address: int = 0) -> None:
        self.tables.append(Table(kind, f".cudbg.{name}.{_place(owner)}", owner.table, owner.index, [content], address))

    def _text(self, text: str) -> int:
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text.encode()) - 1


def _place(row: Row) -> str:
    """``dev0.sm1.cta0``: the suffix of the names of what belongs to a row."""
    letters = {SMS: "sm", BLOCKS: "cta", WARPS: "wp", LANES: "ln"}
    if row.table.kind == DEVICES:
        return f"dev{row.index}"
    parent = row.table.parent
    assert parent is not None
    return f"{_place(Row(parent, row.table.row))}.{letters[row.table.kind]}{row.index}"


def _words(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)
