"""Variables that live in the memory of AMD's waves: private memory of each lane, local memory of the work-group, global memory. Where each byte
stands is stated here by the hardware's rule, lane by lane; symd.cores.amd_waves turns it round."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from symd.config import Limits
from symd.cores import PendingMemory, WaveMemory, WaveRegisters
from symd.cores.amd_waves import AreaBudget, global_ranges, memory_of, saved_waves, scratch_of
from symd.cores.values import values_of
from symd.engine.engine import Engine
from symd.formats.budget import Budget
from symd.formats.containers.amd import core_state
from symd.model.cores import CoreStack, CoreValue
from symd.model.variables import (
    LocationPiece,
    LocationRegister,
    PieceKind,
    TypeInfo,
    Variable,
    VariableLocation,
    Visible,
)
from symd.store import Store
from tests.builders.amdgpu_core import AmdgpuCore

SAMPLES = Path(__file__).parents[2] / "samples" / "amdgpu" / "bin"
BASE, FILE = 0x7F12_0000_0000, 0x5555_0000_0000
SLOT = (3, 1)
FRAME = 0x40
"""Where a function's frame begins, in the private memory of each lane."""
LANES = (0, 1, 5, 40)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as engine:
        yield engine


def loaded(name: str, version: tuple[int, int, int]) -> AmdgpuCore:
    """The code loaded, and its file in the program's memory."""
    code = (SAMPLES / name).read_bytes()
    dump = AmdgpuCore(version=version)
    dump.load(code, BASE, uri=f"memory://1#offset={FILE:#x}&size={len(code)}")
    dump.memory.append((FILE, code))
    return dump


def only(engine: Engine, dump: AmdgpuCore) -> CoreStack:
    (stack,) = engine.core(engine.add(dump.build()).sha256).stacks
    return stack


def by_name(stack: CoreStack) -> dict[str, CoreValue]:
    return {value.name: value for value in stack.values}


@pytest.mark.parametrize(
    ("name", "version", "function", "frame_pointer"),
    [
        ("v4-gfx900-O0.co", (9, 0, 0), 0x1B00 + 0x80, FRAME * 64),
        ("v6-gfx1201.co", (12, 0, 1), 0x1E88 + 0x1C0, FRAME),
    ],
)
def test_private_variables_of_each_lane(
    engine: Engine, name: str, version: tuple[int, int, int], function: int, frame_pointer: int
) -> None:
    """In the function march: stack pointers of gfx9 count the bytes of all lanes, those of gfx12 of one."""
    dump = loaded(name, version)
    width = 32 if version[0] == 12 else 64
    lanes = [lane for lane in LANES if lane < width]
    scalar = [0] * 32 + [frame_pointer, frame_pointer] + [0] * 62
    mask = sum(1 << lane for lane in lanes)
    dump.wave(pc=BASE + function, exec=mask, scalar=scalar, vector=[[0]] * 8, wave32=width == 32, slot=SLOT)
    first = 0 if version[0] == 9 else 4
    for lane in range(width):
        content = struct.pack("<fifi", lane + 0.5, 7, lane * 2.0, lane - 3)
        dump.private(SLOT, lane, FRAME + first, content, lanes=width)
    found = by_name(only(engine, dump))
    assert found["start"].values == tuple(f"{lane + 0.5:g}" for lane in lanes)
    assert (found["steps"].values, found["steps"].lanes) == (("7",), (0,))
    assert found["sum"].values == tuple(f"{lane * 2.0:g}" for lane in lanes)
    assert found["k"].values == tuple(str(lane - 3) for lane in lanes)


def test_private_memory_that_the_dump_lacks_has_no_values(engine: Engine) -> None:
    for slot, written in ((SLOT, False), (None, True)):
        dump = loaded("v4-gfx900-O0.co", (9, 0, 0))
        dump.wave(pc=BASE + 0x1B80, exec=1, scalar=[0] * 96, vector=[[0]] * 4, slot=slot)
        if written:
            dump.private(SLOT, 0, 0, bytes(64))
        assert only(engine, dump).values == ()


@pytest.mark.parametrize("told", [0, 8])
def test_a_scratch_register_that_contradicts_the_slot(engine: Engine, told: int) -> None:
    """Since gfx11 the hardware says where the memory is; ROCdbgapi believes neither where the two differ."""
    dump = loaded("v6-gfx1201.co", (12, 0, 1))
    dump.private(SLOT, 0, 0, bytes(256), lanes=32)
    base = 0x5400_0000_0000 + dump.scratch_of(SLOT) + told
    hardware = {9: base & 0xFFFF_FFFF, 10: base >> 32}
    dump.wave(pc=BASE + 0x1F08, exec=1, scalar=[0] * 96, vector=[[0]] * 8, wave32=True, slot=SLOT, hardware=hardware)
    assert bool(only(engine, dump).values) == (told == 0)


@pytest.mark.parametrize(("moved", "found"), [(0, True), (16384, True), (8, False), (-16384, False), (1 << 20, False)])
def test_gfx942_is_asked_where_its_memory_is(moved: int, found: bool) -> None:
    """The sixth scalar register from the end says it, of 108."""
    dump = AmdgpuCore(version=(9, 4, 2))
    base = 0x5400_0000_0000 + moved
    scalar = [0] * 102 + [base & 0xFFFF_FFFF, base >> 32] + [0] * 8
    vectors = {"vector": [[0]] * 8, "accumulators": [[0]] * 8}
    dump.wave(pc=0, exec=1, scalar=scalar, slot=(0, 0), **vectors)  # type: ignore[arg-type]
    dump.wave(pc=0, exec=1, scalar=scalar, slot=None, **vectors)  # type: ignore[arg-type]
    core = core_state.Core(dump.build(), Budget(Limits()))
    (queue,), (agent,) = core.state.queues, core.state.agents
    waves = saved_waves(core.memory, core.state, queue, agent, None, Budget(Limits()), AreaBudget(core.memory))
    scratch = scratch_of(queue, core.memory)
    assert [memory_of(wave, agent, scratch).scratch for wave in waves] == [(base, 16384) if found else None, None]


MEMORY = WaveMemory(64, (0x1000, 0x4000), (0x9000, 0x100), 1 << 16, 2 << 16, True)


@pytest.mark.parametrize(
    ("space", "lane", "address", "size", "expected"),
    [
        ("private", 0, 0, 4, [(0x1000, 4)]),
        ("private", 3, 0, 4, [(0x100C, 4)]),
        ("private", 3, 4, 4, [(0x110C, 4)]),
        ("private", 3, 6, 4, [(0x110E, 2), (0x120C, 2)]),
        ("private", 63, 0xFC, 4, [(0x4FFC, 4)]),
        ("private", 63, 0xFC, 5, None),
        ("private", 0, -4, 4, None),
        ("private", None, 0, 4, None),
        ("private wave", None, 0x3FFC, 4, [(0x4FFC, 4)]),
        ("private wave", None, 0x3FFD, 4, None),
        ("local", 5, 0xFC, 4, [(0x90FC, 4)]),
        ("local", 5, 0xFD, 4, None),
        ("global", 5, 0x7F00_0000_0000, 8, [(0x7F00_0000_0000, 8)]),
        ("global", 5, (1 << 64) - 4, 8, None),
        ("generic", 5, 0x7F00_0000_0000, 8, [(0x7F00_0000_0000, 8)]),
        ("generic", 5, 0x0001_0000_0000_0010, 4, [(0x9010, 4)]),
        ("generic", 3, 0x0002_0000_0000_0004, 4, [(0x110C, 4)]),
        ("global", 5, 0, 0, None),
        ("global", 5, 0, 1 << 20, None),
    ],
)
def test_where_addresses_are(
    space: str, lane: int | None, address: int, size: int, expected: list[tuple[int, int]] | None
) -> None:
    assert global_ranges(MEMORY, space, lane, address, size) == expected  # type: ignore[arg-type]


def test_what_is_not_known_is_nowhere() -> None:
    bare = MEMORY._replace(scratch=None, local=None)
    assert [global_ranges(bare, space, 0, 0, 4) for space in ("private", "private wave", "local")] == [None] * 3


@pytest.mark.parametrize(
    ("piece", "address"),
    [
        (LocationPiece(PieceKind.MEMORY, offset=0x3D70), 0x3D70 + BASE),
        (LocationPiece(PieceKind.MEMORY, offset=0x10, address_space=2, address_space_name="local"), 0x9010),
        (LocationPiece(PieceKind.MEMORY, offset=0x10, address_space=5, address_space_name="private"), None),
        (LocationPiece(PieceKind.MEMORY, offset=0x10, text="CFA"), None),
        (
            LocationPiece(PieceKind.MEMORY, register=LocationRegister(0, "s33"), offset=8),
            0x1000 + (8 // 4 * 64 + 2) * 4,
        ),
        (LocationPiece(PieceKind.MEMORY, register=LocationRegister(0, "s4"), offset=8), None),
        (
            LocationPiece(PieceKind.MEMORY, register=LocationRegister(0, "v0"), offset=0, address_space_name="private"),
            None,
        ),
        (LocationPiece(PieceKind.MEMORY, register=LocationRegister(0, "s90"), offset=8), None),
    ],
)
@pytest.mark.parametrize("kind", ["local", "global"])
def test_what_is_read(kind: str, piece: LocationPiece, address: int | None) -> None:
    """In lane 2, where s33 and v0 are 0 and s4 is 0x7000."""
    variable = Variable("x", "int", kind, None, False, False, "here", (), 0, (VariableLocation((piece,)),))  # type: ignore[arg-type]
    scalar = struct.pack("<40I", *(0x7000 if number == 4 else 0 for number in range(40)))
    wave = WaveRegisters((2,), (bytes(16),), (), scalar, MEMORY)
    asked = []

    def read(ranges: Sequence[tuple[int, int]]) -> bytes:
        asked.extend(ranges)
        return b"\x05\0\0\0"

    found = values_of(Visible((variable,), (TypeInfo("int", "base", 4, "signed"),)), wave, read, BASE)
    assert [each.values for each in found] == ([("5",)] if address is not None else [])
    assert asked == ([(address, 4)] if address is not None else [])


def test_globals_of_an_object_whose_place_is_not_known_have_no_values() -> None:
    piece = LocationPiece(PieceKind.MEMORY, offset=0x3D70)
    variable = Variable("x", "int", "global", None, False, False, "here", (), 0, (VariableLocation((piece,)),))
    visible = Visible((variable,), (TypeInfo("int", "base", 4, "signed"),))
    assert values_of(visible, WaveRegisters((2,), (b"",), (), b"", MEMORY), lambda _: b"1234") == ()


def test_memory_is_asked_for_once() -> None:
    asked: list[list[tuple[int, int]]] = []

    def read(ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        asked.append([*ranges])
        return [b"ab" if address == 1 else None for address, _ in ranges]

    memory = PendingMemory(read)
    assert [memory.get([(1, 2), (1, 2)]), memory.get([(3, 2)])] == [None, None]
    assert memory.fetch()
    assert [memory.get([(1, 2), (1, 2)]), memory.get([(3, 2)])] == [b"abab", None]
    assert not memory.fetch()
    assert asked == [[(1, 2), (3, 2)]]
