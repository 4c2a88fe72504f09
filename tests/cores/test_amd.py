"""ROCm's dumps built to ROCdbgapi's layouts: every generation that symd knows, every field that is used, and damaged ones."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from symd.config import Limits
from symd.cores import StoppedCore
from symd.cores.read import read
from symd.errors import LimitExceeded, Malformed, SymdError, UnknownFormat
from symd.formats import budget, containers
from symd.formats.budget import Budget
from symd.model.cores import CoreFault, CoreStack
from tests.builders.amdgpu_core import AREA, RING, AmdgpuCore
from tests.builders.elf import build_elf
from tests.cores.dumps import ROOT

SAMPLES = ROOT / "samples" / "amdgpu" / "bin"
CODE = (SAMPLES / "v3-gfx906-xnack-off.co").read_bytes()
BASE = 0x7F12_0000_0000
SHADE, CLEAR = BASE + 0x1900, BASE + 0x1A00
"""Where the kernels of ``CODE`` are: .text is at 0x1800."""
PARKS = {
    (9, 0, 0): True,
    (9, 0, 6): True,
    (9, 0, 8): True,
    (9, 0, 10): True,
    (9, 4, 2): False,
    (10, 1, 0): True,
    (10, 3, 0): False,
    (11, 0, 0): True,
    (12, 0, 1): True,
}
"""The generations, and whether stopped waves are parked."""
WITH_ACCUMULATORS = ((9, 0, 8), (9, 0, 10), (9, 4, 2))
WIDTHS = [(version, wave32) for version in PARKS for wave32 in (False, True) if version[0] > 9 or not wave32]
"""gfx9 has waves of 64 lanes alone."""


def stopped(dump: AmdgpuCore) -> StoppedCore:
    return read(dump.build(), Budget(Limits()))


def only(dump: AmdgpuCore) -> CoreStack:
    (stack,) = stopped(dump).dump.stacks
    return stack


def loaded(version: tuple[int, int, int] = (9, 0, 6), **fields: object) -> AmdgpuCore:
    dump = AmdgpuCore(version=version, **fields)  # type: ignore[arg-type]
    dump.load(CODE, BASE, uri="file:///nowhere/shade.co")
    return dump


def vectors(version: tuple[int, int, int], number: int = 0, *, wave32: bool = False) -> dict[str, list[list[int]]]:
    """The fewest vector registers that a wave has, each lane's content different from all others."""
    registers = range(8 if wave32 else 4)
    held = [[number * 10000 + register * 100 + lane for lane in range(32)] for register in registers]
    return {"vector": held, "accumulators": [[7]] * 4 if version in WITH_ACCUMULATORS else []}


@pytest.mark.parametrize(("version", "wave32"), WIDTHS)
def test_waves_of_every_generation(version: tuple[int, int, int], wave32: bool) -> None:
    """Three waves, of which the second is not the first of its group and so has no local memory of its own."""
    dump = loaded(version)
    for number in range(3):
        dump.wave(
            pc=SHADE + 0x40 + 8 * number,
            exec=0b1011 + number,
            scalar=[number * 1000 + register for register in range(32)],
            local=0 if number == 1 else 1024 * 5,
            first=number != 1,
            wave32=wave32,
            **vectors(version, number, wave32=wave32),
        )
    found = stopped(dump)
    assert [stack.pc for stack in found.dump.stacks] == [SHADE + 0x40 + 8 * number for number in range(3)]
    assert [stack.waves[0].lanes for stack in found.dump.stacks] == [0b1011, 0b1100, 0b1101]
    for number, registers in enumerate(found.registers):
        assert registers is not None
        assert struct.unpack_from("<3I", registers.scalar) == (number * 1000, number * 1000 + 1, number * 1000 + 2)
        lane = registers.lanes[1]
        assert struct.unpack_from("<2I", registers.vector[1]) == (number * 10000 + lane, number * 10000 + 100 + lane)


@pytest.mark.parametrize("version", PARKS)
def test_where_stopped_waves_are(version: tuple[int, int, int]) -> None:
    dump = loaded(version)
    dump.wave(pc=SHADE, parked=CLEAR, **vectors(version))
    stack = only(dump)
    assert stack.pc == (CLEAR if PARKS[version] else SHADE)
    assert stack.frames[0].place is not None
    assert stack.frames[0].place.function == ("clear" if PARKS[version] else "shade")


@pytest.mark.parametrize(("runtime", "pc"), [(8, SHADE), (9, CLEAR), (10, CLEAR)])
def test_gfx11_parks_since_a_version_of_the_runtime(runtime: int, pc: int) -> None:
    dump = loaded((11, 0, 0), runtime=runtime)
    dump.wave(pc=SHADE, parked=CLEAR, vector=[[0]] * 4)
    assert only(dump).pc == pc


@pytest.mark.parametrize(
    ("trapsts", "mode", "trap", "said"),
    [
        (1 << 8, 0, 0, "address error"),
        (1 << 28 | 1 << 8, 0, 0, "memory violation"),
        (1 << 11, 0, 0, "illegal instruction"),
        (0, 0, 1, "breakpoint"),
        (0, 0, 2, "assert trap"),
        (0, 0, 3, "debug trap"),
        (0, 0, 9, "trap 9"),
        (1 << 2, 1 << 14, 0, "floating point divide by 0"),
        (1 << 6, 1 << 18, 0, "integer divide by 0"),
        (1 << 13, 1 << 19, 0, "watchpoint"),
        (1 << 2 | 1 << 13, 0, 0, None),
    ],
)
@pytest.mark.parametrize("version", [(9, 0, 6), (10, 3, 0), (11, 0, 0)])
def test_why_waves_stopped(version: tuple[int, int, int], trapsts: int, mode: int, trap: int, said: str | None) -> None:
    dump = loaded(version)
    hardware = {6: trapsts, 9 if version[0] == 9 else 8: mode}
    dump.wave(pc=SHADE, parked=SHADE, traps={6: trap << 25}, hardware=hardware, vector=[[0]] * 4)
    assert only(dump).fault == (None if said is None else CoreFault(0, "stopped", said))


@pytest.mark.parametrize(
    ("private", "user", "enabled", "said"),
    [
        (1 << 4, 0, 0, "address error"),
        (1 << 12 | 1 << 4, 0, 0, "memory violation"),
        (1 << 6, 0, 0, "illegal instruction"),
        (0, 1 << 3, 1 << 3, "floating point overflow"),
        (0, 1 << 3, 0, None),
        (1 << 2, 0, 1 << 7, "watchpoint"),
        (1 << 2, 0, 0, None),
    ],
)
def test_why_waves_of_gfx12_stopped(private: int, user: int, enabled: int, said: str | None) -> None:
    dump = loaded((12, 0, 0))
    dump.wave(pc=SHADE, parked=SHADE, hardware={6: private, 11: user, 12: enabled}, vector=[[0]] * 4)
    assert only(dump).fault == (None if said is None else CoreFault(0, "stopped", said))


def test_a_wave_that_was_executing_has_no_fault() -> None:
    dump = loaded()
    dump.wave(pc=SHADE, hardware={6: 1 << 8}, vector=[[0]] * 4)
    assert only(dump).fault is None


def test_the_dispatch_and_the_work_group() -> None:
    for version, traps in (
        ((9, 0, 6), {6: 5, 8: 1, 9: 2, 10: 3}),
        ((9, 4, 2), {11: 5 << 6, 8: 1, 9: 2, 10: 3}),
        ((12, 0, 0), {8: 5 | 1 << 30, 9: 1, 7: 2 | 3 << 16}),
    ):
        dump = loaded(version)
        dump.wave(pc=SHADE, traps=traps, **vectors(version))
        stack = only(dump)
        assert (stack.grid, stack.waves[0].block) == (5, (1, 2, 3)), version


def test_one_dimension_in_gfx12() -> None:
    dump = loaded((12, 0, 0))
    dump.wave(pc=SHADE, traps={8: 5, 9: 4, 7: 2 | 3 << 16}, vector=[[0]] * 4)
    assert only(dump).waves[0].block == (4, 0, 0)


@pytest.mark.parametrize("fields", [{"group_ids": False}, {"group_ids": True}])
def test_waves_that_do_not_know_their_group(fields: dict[str, object]) -> None:
    dump = loaded(**fields)  # type: ignore[arg-type]
    dump.wave(pc=SHADE, traps={6: 5 | (1 << 31 if fields["group_ids"] else 0), 8: 1}, vector=[[0]] * 4)
    stack = only(dump)
    assert (stack.grid, stack.waves[0].block, stack.kernel) == (None, None, "shade")


def test_the_kernel_is_the_dispatchs() -> None:
    """The wave is in one function; what was launched is told by its packet."""
    image = containers.unpack(CODE).objects[0]
    descriptor = next(each for each in image.sections if each.name == ".rodata").address + BASE
    dump = loaded()
    dump.dispatch(66, descriptor)
    dump.wave(pc=CLEAR, traps={6: 66}, vector=[[0]] * 4)
    stack = only(dump)
    assert (stack.kernel, stack.frames[0].place and stack.frames[0].place.function) == ("shade", "clear")
    dump.packets[66] = bytes(64)
    assert only(dump).kernel == "clear"


def test_equal_waves_are_one_stack() -> None:
    dump = loaded(xccs=2)
    for number in range(4):
        dump.wave(pc=SHADE + 0x10 * (number == 3), exec=number + 1, traps={6: 1, 8: number}, vector=[[0]] * 4)
    first, second = stopped(dump).dump.stacks
    assert [(wave.unit, wave.wave, wave.lanes, wave.block) for wave in first.waves] == [
        (xcc, number, number + 1, (number, 0, 0)) for xcc in range(2) for number in range(3)
    ]
    assert [(wave.unit, wave.wave) for wave in second.waves] == [(0, 3), (1, 3)]


def test_what_the_dump_says_of_itself() -> None:
    dump = loaded(exceptions=1 << 4 | 1 << 1)
    found = stopped(dump).dump
    assert found.format == "amdgpu-core"
    assert found.facts == {"kfd": "1.13", "queues": 1, "runtime_protocol": 9}
    assert [tuple(device) for device in found.devices] == [(0x1234, "", "gfx906")]
    assert found.notes == ("queue 7 of device 4660: wave trap, wave memory violation",)
    assert [(image.name, image.path) for image in found.images] == [("file:///nowhere/shade.co", "object0")]


def test_code_objects_of_a_gpu_core_are_found_in_memory() -> None:
    dump = loaded(list_code=False)
    dump.wave(pc=SHADE, vector=[[0]] * 4)
    found = stopped(dump).dump
    assert [image.name for image in found.images] == [f"loaded at {BASE:#x}"]
    assert found.stacks[0].kernel == "shade"


@pytest.mark.parametrize("form", ["memory://1#offset={}&size={}", "memory://1?offset={:#x}&size={:#x}"])
def test_a_file_in_memory_is_read_from_there(form: str) -> None:
    dump = AmdgpuCore(host=True)
    dump.load(CODE, BASE, uri=form.format(0x5555_0000_0000, len(CODE)))
    dump.memory.append((0x5555_0000_0000, CODE))
    data = dump.build()
    (code,) = containers.unpack(data).objects
    assert code.data == CODE
    dump.memory[-1] = (0x5555_0000_0000, CODE[:-8])
    (code,) = containers.unpack(dump.build()).objects
    assert (code.debug.value, [kernel.name for kernel in code.kernels]) == ("none", ["shade", "clear"])


def test_a_code_object_that_is_not_in_the_dump() -> None:
    dump = AmdgpuCore()
    dump.load(CODE, BASE, uri="file:///tmp/shade.co#offset=64&size=128")
    dump.memory.clear()
    dump.wave(pc=SHADE, vector=[[0]] * 4)
    found = stopped(dump).dump
    assert (found.images[0].path, found.images[0].notes) == (None, ("its code is not in the dump: give its file",))
    assert found.stacks[0].frames[0].place is None


def test_a_host_core_without_amds_note_is_no_dump() -> None:
    with pytest.raises(SymdError):
        read(build_elf(machine=62, type=4), Budget(Limits()))


def test_an_architecture_that_is_not_known() -> None:
    dump = loaded((12, 5, 0))
    dump.wave(pc=SHADE, vector=[[0]] * 4)
    found = stopped(dump).dump
    assert found.stacks == ()
    assert found.notes == ("how gfx1250 saves waves is not known; queue 7 is left out",)


def _patched(data: bytes, address: int, content: bytes) -> bytes:
    """The dump with other bytes at an address of its memory."""
    count = struct.unpack_from("<H", data, 56)[0]
    for number in range(count):
        kind, _, offset, start, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * number)
        if kind == 1 and start <= address < start + size:
            at = offset + address - start
            return data[:at] + content + data[at + len(content) :]
    raise AssertionError(hex(address))


@pytest.mark.parametrize(
    ("at", "content"),
    [
        (AREA, b"\xff" * 16),
        (AREA + 4, struct.pack("<I", 13)),
        (AREA + 72, b"\x3f\0\0\x80"),
        (AREA + 72, b"\xff\xff\xff\xbf"),
    ],
)
def test_an_area_that_contradicts_itself_is_left_out(at: int, content: bytes) -> None:
    dump = loaded()
    dump.wave(pc=SHADE, vector=[[0]] * 4)
    found = read(_patched(dump.build(), at, content), Budget(Limits())).dump
    assert found.stacks == ()
    assert "further waves of queue 7 are left out" in found.notes[0]


def test_a_dump_without_its_note_or_with_a_bad_one() -> None:
    data = loaded().build()
    note = struct.unpack_from("<Q", data, 64 + 8)[0]
    for changed, said in (
        (data[: note + 8] + struct.pack("<I", 34) + data[note + 12 :], "no note"),
        (data[: note + 20] + struct.pack("<Q", 2) + data[note + 28 :], "version 2"),
        (data[: note + 44] + b"\xff\xff\xff\x7f" + data[note + 48 :], "leave it"),
        (data[: note + 48] + struct.pack("<I", 8) + data[note + 52 :], "leave it"),
    ):
        with pytest.raises(Malformed, match=said):
            read(changed, Budget(Limits()))


def test_a_list_of_code_objects_without_end() -> None:
    dump = loaded()
    data = _patched(dump.build(), 0x5200_0000_0000 + 64 + 24, struct.pack("<Q", 0x5200_0000_0000 + 64))
    assert len(read(data, Budget(Limits())).dump.images) == 1


def test_an_image_that_claims_more_than_the_dump_holds() -> None:
    for offset in (8, 32):
        changed = bytearray(CODE)
        table = struct.unpack_from("<Q", changed, 32)[0]
        for number in range(struct.unpack_from("<H", changed, 56)[0]):
            if struct.unpack_from("<I", changed, table + 56 * number)[0] == 1:
                struct.pack_into("<Q", changed, table + 56 * number + offset, 1 << 60)
        dump = loaded()
        dump.memory[0] = (BASE, bytes(changed))
        assert stopped(dump).dump.images[0].path is None


def test_segments_that_leave_the_file_or_overlap_without_end() -> None:
    """Memory is what the file has of it, whatever program headers claim."""
    data = bytearray(loaded(list_code=False).build())
    count = struct.unpack_from("<H", data, 56)[0]
    struct.pack_into("<Q", data, 64 + 56 * (count - 1) + 32, 1 << 60)
    assert len(read(bytes(data), Budget(Limits())).dump.images) == 1
    dump = loaded()
    dump.memory *= 16
    data = bytearray(dump.build())
    for number in range(1, struct.unpack_from("<H", data, 56)[0]):
        struct.pack_into("<QQQQ", data, 64 + 56 * number + 8, 0, 0, 0, len(data))
    with pytest.raises(Malformed, match="overlap"):
        read(bytes(data), Budget(Limits()))


def test_bounds_on_waves_and_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = loaded()
    for number in range(4):
        dump.wave(pc=SHADE + 8 * number, vector=[[0]] * 4)
    for name in ("core_stacks", "core_waves", "core_frames"):
        with monkeypatch.context() as patch:
            patch.setitem(budget.BOUNDS, name, (4, budget.BOUNDS[name][1]))
            assert len(stopped(dump).dump.stacks) == 4
            patch.setitem(budget.BOUNDS, name, (3, budget.BOUNDS[name][1]))
            with pytest.raises(LimitExceeded) as caught:
                stopped(dump)
        assert caught.value.metadata == {"limit": name, "value": "3"}


def test_the_bound_on_waves_is_one_of_the_whole_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = loaded((9, 4, 2), xccs=3)
    for _ in range(2):
        dump.wave(pc=SHADE, vector=[[0]] * 4, accumulators=[[0]] * 4)
    monkeypatch.setitem(budget.BOUNDS, "core_waves", (6, budget.BOUNDS["core_waves"][1]))
    assert sum(len(stack.waves) for stack in stopped(dump).dump.stacks) == 6
    monkeypatch.setitem(budget.BOUNDS, "core_waves", (5, budget.BOUNDS["core_waves"][1]))
    with pytest.raises(LimitExceeded) as caught:
        stopped(dump)
    assert caught.value.metadata == {"limit": "core_waves", "value": "5"}


def test_compute_dies_without_waves_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump of a few KB that claims four thousand million of them, all in one place."""
    dump = loaded()
    data = bytearray(dump.build())
    queue = struct.pack("<6I", dump.queue_id, dump.gpu_id, dump.ring_size, 2, dump._areas()[0], 0)
    struct.pack_into("<I", data, data.index(queue) + 16, 0)
    agent = struct.pack("<8I", 90006, 240, 10, 4, 1, dump.xccs, 0x2000_8000, 0x400)
    struct.pack_into("<I", data, data.index(agent) + 20, 0xFFFF_FFFF)
    monkeypatch.setitem(budget.BOUNDS, "core_waves", (1000, budget.BOUNDS["core_waves"][1]))
    with pytest.raises(LimitExceeded) as caught:
        read(bytes(data), Budget(Limits()))
    assert caught.value.metadata["limit"] == "core_waves"


def test_an_area_that_many_compute_dies_claim_is_not_read_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be most of the dump, and there may be four thousand million of them."""
    dump = loaded(xccs=0xFFFF_FFFF, list_code=False)
    for number in range(200):
        dump.wave(pc=SHADE + 8 * number, vector=[[0]] * 4)
    one = replace(dump, xccs=1)
    dump._areas = lambda: (0, one._areas()[1])  # type: ignore[method-assign]
    monkeypatch.setitem(budget.BOUNDS, "core_waves", (10_000, budget.BOUNDS["core_waves"][1]))
    found = stopped(dump).dump
    assert sum(len(stack.waves) for stack in found.stacks) < 200 * 20
    assert any("overlap so much" in note for note in found.notes)


def test_a_dump_of_another_machine_is_not_claimed(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        containers.unpack(build_elf(machine=190, type=4))
    assert RING
