"""Callers of AMD's waves: compared with what a wave did that executed the code instruction by instruction, and by hand where
registers, memory or call frame information are missing or damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.cores.amd_callers import MAX_CALLERS, MAX_NESTED, FrameRegisters
from symd.cores.frame_expressions import NotInDump
from symd.cores.read import read
from symd.debuginfo.dwarf.call_frames import FrameAddress, FrameRow, RegisterRule, RuleKind
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.formats import budget, containers
from symd.formats.budget import Budget
from symd.model.cores import CoreStack
from symd.store import Store
from tests.builders.amdgpu_core import AmdgpuCore
from tests.builders.call_frames import CallFrameSection, Function
from tests.cores.amd_machine import Machine, disassembled
from tests.fuzz.cores import NO_MEMORY, WAVE

SAMPLES = Path(__file__).parents[2] / "samples" / "amdgpu" / "bin"
GFX900 = SAMPLES / "v6-gfx900-calls.co"
PROBE, FOLDED, SQUARED = 0x1800, 0x1640, 0x1600
BASE, FILE = 0x7F12_0000_0000, 0x5555_0000_0000
SLOT = (2, 1)
PROLOGUE = (0x164C, 0x1650, 0x1658, 0x165C)
"""The frame pointer is the callee's already, and LLVM's rows say so from 0x1664 on."""
EPILOGUE = (0x1734, 0x1738, 0x1740, 0x1744, 0x1748, 0x174C)
"""From 0x1740 on v41 is the caller's again, and LLVM's rows still look there for the address to return to."""


def with_code(dump: AmdgpuCore, path: Path) -> AmdgpuCore:
    """The code loaded, and its file in the program's memory."""
    code = path.read_bytes()
    dump.load(code, BASE, uri=f"memory://1#offset={FILE:#x}&size={len(code)}")
    dump.memory.append((FILE, code))
    return dump


def dump_of(machine: Machine) -> AmdgpuCore:
    dump = AmdgpuCore(version=(9, 0, 0))
    with_code(dump, GFX900)
    dump.wave(
        pc=BASE + machine.pc,
        exec=machine.exec,
        scalar=machine.scalar,
        vector=machine.vector,
        slot=SLOT,
    )
    dump.private_wave(SLOT, 0, bytes(machine.scratch))
    return dump


def stack_of(dump: AmdgpuCore, frames: dict[int, bytes] | None = None) -> CoreStack:
    (stack,) = read(dump.build(), Budget(Limits()), frames).dump.stacks
    return stack


def callers(stack: CoreStack) -> list[int]:
    return [frame.address for frame in stack.frames[1:]]


@pytest.mark.parametrize("exec_mask", [(1 << 64) - 1, 0x0F0F_1234_5678_00F1])
def test_at_every_instruction(exec_mask: int) -> None:
    """Return addresses in registers, in lanes, and in memory for the outer calls of a function that calls itself."""
    machine = Machine(GFX900, PROBE, exec_mask=exec_mask, count=3)
    deepest, unknown = 0, {}
    for _ in machine.run(BASE):
        stack, true = stack_of(dump_of(machine)), machine.calls[::-1]
        deepest = max(deepest, len(true))
        assert callers(stack) == true[: len(callers(stack))], hex(machine.pc)
        if callers(stack) != true:
            unknown[machine.pc] = len(true) - len(callers(stack)), *stack.notes
        else:
            assert stack.notes == ()
    assert deepest == 4
    assert sorted(unknown) == [*PROLOGUE, *EPILOGUE]
    assert all("contradicts itself" in unknown[pc][1] for pc in PROLOGUE)
    assert all("was about to return" in unknown[pc][1] for pc in EPILOGUE)


@pytest.mark.parametrize("count", [2, 6])
def test_calls_of_a_gpu_core_by_a_module_that_has_their_frames(count: int) -> None:
    """What was loaded has no call frame information; somebody who kept the file has."""
    machine = Machine(GFX900, PROBE, exec_mask=0xFF, count=count)
    for _ in machine.run(BASE):
        if len(machine.calls) == count + 1:
            break
    dump = dump_of(machine)
    dump.list_code = False
    dump.memory = dump.memory[:1]
    bare = stack_of(dump)
    assert callers(bare) == []
    assert bare.notes == ("callers unknown: no call frame information of the code at 0x7f1200001600",)
    code = containers.unpack(GFX900.read_bytes()).objects[0].section(".debug_frame")
    assert code is not None
    helped = stack_of(dump, {0: code.data})
    assert callers(helped) == machine.calls[::-1]
    assert (helped.kernel, helped.notes) == ("_Z5probePfPKfi", ())


def at_depth(path: Path = GFX900, depth: int = 3) -> Machine:
    """In the function without a frame of its own, so many calls deep."""
    machine = Machine(path, PROBE, exec_mask=0xFF, count=4)
    for _ in machine.run(BASE):
        if len(machine.calls) == depth and machine.pc == SQUARED + 8:
            return machine
    raise AssertionError


def test_lines_of_callers() -> None:
    with Engine(Store.temporary(Limits())) as engine:
        dump = engine.core(engine.add(dump_of(at_depth()).build()).sha256)
    (stack,) = dump.stacks
    lines = [[(each.function, each.line) for each in frame.frames] for frame in stack.frames]
    assert lines == [[("squared", 8)], [("folded", 14)], [("folded", 17)], [("probe", 23)]]
    assert (stack.kernel, stack.notes) == ("_Z5probePfPKfi", ())


def test_a_module_tells_the_callers_of_a_gpu_core() -> None:
    dump = dump_of(at_depth())
    dump.list_code = False
    dump.memory = dump.memory[:1]
    with Engine(Store.temporary(Limits())) as engine:
        digest = engine.add(dump.build()).sha256
        (alone,) = engine.core(digest).stacks
        (helped,) = engine.core(digest, [engine.add(GFX900.read_bytes()).sha256]).stacks
    assert (len(alone.frames), len(helped.frames)) == (1, 4)
    assert [frame.frames[0].line for frame in helped.frames] == [8, 14, 17, 23]


def test_code_without_rules_says_so() -> None:
    dump = AmdgpuCore(version=(9, 0, 0))
    with_code(dump, SAMPLES / "v6-gfx900-calls-unknown.co")
    dump.wave(pc=BASE + SQUARED, vector=[[0]] * 4)
    dump.wave(pc=BASE + 0x1800, vector=[[0]] * 4)
    function, kernel = read(dump.build(), Budget(Limits())).dump.stacks
    assert function.frames[0].place is not None
    assert function.notes == (
        f"callers unknown: the call frame information of {function.frames[0].place.function} does not say where its caller is",
    )
    assert (kernel.kernel, kernel.notes) == ("_Z5probePfPKfi", ())


def test_waves_with_other_callers_are_other_stacks() -> None:
    dump = AmdgpuCore(version=(9, 0, 0))
    with_code(dump, GFX900)
    for back in (0x16A4, 0x16A4, 0x16EC):
        machine = at_depth(depth=2)
        machine.scalar[30] = BASE + back & 0xFFFF_FFFF
        dump.wave(pc=BASE + machine.pc, exec=1, scalar=machine.scalar, vector=machine.vector, slot=SLOT)
    stacks = read(dump.build(), Budget(Limits())).dump.stacks
    assert sorted(len(stack.waves) for stack in stacks) == [1, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scalar": [0] * 96}, "leads to 0x0, which is behind no call"),
        ({"scalar": [0] * 16}, "needs s32, which was not saved"),
        ({"scalar": [0xFFFF_FFFF] * 96}, "behind no call"),
    ],
)
def test_registers_that_lead_nowhere(change: dict[str, list[int]], said: str) -> None:
    dump = AmdgpuCore(version=(9, 0, 0))
    with_code(dump, GFX900)
    dump.wave(pc=BASE + SQUARED, vector=[[0]] * 4, **change)  # type: ignore[arg-type]
    stack = stack_of(dump)
    assert callers(stack) == []
    assert said in stack.notes[0]


@pytest.mark.parametrize(("slot", "written"), [(None, True), (SLOT, False)])
def test_private_memory_that_is_not_there(slot: tuple[int, int] | None, written: bool) -> None:
    """The first two callers are told by registers, the next by memory."""
    machine = at_depth(depth=4)
    dump = AmdgpuCore(version=(9, 0, 0))
    with_code(dump, GFX900)
    dump.wave(pc=BASE + machine.pc, exec=machine.exec, scalar=machine.scalar, vector=machine.vector, slot=slot)
    if written:
        dump.private_wave(SLOT, 0, bytes(machine.scratch))
    stack = stack_of(dump)
    assert callers(stack) == machine.calls[::-1][:2]
    assert "private wave memory" in stack.notes[0]


def test_frames_of_processors_whose_stack_pointer_counts_one_lane() -> None:
    """gfx1100, 32 lanes. Read off the code of folded: it stores the v41 of its caller at s33 + 24 of each lane, and leaves in lanes 5 and
    6 of its own the address to return to, in lane 7 the caller's s33."""
    path = SAMPLES / "v6-gfx1100-calls-O0.co"
    of_squared, of_folded, of_probe = (
        BASE + address + 4 for address, (name, _) in sorted(disassembled(path).items()) if name == "s_swappc_b64"
    )
    first, second = 48, 80
    """The frame pointers of the two calls of folded."""
    dump = AmdgpuCore(version=(11, 0, 0))
    with_code(dump, path)
    scalar, vector = [0] * 106, [[0] * 32 for _ in range(48)]
    scalar[30:34] = of_squared & 0xFFFF_FFFF, of_squared >> 32, second + 32, second
    vector[41][5:8] = of_folded & 0xFFFF_FFFF, of_folded >> 32, first
    dump.wave(pc=BASE + 0x1A00, exec=1, scalar=scalar, vector=vector, wave32=True, slot=SLOT)
    outer = {5: of_probe & 0xFFFF_FFFF, 6: of_probe >> 32, 7: 0}
    for lane, value in outer.items():
        dump.private(SLOT, lane, second + 24, struct.pack("<I", value), lanes=32)
    stack = stack_of(dump)
    assert (callers(stack), stack.notes) == ([of_squared, of_folded, of_probe], ())


def as_when_called(number: int) -> RegisterRule:
    """A rule that asks for what another register, or the same, was when the function was called."""
    return RegisterRule(RuleKind.VALUE_EXPRESSION, expression=bytes([0xE9, 0x07, number]))


CFA_IN_S63 = FrameAddress(95)


def caller_of(callee: FrameRegisters, rules: dict[int, RegisterRule], cfa: FrameAddress = CFA_IN_S63) -> FrameRegisters:
    return FrameRegisters(WAVE, NO_MEMORY, callee, FrameRow(0, 1, cfa, rules, 16))


@pytest.mark.parametrize("rules", [{32: as_when_called(32)}, {32: as_when_called(33), 33: as_when_called(32)}])
def test_a_register_whose_rule_asks_for_itself_is_not_known(rules: dict[int, RegisterRule]) -> None:
    caller = caller_of(FrameRegisters(WAVE, NO_MEMORY), rules)
    for _ in range(2):
        with pytest.raises(NotInDump, match="register 32, whose rule asks for itself"):
            caller.register(32)


def test_a_frame_address_that_needs_a_register_that_needs_it_is_not_known() -> None:
    cfa = FrameAddress(expression=bytes([0xE9, 0x07, 32]))
    caller = caller_of(FrameRegisters(WAVE, NO_MEMORY), {32: RegisterRule(RuleKind.OFFSET, 8)}, cfa)
    with pytest.raises(NotInDump, match="asks for itself"):
        caller.register(32)


def test_registers_that_ask_for_each_other_in_a_long_row_are_not_known() -> None:
    """In one call, and through many."""
    frame = FrameRegisters(WAVE, NO_MEMORY)
    in_one = caller_of(frame, {number: as_when_called(number + 1) for number in range(32, 95)})
    with pytest.raises(NotInDump, match=f"more than {MAX_NESTED} registers"):
        in_one.register(32)
    assert in_one.register(90) == frame.register(95)
    for _ in range(MAX_CALLERS):
        frame = caller_of(frame, {32: RegisterRule(RuleKind.VALUE_EXPRESSION, expression=bytes([0x92, 32, 0]))})
        assert frame.frame_address.address == 0
    with pytest.raises(NotInDump, match=f"more than {MAX_NESTED} registers"):
        frame.register(32)


@pytest.mark.parametrize("entry", ["function", "empty", "damaged"])
def test_entries_of_call_frame_information_are_counted(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that say nothing: each takes a few bytes and as long as one that does."""
    entries = {
        "function": CallFrameSection([Function(0x1600, 4)] * 19).build(),
        "empty": struct.pack("<IQ", 0xFFFFFFFF, 0) * 20,
        "damaged": struct.pack("<IB", 1, 0) * 20,
    }
    dump = dump_of(Machine(GFX900, PROBE, exec_mask=1, count=3)).build()
    monkeypatch.setitem(budget.BOUNDS, "core_call_frames", (20, budget.BOUNDS["core_call_frames"][1]))
    assert read(dump, Budget(Limits()), {0: entries[entry]}).dump.stacks
    monkeypatch.setitem(budget.BOUNDS, "core_call_frames", (19, budget.BOUNDS["core_call_frames"][1]))
    with pytest.raises(LimitExceeded) as caught:
        read(dump, Budget(Limits()), {0: entries[entry]})
    assert caught.value.metadata == {"limit": "core_call_frames", "value": "19"}
