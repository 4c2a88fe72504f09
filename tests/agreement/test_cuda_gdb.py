"""Core dumps as cuda-gdb reads them: lines of frames and values of variables, lane by lane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.formats import containers
from symd.model.cores import CoreStack
from symd.store import Store
from tests.agreement import cuda_gdb
from tests.agreement.cuda_gdb import WorkQueue
from tests.builders.cuda_core import CudaCore
from tests.builders.relocated_cubin import relocated
from tests.cores import test_cuda_memory

CUBINS = Path(__file__).parents[2] / "samples" / "cuda" / "bin"
SAMPLES = Path(__file__).parents[2] / "samples" / "cores" / "bin"
DEBUG = ("reduce.sm_90.debug", "linked.sm_90.debug", "raycast.sm_90.debug", "tonemap.sm_80.debug", "saxpy.sm_100.debug")
LINES = ("raycast.sm_90.ptxas-12.4", "tonemap.sm_75.ptxas-12.0", "raycast.sm_75.lines", "reduce.sm_80.lines")
PLACES = 256
"""Instructions of a cubin that are looked at."""
BASE = 0x7F00_0000_1000


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as engine:
        yield engine


def a_lane_at_each_instruction(cubin: bytes) -> bytes:
    """Every lane of the dump's warps is at another instruction."""
    (code,) = containers.unpack(cubin).objects
    image = relocated(cubin, BASE)
    places = [
        image.text[code.sections[each.section_index].name] + offset
        for each in code.functions
        for offset in range(each.offset, each.offset + each.size, 16)
    ]
    places = sorted(set(places))[:: max(1, len(places) // PLACES)]
    dump = CudaCore(driver=550, metadata=None)
    device = dump.device(sms=PLACES)
    dump.module(dump.context(device), handle=1, relocated=image.data)
    dump.grid(device, entry=BASE, module=1)
    for sm in range(0, len(places), 32):
        block = dump.block(dump.sm(device, number=sm // 32), index=(sm // 32, 0, 0))
        here = places[sm : sm + 32]
        warp = dump.warp(block, existing=(1 << len(here)) - 1, active=(1 << len(here)) - 1)
        for lane, pc in enumerate(here):
            registers = [0x3F80_0000 + 1000 * number + lane for number in range(255)]
            dump.lane(warp, number=lane, pc=pc, registers=registers, predicates=[1, 0, 1, 0, 1, 0, 1])
    return dump.build()


def stacks(engine: Engine, data: bytes) -> dict[WorkQueue, CoreStack]:
    found = engine.core(engine.add(data).sha256)
    return {
        WorkQueue(wave.unit, wave.wave, lane): stack
        for stack in found.stacks
        for wave in stack.waves
        for lane in range(32)
        if wave.lanes >> lane & 1
    }


def lines_of(stack: CoreStack) -> cuda_gdb.Frames:
    return [((each.file or "").rpartition("/")[2], each.line) for call in stack.frames for each in call.frames]


@pytest.mark.parametrize("name", DEBUG + LINES)
def test_lines(engine: Engine, name: str, tmp_path: Path) -> None:
    """In -lineinfo builds cuda-gdb has no line where code is inlined."""
    data = a_lane_at_each_instruction((CUBINS / f"{name}.cubin").read_bytes())
    dump = tmp_path / "dump"
    dump.write_bytes(data)
    ours = stacks(engine, data)
    theirs = cuda_gdb.frames(dump, [*ours])
    compared = 0
    for lane, stack in ours.items():
        if name in LINES and theirs[lane] == [("", 0)]:
            continue
        assert lines_of(stack) == theirs[lane], f"{stack.pc:#x}"
        compared += 1
    assert compared >= len(ours) * (1.0 if name in DEBUG else 0.3)


@pytest.mark.parametrize("name", DEBUG)
def test_values(engine: Engine, name: str, tmp_path: Path) -> None:
    data = a_lane_at_each_instruction((CUBINS / f"{name}.cubin").read_bytes())
    dump = tmp_path / "dump"
    dump.write_bytes(data)
    asked, ours = [], []
    for lane, stack in stacks(engine, data).items():
        innermost = stack.frames[0].frames[0].function
        for value in stack.values:
            if value.function == innermost:
                asked.append((lane, value.name))
                ours.append(value.values[0])
    theirs = cuda_gdb.values(dump, asked)
    both = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if other and not other.startswith("<")]
    assert [mine for mine, _ in both] == [other for _, other in both]
    assert len(both) > len(asked) * 0.8


def test_the_sample_dump(engine: Engine) -> None:
    dump = SAMPLES / "illegal_address.nvcudmp"
    ours = stacks(engine, dump.read_bytes())
    theirs = cuda_gdb.frames(dump, [*ours])
    assert {lane: lines_of(stack) for lane, stack in ours.items()} == theirs


def test_values_in_memory(engine: Engine, tmp_path: Path) -> None:
    """A struct in local memory, lane by lane, and a parameter of the launch."""
    for section, name, member, offset in (
        (test_cuda_memory.DISTANCE_TO, "s", "s.radius", 12),
        (test_cuda_memory.PROBE, "p", "p.z", 8),
        (test_cuda_memory.PROBE, "at", "at", None),
    ):
        data = test_cuda_memory.dump_at(section, 0x600)
        dump = tmp_path / "dump"
        dump.write_bytes(data)
        (stack,) = {id(each): each for each in stacks(engine, data).values()}.values()
        (value,) = [each for each in stack.values if each.name == name]
        every = value.values if len(value.values) > 1 else value.values * 4
        ours = [each if offset is None else f"{test_cuda_memory.floats(each)[offset // 4]:g}" for each in every]
        assert cuda_gdb.values(dump, [(WorkQueue(0, 0, lane), member) for lane in range(4)]) == ours
