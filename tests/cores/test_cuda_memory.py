"""Variables of a CUDA debug build in memory: each lane's, from the address that ptxas' call frame information gives."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence

import pytest

from symd.config import Limits
from symd.cores import MemoryWindow, WaveRegisters
from symd.cores.read import memory
from symd.cores.values import values_of
from symd.debuginfo.variables.registers import frame_addresses
from symd.engine.engine import Engine
from symd.formats import containers
from symd.formats.budget import Budget
from symd.model.cores import CoreStack
from symd.model.variables import LocationPiece, PieceKind, TypeInfo, Variable, VariableLocation, Visible
from symd.store import Store
from tests.builders.cuda_core import CudaCore
from tests.builders.relocated_cubin import relocated
from tests.cores.dumps import ROOT

CUBIN = (ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin").read_bytes()
BASE = 0x7F00_0000_0000
PROBE, DISTANCE_TO = ".text._Z5probePfPK6float3", ".text._Z11distance_tofff"
STACK = 0xFF_FD00
"""R1."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as engine:
        yield engine


def dump_at(section: str, offset: int, *, local: bool = True, given: bool = True) -> bytes:
    """Four lanes at one place, each with local memory of its own from 64 bytes below R1 on."""
    loaded = relocated(CUBIN, BASE)
    dump = CudaCore()
    device = dump.device()
    dump.module(dump.context(device), handle=1, relocated=loaded.data)
    grid = dump.grid(device, entry=loaded.text[PROBE], module=1)
    block = dump.block(dump.sm(device))
    warp = dump.warp(block, existing=0xF, active=0xF)
    for number in range(4):
        registers = [0, STACK, *[0] * 60]
        pc = loaded.text[section] + offset
        lane = dump.lane(warp, number=number, pc=pc, offset=offset, registers=registers, predicates=[0] * 7)
        if local:
            dump.local(lane, STACK - 64, struct.pack("<64f", *(number * 100 + at for at in range(64))))
    if given:
        dump.parameters(grid, bytes(0x218 - 0x160) + struct.pack("<Q", 0x7F12_3456_7890))
    return dump.build()


def only(engine: Engine, data: bytes) -> CoreStack:
    (stack,) = engine.core(engine.add(data).sha256).stacks
    return stack


def floats(text: str) -> tuple[float, ...]:
    content = bytes.fromhex(text.removeprefix("bytes "))
    return struct.unpack(f"<{len(content) // 4}f", content)


@pytest.mark.parametrize("packed", [False, True])
def test_local_variables_of_each_lane(engine: Engine, packed: bool) -> None:
    """``s`` lies 72 bytes below the frame's address, which is 72 above R1 after the prologue: 16 floats into the memory."""
    data = dump_at(DISTANCE_TO, 0x600)
    stack = only(engine, gzip.compress(data) if packed else data)
    (found,) = [each for each in stack.values if each.name == "s"]
    assert [floats(each) for each in found.values] == [
        tuple(number * 100.0 + at for at in range(16, 20)) for number in range(4)
    ]
    assert found.lanes == (0, 1, 2, 3)


def test_parameters_of_the_launch(engine: Engine) -> None:
    """At 0x218 of the constant bank: the second of the kernel's, which begin at 0x210, and the dump's at 0x160."""
    (found,) = [each for each in only(engine, dump_at(PROBE, 0x600)).values if each.name == "at"]
    assert found.values == ("0x7f1234567890",)


WAVE = WaveRegisters(
    (3, 5),
    (struct.pack("<2I", 0, STACK), struct.pack("<2I", 0, STACK + 8)),
    windows=(
        MemoryWindow("local", 3, STACK, 16, 1000),
        MemoryWindow("local", 5, STACK, 16, 2000),
        MemoryWindow("shared", None, 0, 64, 3000),
    ),
)


@pytest.mark.parametrize(
    ("piece", "bias", "positions", "addresses"),
    [
        (
            LocationPiece(PieceKind.MEMORY, offset=-4, text="CFA", address_space_name="local"),
            None,
            [(1004, 4), (2012, 4)],
            [],
        ),
        (LocationPiece(PieceKind.MEMORY, offset=-12, text="CFA", address_space_name="local"), None, [(2004, 4)], []),
        (LocationPiece(PieceKind.MEMORY, offset=4, text="CFA", address_space_name="local"), None, [(1012, 4)], []),
        (LocationPiece(PieceKind.MEMORY, offset=8, address_space_name="shared"), None, [(3008, 4)], []),
        (LocationPiece(PieceKind.MEMORY, offset=61, address_space_name="shared"), None, [], []),
        (LocationPiece(PieceKind.MEMORY, offset=8, address_space_name="param"), None, [], []),
        (LocationPiece(PieceKind.MEMORY, offset=8, address_space_name="const"), 0, [], []),
        (LocationPiece(PieceKind.MEMORY, offset=0x7F00, address_space_name="global"), 0, [], [(0x7F00, 4)]),
        (LocationPiece(PieceKind.MEMORY, offset=0x7F00, address_space_name="global"), None, [], []),
    ],
)
def test_what_is_read(
    piece: LocationPiece, bias: int | None, positions: list[tuple[int, int]], addresses: list[tuple[int, int]]
) -> None:
    """The frame's address is R1 + 8; local memory of lanes 3 and 5 has 16 bytes from ``STACK`` on."""
    variable = Variable("x", "int", "local", None, False, False, "here", (), 0, (VariableLocation((piece,)),))
    visible = Visible((variable,), (TypeInfo("int", "base", 4, "signed"),))
    asked: dict[str, list[tuple[int, int]]] = {"positions": [], "addresses": []}

    def reader(kind: str) -> Callable[[Sequence[tuple[int, int]]], None]:
        return asked[kind].extend

    assert values_of(visible, WAVE, reader("addresses"), bias, reader("positions"), (1, 8)) == ()
    assert [*dict.fromkeys(asked["positions"])] == positions
    assert [*dict.fromkeys(asked["addresses"])] == addresses


def test_memory_that_the_dump_lacks_has_no_values(engine: Engine) -> None:
    for section, offset, name in ((DISTANCE_TO, 0x600, "s"), (PROBE, 0x600, "at")):
        stack = only(engine, dump_at(section, offset, local=False, given=False))
        assert name not in [each.name for each in stack.values]


def test_frames_are_found_by_section() -> None:
    (code,) = containers.unpack(CUBIN).objects
    section = next(each.index for each in code.sections if each.name == DISTANCE_TO)
    assert frame_addresses(code, [(section, 0), (section, 0x10), (section, 0x400), (section, 1 << 20), (999, 0)]) == (
        (1, 0),
        (1, 72),
        (1, 72),
        None,
        None,
    )


def test_a_little_of_much_memory_is_no_copy_of_all() -> None:
    dump = CudaCore()
    dump.device()
    dump.memory(BASE, bytes(8 << 20) + b"end")
    data = dump.build()
    asked = [(BASE + (8 << 20), 3), (BASE, 2), (BASE + (8 << 20), 4), (BASE - 1, 2), (BASE + (9 << 20), 1)]
    tracemalloc.start()
    try:
        assert memory(data, Budget(Limits()), asked) == (b"end", b"\0\0", None, None, None)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
