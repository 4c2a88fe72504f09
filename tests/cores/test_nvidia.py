"""CUDA dumps built to the published structures: every field that is used, dumps of every driver branch, and damaged ones."""

from __future__ import annotations

import struct

import pytest

from symd.config import Limits
from symd.cores.read import read
from symd.errors import LimitExceeded, Malformed
from symd.formats import budget
from symd.formats.budget import Budget
from symd.model.cores import NOT_LOADED, CoreFault, CorePlace, CoreWave
from tests.builders.cuda_core import CALLS, LANES, META, REGISTERS, SMS, USER, WARPS, Table
from tests.builders.relocated_cubin import relocated
from tests.cores.dumps import BASE, CALLEE, CUBIN, KERNEL, LOADED, Dump, only, stopped

BRANCHES = (346, 400, 525, 555, 565, 570, 575, 580, 590, 615)
IN_KERNEL = CorePlace(0, 1, 0x40, "kernel", 0x40)


def test_what_one_lane_says() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b100, active=0b100)
    dump.lane(warp, number=2, pc=KERNEL + 0x40, offset=0x40, thread=(7, 8, 9), exception=6)
    stack = only(dump)
    assert (stack.device, stack.grid, stack.kernel) == (3, 9, "kernel")
    assert stack.fault == CoreFault(6, "CUDA_EXCEPTION_6", "Warp Misaligned Address")
    assert (stack.pc, stack.error_pc, stack.active) == (KERNEL + 0x40, None, True)
    assert [(frame.kind, frame.address, frame.place) for frame in stack.frames] == [("pc", KERNEL + 0x40, IN_KERNEL)]
    assert stack.waves == (CoreWave(5, 4, (1, 2, 3), 0b100, (7, 8, 9)),)


@pytest.mark.parametrize("branch", BRANCHES)
def test_rows_of_every_driver_branch(branch: int) -> None:
    dump = Dump(branch)
    warp = dump.one_warp(existing=0b1, active=0, error_pc=CALLEE + 0x20)
    calls = [(0x110, KERNEL + 0x110)]
    dump.lane(warp, pc=CALLEE + 0x30, exception=14, calls=calls)
    stack = only(dump)
    assert (stack.error_pc, stack.active, stack.kernel) == (CALLEE + 0x20, False, "kernel")
    assert [(frame.kind, frame.address) for frame in stack.frames] == [
        ("error_pc", CALLEE + 0x20),
        ("return", KERNEL + 0x110),
    ]
    assert stack.frames[1].place == CorePlace(0, 1, 0x10F, "kernel", 0x10F)


def test_what_the_dump_says_of_itself() -> None:
    dump = Dump()
    dump.metadata = (575, 12, 12, 9, 1, 1_700_000_000)
    dump.generator = "a driver"
    found = stopped(dump)
    assert found.format == "cuda-core"
    facts = {"generator": "a driver", "driver": "575.12", "cuda": "12.9", "flags": 1, "time": 1_700_000_000}
    assert found.facts == facts
    assert [tuple(device) for device in found.devices] == [(3, "Some GPU", "sm_86")]
    (image,) = found.images
    assert (image.name, image.target, image.path) == ("device0.module0 (handle 0x77)", "sm_90", "device0.module0")
    assert image.text == ((KERNEL, KERNEL + 0x200), (CALLEE, CALLEE + 0x100))
    dump = Dump()
    dump.metadata = None
    assert stopped(dump).facts == {}


def test_equal_lanes_are_one_stack() -> None:
    dump = Dump()
    other = dump.block(dump.sm(dump.gpu, number=6), grid=9, index=(2, 2, 3))
    for block in (dump.cta, other):
        warp = dump.warp(block, number=4, existing=0b111)
        for lane in range(3):
            dump.lane(warp, number=lane, pc=KERNEL + (0x50 if lane == 1 else 0x40))
    first, second = stopped(dump).stacks
    assert [(wave.unit, wave.block, wave.lanes) for wave in first.waves] == [
        (5, (1, 2, 3), 0b101),
        (6, (2, 2, 3), 0b101),
    ]
    assert (first.pc, second.pc, [wave.lanes for wave in second.waves]) == (KERNEL + 0x40, KERNEL + 0x50, [0b10, 0b10])


@pytest.mark.parametrize(
    "change", [{"exception": 1}, {"offset": 8}, {"calls": [(1, KERNEL + 1)]}, {"pc": KERNEL + 0x41}]
)
def test_a_lane_that_differs_in_anything_has_a_stack_of_its_own(change: dict[str, object]) -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11)
    dump.lane(warp, number=0, pc=KERNEL + 0x40)
    dump.lane(warp, number=1, **{"pc": KERNEL + 0x40, **change})  # type: ignore[arg-type]
    assert sorted(stack.waves[0].lanes for stack in stopped(dump).stacks) == [0b01, 0b10]


def test_lanes_that_are_not_active_are_told_apart_and_come_later() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11, active=0b10)
    for lane in range(2):
        dump.lane(warp, number=lane, pc=KERNEL + 0x40)
    assert [(stack.active, stack.waves[0].lanes) for stack in stopped(dump).stacks] == [(True, 0b10), (False, 0b01)]


def test_lanes_that_do_not_exist_are_not_told() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b01)
    for lane in range(2):
        dump.lane(warp, number=lane, pc=KERNEL)
    assert only(dump).waves[0].lanes == 0b01


def test_calls_are_in_the_order_of_their_levels() -> None:
    dump = Dump()
    lane = dump.lane(dump.one_warp(existing=1), pc=CALLEE, calls=[(0x30, CALLEE + 0x30), (0x110, KERNEL + 0x110)])
    calls = next(table for table in dump.tables if table.kind == CALLS)
    calls.rows.reverse()
    assert lane.index == 0
    stack = only(dump)
    assert [frame.address for frame in stack.frames] == [CALLEE, CALLEE + 0x30, KERNEL + 0x110]
    assert [frame.place.function for frame in stack.frames if frame.place] == ["callee", "callee", "kernel"]


def test_a_return_address_of_zero_is_none() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=CALLEE, calls=[(0x110, KERNEL + 0x110), (0, 0)])
    assert len(only(dump).frames) == 2


def test_an_error_in_a_function_that_was_left_is_a_frame_of_its_own() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1, error_pc=CALLEE + 0x20), pc=KERNEL + 0x40, exception=14)
    stack = only(dump)
    assert [(frame.kind, frame.address) for frame in stack.frames] == [
        ("error_pc", CALLEE + 0x20),
        ("pc", KERNEL + 0x40),
    ]


def test_the_error_pc_of_a_warp_means_the_lanes_with_an_exception() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11, error_pc=KERNEL + 0x20)
    dump.lane(warp, number=0, pc=KERNEL + 0x40, exception=14)
    dump.lane(warp, number=1, pc=KERNEL + 0x40)
    first, second = stopped(dump).stacks
    assert (first.error_pc, second.error_pc) == (KERNEL + 0x20, None)
    assert second.fault is None


def test_an_exception_of_a_warp_means_the_lanes_that_were_executing() -> None:
    """Drivers say it of every lane; those that had diverged did not do it."""
    dump = Dump()
    warp = dump.one_warp(existing=0b111, active=0b010, error_pc=KERNEL + 0x20)
    for lane in range(3):
        dump.lane(warp, number=lane, pc=KERNEL + (0x30 if lane == 1 else 0x80), exception=14)
    first, second = stopped(dump).stacks
    assert (first.error_pc, first.fault and first.fault.number, first.waves[0].lanes) == (KERNEL + 0x20, 14, 0b010)
    assert (second.error_pc, second.fault, second.waves[0].lanes) == (None, None, 0b101)


def test_a_trap_means_the_lanes_that_were_executing() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11, active=0b10, broken=True)
    for lane in range(2):
        dump.lane(warp, number=lane, pc=KERNEL + 0x40)
    first, second = stopped(dump).stacks
    assert (first.fault and first.fault.name, first.waves[0].lanes) == ("SIGTRAP", 0b10)
    assert (second.fault, second.active) == (None, False)


def test_a_jump_out_of_all_code_is_one_frame() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=1, error_pc=0x123450)
    dump.lane(warp, pc=0x123460, exception=4, calls=[(0x110, KERNEL + 0x110)])
    stack = only(dump)
    assert [(frame.kind, frame.address) for frame in stack.frames] == [
        ("error_pc", 0x123450),
        ("return", KERNEL + 0x110),
    ]
    assert stack.pc == 0x123460


def test_a_return_address_that_is_broken_is_in_no_code() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=CALLEE, calls=[(0x7F00_0000_0100, KERNEL + (1 << 32))])
    assert only(dump).frames[1].place is None


def test_functions_that_were_not_loaded_are_in_no_code() -> None:
    """The driver loads a function when it is needed first."""
    dump = Dump()
    image = relocated(CUBIN, BASE + 0x1000, loaded=[".text.callee"]).data
    dump.module(dump.owner, handle=0x78, relocated=image)
    dump.module(dump.owner, handle=0x79, relocated=image, image=CUBIN)
    dump.module(dump.owner, handle=0x7A, relocated=CUBIN)
    dump.lane(dump.one_warp(existing=1), pc=BASE + 0x1000 + 0x210)
    found = stopped(dump)
    texts = [(BASE + 0x1200, BASE + 0x1300)]
    assert [list(each.text) for each in found.images[1:]] == [texts, texts, []]
    assert [each.notes for each in found.images] == [(), (), (), (NOT_LOADED,)]
    place = found.stacks[0].frames[0].place
    assert place is not None
    assert place[1:] == (2, 0x10, "callee", 0x10)


def test_metadata_without_a_size_of_rows() -> None:
    """As driver 580.159 writes it."""
    dump = Dump()
    dump.metadata = (580, 159, 13, 0, 34, 1_700_000_000)
    found = read(_with_entry_size(dump.build(), META, 0), Budget(Limits())).dump
    assert (found.facts["driver"], found.facts["cuda"], found.notes) == ("580.159", "13.0", ())


def test_sms_with_the_same_error_are_told_together() -> None:
    dump = Dump()
    for number, error_pc in ((7, CALLEE + 8), (8, CALLEE + 8), (9, CALLEE + 16)):
        dump.sm(dump.gpu, number=number, exception=14, error_pc=error_pc)
    first, second = stopped(dump).stacks
    assert first.notes == ("2 SMs report it (7, 8); the warps had ended",)
    assert second.notes == ("SM 9 reports it; its warps had ended",)


def test_the_error_pc_of_a_warp_without_exceptions_means_its_active_lanes() -> None:
    dump = Dump()
    dump.unit.table.rows[0] = struct.pack("<4IQ", 5, 0, 10, 0, 0).ljust(48, b"\0")
    warp = dump.one_warp(existing=0b11, active=0b01, error_pc=KERNEL + 0x20)
    for lane in range(2):
        dump.lane(warp, number=lane, pc=KERNEL + 0x40)
    first, second = stopped(dump).stacks
    assert (first.error_pc, first.fault and first.fault.number, first.waves[0].lanes) == (KERNEL + 0x20, 10, 0b01)
    assert (second.error_pc, second.fault) == (None, None)


def test_the_error_pc_of_the_sm_is_taken_where_the_warp_has_none() -> None:
    dump = Dump()
    dump.unit.table.rows[0] = struct.pack("<4IQ", 5, 0, 14, 1, KERNEL + 0x28).ljust(48, b"\0")
    dump.lane(dump.one_warp(existing=1), pc=KERNEL + 0x40, exception=14)
    assert only(dump).error_pc == KERNEL + 0x28


@pytest.mark.parametrize(("valid", "error_pc"), [(True, CALLEE + 8), (False, None)])
def test_the_error_of_an_sm_whose_warps_have_ended(valid: bool, error_pc: int | None) -> None:
    dump = Dump()
    dump.sm(dump.gpu, number=7, exception=9, error_pc=CALLEE + 8 if valid else None)
    dump.lane(dump.one_warp(existing=1), pc=KERNEL)
    first, second = stopped(dump).stacks
    assert (first.fault and first.fault.number, first.error_pc, first.waves) == (9, error_pc, ())
    assert first.notes == ("SM 7 reports it; its warps had ended",)
    assert [frame.place and frame.place.function for frame in first.frames] == (["callee"] if valid else [])
    assert second.fault is None


def test_a_broken_warp_without_an_exception_was_trapped() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1, broken=True), pc=KERNEL)
    fault = only(dump).fault
    assert fault is not None
    assert fault.name == "SIGTRAP"


def test_an_exception_that_is_not_known_keeps_its_number() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL, exception=4711)
    assert only(dump).fault == CoreFault(4711, "CUDA_EXCEPTION_4711", "an exception that symd does not know")


def test_two_images_of_a_module_are_one() -> None:
    dump = Dump()
    dump.module(dump.owner, handle=0x78, relocated=_moved(0x1000), image=CUBIN)
    dump.lane(dump.one_warp(existing=1), pc=BASE + 0x1000 + 0x210)
    found = stopped(dump)
    assert [image.path for image in found.images] == ["device0.module0", "device0.module1"]
    assert found.stacks[0].frames[0].place == CorePlace(1, 2, 0x10, "callee", 0x10)


def test_a_module_without_any_image_is_said() -> None:
    dump = Dump()
    dump.module(dump.owner, handle=0x79)
    dump.module(dump.owner, handle=0x80, image=CUBIN)
    _, none, unplaced = stopped(dump).images
    assert (none.path, none.text) == (None, ())
    assert unplaced.notes == ("without its relocated image its addresses are not known",)


def test_an_image_that_is_damaged_is_said() -> None:
    dump = Dump()
    dump.module(dump.owner, handle=0x79, relocated=LOADED[:100])
    _, damaged = stopped(dump).images
    assert damaged.path is None
    assert "section table" in damaged.notes[0]


def test_an_image_that_no_module_names_is_read() -> None:
    dump = Dump()
    dump.tables.append(Table(USER + 7, ".cudbg.relfimg.dev0.ctx0", None, 0, [_moved(0x1000)]))
    dump.lane(dump.one_warp(existing=1), pc=BASE + 0x1010)
    found = stopped(dump)
    assert found.images[1].path == "module1"
    assert found.stacks[0].frames[0].place == CorePlace(1, 1, 0x10, "kernel", 0x10)


def test_addresses_in_a_copy_of_the_code_are_known_in_the_kernel_by_offset() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11)
    dump.lane(warp, number=0, pc=0x5555_0000_0040, offset=0x40)
    dump.lane(warp, number=1, pc=0x5555_0000_9040, offset=0x40, calls=[(0x110, 0x5555_0000_0110)])
    places = [[frame.place for frame in stack.frames] for stack in stopped(dump).stacks]
    assert sorted(places, key=len) == [[IN_KERNEL], [None, CorePlace(0, 1, 0x10F, "kernel", 0x10F)]]


def test_an_address_in_no_code_has_no_place() -> None:
    dump = Dump()
    dump.grid(dump.gpu, number=10, entry=0)
    block = dump.block(dump.unit, grid=10)
    dump.lane(dump.warp(block, existing=1), pc=CALLEE + 0x100)
    stack = only(dump)
    assert (stack.frames[0].place, stack.frames[0].reason.name, stack.kernel) == (None, "OUTSIDE_TEXT", None)


def test_a_block_of_a_grid_that_is_not_listed() -> None:
    dump = Dump()
    block = dump.block(dump.unit, grid=1234)
    dump.lane(dump.warp(block, existing=1), pc=KERNEL)
    assert (only(dump).grid, only(dump).kernel) == (None, "kernel")


def test_registers_are_those_of_the_first_warp() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11, uniform=[5, 6])
    dump.lane(warp, number=0, pc=KERNEL, registers=[1, 2], predicates=[1, 0])
    dump.lane(warp, number=1, pc=KERNEL, registers=[3, 4], predicates=[0, 1])
    (registers,) = read(dump.build(), Budget(Limits())).registers
    assert registers is not None
    assert registers.lanes == (0, 1)
    assert registers.vector == (struct.pack("<2I", 1, 2), struct.pack("<2I", 3, 4))
    assert registers.predicates == (struct.pack("<2I", 1, 0), struct.pack("<2I", 0, 1))
    assert registers.scalar == struct.pack("<2I", 5, 6)


def test_lanes_without_registers_have_none() -> None:
    dump = Dump()
    warp = dump.one_warp(existing=0b11)
    dump.lane(warp, number=0, pc=KERNEL, registers=[1])
    dump.lane(warp, number=1, pc=KERNEL)
    assert read(dump.build(), Budget(Limits())).registers == (None,)


def test_parents_may_stand_after_their_children() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=CALLEE, calls=[(0x110, KERNEL + 0x110)], registers=[1])
    before = stopped(dump)
    dump.tables.reverse()
    dump.metadata = None
    after = read(dump.build(), Budget(Limits())).dump
    assert (after.stacks, after.images) == (before.stacks, before.images)


def test_more_sections_than_the_header_counts() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL)
    data = bytearray(dump.build())
    table, count, names = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 60))
    struct.pack_into("<Q", data, table + 32, count)
    struct.pack_into("<I", data, table + 40, names)
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    found = read(bytes(data), Budget(Limits())).dump
    assert (found.stacks, found.devices) == (stopped(dump).stacks, stopped(dump).devices)


def test_a_dump_that_was_cut_off_before_its_section_table() -> None:
    data = Dump().build()
    with pytest.raises(Malformed, match="section table"):
        read(data[: len(data) // 2], Budget(Limits()))
    with pytest.raises(Malformed, match="not written to its end"):
        read(data[:40] + bytes(8) + data[48:], Budget(Limits()))


def test_a_section_that_leaves_the_file_is_left_out() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL, registers=[1])
    data = bytearray(dump.build())
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for at in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", data, at + 4)[0] == REGISTERS:
            struct.pack_into("<Q", data, at + 24, (1 << 64) - 2)
    found = read(bytes(data), Budget(Limits()))
    assert found.registers == (None,)
    assert "1 section past" in found.dump.notes[0]


@pytest.mark.parametrize("size", [0, 8, 47, (1 << 20) + 1, 1 << 31, (1 << 64) - 1])
def test_a_table_whose_rows_cannot_have_that_size_is_left_out(size: int) -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL)
    found = read(_with_entry_size(dump.build(), LANES, size), Budget(Limits())).dump
    assert found.stacks == ()
    assert "1 lane table with rows of fewer than 48 bytes" in found.notes[0]


def test_a_lane_of_a_number_that_no_warp_has() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(), number=40, pc=KERNEL)
    found = stopped(dump)
    assert (found.stacks, found.notes) == ((), ("left out: 1 lane of no warp of a known device",))


@pytest.mark.parametrize("kind", [WARPS, LANES, SMS])
def test_tables_that_name_no_parent_or_themselves(kind: int) -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL)
    table = next(each for each in dump.tables if each.kind == kind)
    table.parent = table
    assert stopped(dump).stacks == ()
    table.parent = None
    assert stopped(dump).stacks == ()


def test_a_row_number_past_the_parents_table() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(existing=1), pc=KERNEL)
    next(each for each in dump.tables if each.kind == LANES).row = 0xFFFF_FFFF
    assert stopped(dump).stacks == ()


def test_bounds_on_rows_and_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = Dump()
    warp = dump.one_warp()
    for lane in range(8):
        dump.lane(warp, number=lane, pc=KERNEL + 16 * lane)
    monkeypatch.setitem(budget.BOUNDS, "core_stacks", (8, budget.BOUNDS["core_stacks"][1]))
    assert len(stopped(dump).stacks) == 8
    for name, value in (("core_rows", 10), ("core_frames", 7), ("core_stacks", 7)):
        with monkeypatch.context() as patch:
            patch.setitem(budget.BOUNDS, name, (value, budget.BOUNDS[name][1]))
            with pytest.raises(LimitExceeded) as caught:
                stopped(dump)
        assert caught.value.metadata == {"limit": name, "value": str(value)}


def test_sections_that_overlap_without_end_are_refused() -> None:
    data = bytearray(Dump().build())
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for at in range(table + 64, table + 64 * count, 64):
        struct.pack_into("<QQ", data, at + 24, 0, len(data))
    with pytest.raises(Malformed, match="overlap"):
        read(bytes(data), Budget(Limits()))


def _moved(by: int) -> bytes:

    return relocated(CUBIN, BASE + by).data


def _with_entry_size(data: bytes, kind: int, size: int) -> bytes:
    changed = bytearray(data)
    table, count = struct.unpack_from("<Q", changed, 40)[0], struct.unpack_from("<H", changed, 60)[0]
    for at in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", changed, at + 4)[0] == kind:
            struct.pack_into("<Q", changed, at + 56, size)
    return bytes(changed)


def test_stacks_share_the_calls_they_have_in_common() -> None:
    dump = Dump()
    warp = dump.one_warp()
    for lane in range(8):
        dump.lane(warp, number=lane, pc=KERNEL + 16 * lane, calls=[(8, KERNEL + 8), (16, KERNEL + 16)])
    stacks = stopped(dump).stacks
    assert len(stacks) == 8
    assert len({id(frame) for stack in stacks for frame in stack.frames[-2:]}) == 2
