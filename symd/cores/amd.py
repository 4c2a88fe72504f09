"""Core dumps of ROCm programs: which waves were where. Waves of one dispatch that are at the same place for the same
reason are one stack."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np

from symd.cores import (
    MAX_REGISTER_BYTES,
    DumpedCode,
    LoadedImage,
    LoadedText,
    StoppedCore,
    WaveMemory,
    WaveRegisters,
    amd_waves,
    call_frame_section,
    functions_of,
    identity_of,
)
from symd.cores.amd_callers import CallerFinder, Callers, CodeFrames, instructions_of
from symd.cores.amd_waves import SavedWave
from symd.debuginfo.dwarf.call_frames import CallFrames
from symd.errors import LimitExceeded, SymdError
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu, amdgpu_core, core_state
from symd.formats.containers.amd.core_state import Agent, LoadedObject, Queue
from symd.formats.containers.format import Element
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.cores import CoreDevice, CoreDump, CoreFault, CoreFrame, CoreImage, CoreStack, CoreWave

_PACKET_BYTES = 64
_DISPATCH = 2
"""The type of a packet that launches a kernel, in the low byte of its header."""
_EXCEPTIONS = {
    1: "wave abort",
    2: "wave trap",
    3: "wave math error",
    4: "wave illegal instruction",
    5: "wave memory violation",
    6: "wave aperture violation",
    16: "dispatch with an invalid dimension",
    17: "dispatch with an invalid group segment size",
    18: "dispatch with invalid code",
    19: "reserved packet",
    20: "unsupported packet",
    21: "dispatch with an invalid work-group size",
    22: "dispatch with invalid registers",
    23: "unsupported vendor packet",
    30: "preemption error",
}
"""What KFD says of a queue: bit n - 1 is exception n."""


def read(data: bytes, budget: Budget, frames: Mapping[int, bytes] | None = None) -> StoppedCore:
    """``frames`` is call frame information (``.debug_frame``) that somebody else has of the code, by the number of the
    image. Raises Malformed where the state of the devices cannot be read, LimitExceeded."""
    return _RocmDump(data, budget, frames or {}).core()


class _Key(NamedTuple):
    """What equal waves have in common."""

    gpu: int
    queue: int
    packet: int | None
    pc: int
    reasons: tuple[str, ...]
    callers: Callers


class _RocmDump:
    """A core file, and what is found out about its waves, code and callers when somebody asks for it. ``_notes`` say
    what is left out."""

    def __init__(self, data: bytes, budget: Budget, frames: Mapping[int, bytes]) -> None:
        self._core = core_state.Core(data, budget)
        self._budget = budget
        self._given_frames = frames
        self._code_frames: dict[int, CodeFrames] = {}
        self._notes: list[str] = []
        self._register_bytes = 0
        self._area_budget = amd_waves.AreaBudget(self._core.memory)
        self._runtime = core_state.runtime_version(self._core.memory, self._core.state)

    def core(self) -> StoppedCore:
        state = self._core.state
        images = self._images
        stacks = sorted(self._stacks(), key=lambda each: (each[0].fault is None, each[0].device, each[0].pc))
        facts: dict[str, str | int] = {"kfd": f"{state.kfd[0]}.{state.kfd[1]}", "queues": len(state.queues)}
        if self._runtime is not None:
            facts["runtime_protocol"] = self._runtime
        dump = CoreDump(
            amdgpu_core.NAME,
            facts,
            tuple(CoreDevice(each.gpu_id, "", _target(each)) for each in state.agents),
            tuple(each.image for each in images),
            tuple(stack for stack, _ in stacks),
            (*self._core.notes, *self._notes),
        )
        return StoppedCore(dump, tuple(each for _, each in stacks), tuple(each.identity for each in images))

    @cached_property
    def _images(self) -> list[LoadedImage]:
        named = self._core.objects(self._budget)
        return [self._placed(number, name, loaded) for number, (name, loaded) in enumerate(named)]

    def _placed(self, number: int, name: str, loaded: LoadedObject) -> LoadedImage:
        if loaded.data is None:
            notes = ("its code is not in the dump: give its file",)
            return LoadedImage(CoreImage(loaded.name, None, (), None, notes=notes))
        try:
            code = amdgpu.read(Element(name, loaded.data), self._budget).code_object
        except LimitExceeded:
            raise
        except SymdError as error:
            return LoadedImage(CoreImage(loaded.name, None, (), None, notes=(str(error),)))
        if code is None:
            return LoadedImage(CoreImage(loaded.name, None, (), None))
        self._code_frames[number] = self._frames_of(number, code, loaded.bias)
        texts = tuple(_texts(number, code, loaded.bias))
        ranges = tuple(sorted((text.start, text.end) for text in texts))
        return LoadedImage(
            CoreImage(loaded.name, code.target, ranges, name, bias=loaded.bias), texts, identity_of(code)
        )

    def _frames_of(self, number: int, code: CodeObject, bias: int) -> CodeFrames:
        content = self._given_frames.get(number) or call_frame_section(code)
        kernels = frozenset(kernel.name for kernel in code.kernels)
        frames = CallFrames(content, count=partial(self._budget.count, "core_call_frames", 1)) if content else None
        return CodeFrames(bias, frames, kernels)

    @cached_property
    def _code(self) -> DumpedCode:
        return DumpedCode(text for each in self._images for text in each.texts)

    def _stacks(self) -> Iterator[tuple[CoreStack, WaveRegisters | None]]:
        agents = {agent.gpu_id: agent for agent in self._core.state.agents}
        for queue in self._core.state.queues:
            agent = agents.get(queue.gpu_id)
            said = [text for number, text in _EXCEPTIONS.items() if queue.exceptions >> number - 1 & 1]
            if said:
                self._notes.append(f"queue {queue.queue_id} of device {queue.gpu_id}: {', '.join(said)}")
            if agent is not None:
                yield from self._stacks_of(queue, agent)

    def _stacks_of(self, queue: Queue, agent: Agent) -> Iterator[tuple[CoreStack, WaveRegisters | None]]:
        if not queue.save_area:
            return
        if not amd_waves.is_known(agent):
            self._notes.append(f"how {_target(agent)} saves waves is not known; queue {queue.queue_id} is left out")
            return
        alike: dict[_Key, list[SavedWave]] = {}
        scratch = amd_waves.scratch_of(queue, self._core.memory)
        calls = instructions_of(agent.version)
        try:
            for wave in amd_waves.saved_waves(
                self._core.memory, self._core.state, queue, agent, self._runtime, self._budget, self._area_budget
            ):
                told = tuple(amd_waves.reasons(wave, agent.version))
                memory = amd_waves.memory_of(wave, agent, scratch)
                callers = self._finder.callers(wave, amd_waves.WaveReader(self._core.memory, memory), calls)
                key = _Key(agent.gpu_id, queue.queue_id, wave.packet, wave.pc, told, callers)
                if key in alike:
                    alike[key].append(wave._replace(hardware=(), traps=(), scalar=b"", vector=b""))
                else:
                    alike[key] = [wave]
                    self._budget.count("core_stacks")
        except LimitExceeded:
            raise
        except SymdError as error:
            self._notes.append(f"{error}; further waves of queue {queue.queue_id} are left out")
        for key, waves in alike.items():
            memory = amd_waves.memory_of(waves[0], agent, scratch)
            yield self._stack(key, waves, queue), self._registers(waves[0], memory)

    @cached_property
    def _finder(self) -> CallerFinder:
        return CallerFinder(self._code, self._code_frames, self._core.memory)

    def _stack(self, key: _Key, waves: Sequence[SavedWave], queue: Queue) -> CoreStack:
        frames = (
            self._frame("pc", key.pc, key.pc),
            *(self._frame("return", at, at - 1) for at in key.callers.addresses),
        )
        self._budget.count("core_frames", len(frames))
        outermost = frames[-1].place
        kernel = self._kernel(key.packet, queue) or (outermost.function if outermost else "")
        fault = CoreFault(0, "stopped", ", ".join(key.reasons)) if key.reasons else None
        return CoreStack(
            device=key.gpu,
            grid=key.packet,
            kernel=kernel or None,
            fault=fault,
            active=True,
            pc=key.pc,
            error_pc=None,
            frames=frames,
            waves=tuple(CoreWave(wave.xcc, wave.number, wave.group, wave.exec, None) for wave in waves),
            notes=tuple(_unknown_callers(key.callers)),
        )

    def _frame(self, kind: Literal["pc", "return"], address: int, at: int) -> CoreFrame:
        """A call, whose code is ``at``."""
        place = self._code.place(at)
        return CoreFrame(kind, address, place, Reason.OUTSIDE_TEXT if place is None else Reason.NO_DEBUG_INFO)

    def _kernel(self, packet: int | None, queue: Queue) -> str:
        """The name of the kernel that a dispatch launched, where its packet is in the dump."""
        if packet is None or not queue.ring_size:
            return ""
        memory = self._core.memory
        found = memory.read(queue.ring + packet * _PACKET_BYTES % queue.ring_size, _PACKET_BYTES)
        if len(found) < _PACKET_BYTES or found[0] != _DISPATCH:
            return ""
        (descriptor,) = struct.unpack_from("<Q", found, 32)
        offset = memory.read(descriptor + 16, 8)
        if len(offset) < 8:
            return ""
        place = self._code.place(descriptor + int.from_bytes(offset, "little", signed=True) & (1 << 64) - 1)
        return place.function if place is not None and place.function_offset == 0 else ""

    def _registers(self, wave: SavedWave, memory: WaveMemory) -> WaveRegisters | None:
        """The registers of the executing lanes."""
        self._register_bytes += len(wave.vector) + len(wave.scalar)
        if self._register_bytes > MAX_REGISTER_BYTES:
            return None
        lanes = tuple(lane for lane in range(wave.lanes) if wave.exec >> lane & 1)
        whole = len(wave.vector) // (4 * wave.lanes) * 4 * wave.lanes
        table = np.frombuffer(wave.vector[:whole], "<u4").reshape(-1, wave.lanes)
        return WaveRegisters(lanes, tuple(table[:, lane].tobytes() for lane in lanes), (), wave.scalar, memory)


def _unknown_callers(callers: Callers) -> Iterator[str]:
    if callers.unknown:
        yield f"{'further ' if callers.addresses else ''}callers unknown: {callers.unknown}"


def _target(agent: Agent) -> str:
    """gfx90a: major and minor in decimal, the stepping in hexadecimal."""
    major, minor, stepping = agent.version
    return f"gfx{major}{minor}{stepping:x}"


def _texts(number: int, code: CodeObject, bias: int) -> Iterator[LoadedText]:
    for section in code.sections:
        start = section.address + bias
        if section.executable and section.size and start + section.size < 1 << 64:
            yield LoadedText(start, start + section.size, number, section.index, functions_of(code, section.index))
