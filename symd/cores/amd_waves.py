"""The waves of AMD's devices and their memory, from the areas in which they were saved (CWSR: compute wave save and
restore).

Each area has a control stack, whose words give the order of the saved waves and the number of registers of each. Below
its end are the waves, one after another downwards: local memory of the first wave of a work-group, trap registers,
hardware registers, scalar registers, vector registers.

Private memory of each lane is in the queue's scratch memory; local memory of a work-group was saved with its first
wave.

Sources: ROCdbgapi, ``memory.cpp`` and ``architecture.cpp`` (``control_stack_iterate``, ``register_address`` and
``scratch_memory_region`` of each generation); ``amd_hsa_queue.h``; LLVM's AMDGPU usage guide, "Address Space
Identifier".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from symd.cores import WaveMemory
from symd.errors import Malformed
from symd.formats.budget import Budget
from symd.formats.containers.amd.core_state import Agent, CoreMemory, CoreState, Queue

_AREA = struct.Struct("<4I")
_OVERLAP: Final = 8
"""All areas together may have so many times the bytes of the dump's memory."""
_EVENT, _STATE = 1 << 30, 1 << 31
_SPECIAL = 64
"""Bytes of 16 registers: the trap registers, and the hardware registers below them."""
_STOPPED, _NO_GROUP_IDS = 1 << 30, 1 << 31
"""Bits of ttmp6."""
_PARKED_GFX11_SINCE = 9
"""The version of the runtime's protocol from which on stopped waves of gfx11 are parked, their PC in trap registers."""
_YZ_VALID = 1 << 30
"""A bit of ttmp8 in gfx12: the work-group has more than one dimension."""


class SavedWave(NamedTuple):
    """A wave as it was saved."""

    xcc: int
    """The compute die that it was on."""
    number: int
    """How many waves were saved before it on that die."""
    lanes: int
    """The width of the wave: 32 or 64 lanes."""
    pc: int
    """The device address of the instruction that it was to execute next."""
    exec: int
    """The register EXEC: bit n is set where lane n was executing."""
    stopped: bool
    """Whether the trap handler had stopped it: at a fault, a breakpoint or a trap, or because a debugger asked for
    that."""
    packet: int | None
    """The number of the packet that launched it, counted from the queue's first one; None where trap registers do not
    tell."""
    group: tuple[int, int, int] | None
    """The index of its work-group (x, y, z); None where trap registers do not tell."""
    position: int | None
    """Which wave of its work-group it is, from 0 on; None where trap registers do not tell."""
    hardware: tuple[int, ...]
    """16 hardware registers (PC, EXEC, STATUS, TRAPSTS, MODE and others), in the order of the generation."""
    traps: tuple[int, ...]
    """The trap handler's registers ttmp0 to ttmp15."""
    scalar: bytes
    """The scalar registers, from s0 on, 4 bytes each."""
    vector: bytes
    """The vector registers, from v0 on, each with 4 bytes for every lane; accumulators are not among them."""
    slot: tuple[int, int] | None = None
    """The shader engine and the slot there whose scratch memory is the wave's; None: it has none."""
    local: tuple[int, int] | None = None
    """Where the local memory of its work-group was saved: the address, and its size in bytes; None: it has none."""


class _Shape(NamedTuple):
    """How much of each kind was saved of a wave."""

    local: int
    """Bytes of local memory, which stand with the first wave of a work-group."""
    scalars: int
    """Scalar registers, 4 bytes each."""
    between: int
    """Bytes between the scalar and the vector registers: accumulators (gfx9), registers shared by waves (since
    gfx10)."""
    vectors: int
    """Vector registers, 4 bytes for each lane."""
    lanes: int = 64


def is_known(agent: Agent) -> bool:
    """Whether symd knows how this architecture saves waves."""
    major, minor, _ = agent.version
    return 9 <= major <= 11 or (major == 12 and minor == 0)


class AreaBudget:
    """How many bytes all areas of saved waves may have together. Each is read by itself, and any number of queues and
    compute dies may claim the same memory."""

    def __init__(self, memory: CoreMemory) -> None:
        self._most = _OVERLAP * memory.size
        self._largest = memory.size

    def take(self, size: int, where: str) -> None:
        """Count an area of ``size`` bytes. Raises Malformed where areas overlap so much that they hold many times
        the dump."""
        self._most -= min(size, self._largest)
        if self._most < 0:
            raise Malformed("areas of saved waves overlap so much that they hold eight times the dump", where=where)


def saved_waves(
    memory: CoreMemory,
    state: CoreState,
    queue: Queue,
    agent: Agent,
    runtime: int | None,
    budget: Budget,
    areas: AreaBudget,
) -> Iterator[SavedWave]:
    """The waves of a queue. ``runtime`` is the version of the runtime's protocol; None: a current one. ``areas`` is one
    for all queues. Raises Malformed where an area contradicts itself, LimitExceeded."""
    for xcc in range(agent.xccs):
        area = queue.save_area + xcc * queue.area_size
        header = memory.read(area, _AREA.size)
        if len(header) < _AREA.size:
            raise Malformed("the area of its saved waves is not in the dump", where=f"queue {queue.queue_id}")
        stack_at, stack_size, end, size = _AREA.unpack(header)
        if stack_at + stack_size != end - size or stack_size % 4:
            raise Malformed("the area of its saved waves contradicts itself", where=f"queue {queue.queue_id}")
        areas.take(stack_size + size, f"queue {queue.queue_id}")
        words = memory.read(area + stack_at, stack_size)
        if len(words) < stack_size:
            raise Malformed("the control stack is not whole in the dump", where=f"queue {queue.queue_id}")
        reading = _Area(memory, state, agent, runtime)
        stack = struct.unpack(f"<{stack_size // 4}I", words)
        found = 0
        for found, wave in enumerate(reading.waves(stack, area + end, size, xcc), 1):
            budget.count("core_waves", 1, f"queue {queue.queue_id}")
            yield wave._replace(number=found - 1)
        if not found:  # areas may lie on one another, as many as an agent claims to have compute dies
            budget.count("core_waves", 1, f"queue {queue.queue_id}")


class _Area:
    def __init__(self, memory: CoreMemory, state: CoreState, agent: Agent, runtime: int | None) -> None:
        self._memory = memory
        self._state = state
        self._runtime = runtime
        self._version = agent.version
        self._old = agent.version[0] == 9
        self._mi300 = agent.version >= (9, 4, 0) and self._old

    def waves(self, stack: tuple[int, ...], end: int, size: int, xcc: int) -> Iterator[SavedWave]:
        """The waves that a control stack tells of; the first two words are commands of its own."""
        at, lowest, state = 2, end - size, 0
        local: tuple[int, int] | None = None
        while at < len(stack):
            word = stack[at]
            at += 1
            if word & _EVENT:
                continue
            if word & _STATE:
                state = word
                at += 0 if self._old else 1  # a second word of state
                continue
            wave, end = self._wave(word, state, end, xcc)
            if end < lowest:
                raise Malformed("waves take more room than their area has", where=f"XCC {xcc}")
            local = wave.local if self._first(word) else local  # stands with the first wave of a work-group
            yield wave._replace(local=local)

    def _shape(self, state: int) -> _Shape:
        vectors = (state & 0x3F) + 1
        if not self._old:
            lanes = 32 if state >> 24 & 1 else 64
            return _Shape(
                (state >> 10 & 0xFF) * 512,
                128,
                (state >> 26 & 0xF) * 8 * 128,
                vectors * (8 if lanes == 32 else 4),
                lanes,
            )
        scalars = ((state >> 6 & 7) + 1) * 16 - 16
        local = (state >> 9 & 0x1FF) * 512
        if self._version >= (9, 5, 0):
            local = (state >> 9 & 0xFF) * 1280
        if self._version == (9, 0, 10) or self._mi300:
            own = ((state >> 24 & 0x3F) + 1) * 4
            return _Shape(local, scalars, max(vectors * 8 - own, 0) * 256, own)
        return _Shape(local, scalars, vectors * 4 * 256 if self._version == (9, 0, 8) else 0, vectors * 4)

    def _wave(self, word: int, state: int, end: int, xcc: int) -> tuple[SavedWave, int]:
        shape = self._shape(state)
        local_at = end - (_SPECIAL if self._old else 0) - (shape.local if self._first(word) else 0)
        traps_at = local_at - _SPECIAL
        hardware_at = traps_at - _SPECIAL
        scalars_at = hardware_at - 4 * shape.scalars
        vectors_at = scalars_at - shape.between - shape.vectors * 4 * shape.lanes
        traps, hardware = self._registers(traps_at), self._registers(hardware_at)
        wave = SavedWave(
            *(xcc, 0, shape.lanes, self._pc(hardware, traps)),
            (hardware[3] | hardware[4] << 32) & ((1 << shape.lanes) - 1),
            bool(traps[6] & _STOPPED),
            *self._of_dispatch(traps),
            *(hardware, traps),
            self._memory.read(scalars_at, 4 * shape.scalars),
            self._memory.read(vectors_at, shape.vectors * 4 * shape.lanes),
            self._slot(word),
            (local_at, shape.local) if shape.local else None,
        )
        return wave, vectors_at

    def _first(self, word: int) -> bool:
        """Whether it is the first wave of its work-group."""
        return bool(word >> (17 if self._old else 12) & 1)

    def _slot(self, word: int) -> tuple[int, int] | None:
        if self._old:
            return (word >> 11 & 3, word & 0x1FF) if word >> 15 & 1 else None
        engine = word >> 24 & (3 if self._version[0] == 10 else 7)
        return (engine, word & 0x3FF) if word >> 11 & 1 else None

    def _registers(self, address: int) -> tuple[int, ...]:
        found = self._memory.read(address, _SPECIAL)
        if len(found) < _SPECIAL:
            raise Malformed(f"the registers of a wave, at {address:#x}, are not in the dump")
        return struct.unpack("<16I", found)

    def _pc(self, hardware: tuple[int, ...], traps: tuple[int, ...]) -> int:
        """Where the wave is: a stopped wave of some generations waits elsewhere, and its PC is in trap registers."""
        if traps[6] & _STOPPED and self._parks:
            low = traps[10] if self._version[0] == 12 else traps[7]
            return low | (traps[11] >> 7 & 0xFFFF) << 32
        return hardware[1] | (hardware[2] & 0xFFFF) << 32

    @property
    def _parks(self) -> bool:
        major, minor, _ = self._version
        if major == 9:
            return not self._mi300
        if major == 10:
            return minor < 3
        return self._runtime is None or self._runtime >= _PARKED_GFX11_SINCE

    def _of_dispatch(self, traps: tuple[int, ...]) -> tuple[int | None, tuple[int, int, int] | None, int | None]:
        """The packet of the dispatch, the work-group, the wave's position in it."""
        if self._version[0] == 12:
            both = bool(traps[8] & _YZ_VALID)
            group = (traps[9], traps[7] & 0xFFFF if both else 0, traps[7] >> 16 if both else 0)
            return traps[8] & 0x1FFFFFF, group, traps[8] >> 25 & 0x1F
        if not self._state.has_group_ids or traps[6] & _NO_GROUP_IDS:
            return None, None, None
        packet = traps[11] >> 6 & 0x1FFFFFF if self._mi300 else traps[6] & 0x1FFFFFF
        return packet, (traps[8], traps[9], traps[10]), traps[11] & 0x3F


def reasons(wave: SavedWave, version: tuple[int, int, int]) -> list[str]:
    """Why a stopped wave was stopped, in the words of ROCdbgapi; none where it was executing, or stopped from
    outside."""
    if not wave.stopped:
        return []
    trap = wave.traps[6] >> 25 & 0xF
    trapped = [{1: "breakpoint", 2: "assert trap", 3: "debug trap"}.get(trap, f"trap {trap}")] if trap else []
    if version[0] == 12:
        private, user, enabled = wave.hardware[6], wave.hardware[11], wave.hardware[12]
        maskable, watched = user & enabled, private if enabled >> 7 & 1 else 0
        found = _named(maskable, _MATH, 0)
        found += _memory(private >> 12 & 1, private >> 4 & 1, private >> 6 & 1)
        return found + (["watchpoint"] if watched & 0xF else []) + trapped
    status, mode = wave.hardware[6], wave.hardware[9 if version[0] == 9 else 8]
    found = _named(status & mode >> 12, _MATH, 0)
    found += _memory(status >> 28 & 1, status >> 8 & 1, status >> 11 & 1)
    watched = (status >> 7 & 1 | status >> 12 & 7) if mode >> 19 & 1 else 0
    return found + (["watchpoint"] if watched else []) + trapped


_MATH = (
    "floating point invalid operation",
    "floating point input denormal",
    "floating point divide by 0",
    "floating point overflow",
    "floating point underflow",
    "floating point inexact",
    "integer divide by 0",
)


def _named(bits: int, names: tuple[str, ...], first: int) -> list[str]:
    return [name for number, name in enumerate(names, first) if bits >> number & 1]


def _memory(xnack: int, violation: int, illegal: int) -> list[str]:
    found = ["memory violation"] if xnack else ["address error"] if violation else []
    return found + (["illegal instruction"] if illegal else [])


Space: TypeAlias = Literal["global", "generic", "local", "private", "private wave"]
SPACES: Mapping[int, Space] = {0: "global", 1: "generic", 3: "local", 5: "private", 6: "private wave"}
"""Address spaces by DWARF's number."""
MAX_BYTES = 4096
"""Bytes of one reading."""
_INTERLEAVED = 4
"""Private memory has so many bytes of a lane before those of the next."""
_QUEUE = struct.Struct("<140xI16xQQ")
"""amd_queue_t: compute_tmpring_size, scratch_backing_memory_location, scratch_backing_memory_byte_size."""
_READ_ID = 128
"""Where read_dispatch_id is in amd_queue_t: queues are known by its address."""
_SEGMENT_BYTES = 1 << 32


class ScratchMemory(NamedTuple):
    """The scratch memory of a queue: its address, the bytes of each compute die, and the register that says how it is
    divided."""

    address: int
    die_bytes: int
    ring: int


def scratch_of(queue: Queue, memory: CoreMemory) -> ScratchMemory | None:
    """The queue's scratch memory; None where the dump does not have the queue's own structure."""
    content = memory.read(queue.read_pointer - _READ_ID, _QUEUE.size) if queue.read_pointer >= _READ_ID else b""
    if len(content) < _QUEUE.size:
        return None
    ring, address, size = _QUEUE.unpack(content)
    return ScratchMemory(address, size, ring)


def memory_of(wave: SavedWave, agent: Agent, scratch: ScratchMemory | None) -> WaveMemory:
    """Where a wave's memory is."""
    return WaveMemory(
        wave.lanes,
        _region(wave, agent, scratch) if scratch is not None else None,
        wave.local,
        agent.local_aperture >> 32,
        agent.private_aperture >> 32,
        not _has_flat_frames(agent.version),
    )


def _has_flat_frames(version: tuple[int, int, int]) -> bool:
    """Whether LLVM's code uses scratch instructions, whose addresses are those of one lane."""
    return version >= (11, 0, 0) or version[:2] == (9, 4) or version[:2] == (9, 5)


def _region(wave: SavedWave, agent: Agent, scratch: ScratchMemory) -> tuple[int, int] | None:
    """The address and size of a wave's private memory; None where registers contradict what is computed."""
    if wave.slot is None:
        return None
    engine, slot = wave.slot
    waves = scratch.ring & 0xFFF
    if agent.version[0] >= 11:
        size = (scratch.ring >> 12 & 0x7FFF) * 256
        before = waves * engine + slot
    else:
        size = (scratch.ring >> 12 & 0x1FFF) * 1024
        if not agent.engines or waves % agent.engines:
            return None
        before = waves // agent.engines * engine + slot
    address = scratch.address + scratch.die_bytes * wave.xcc + before * size
    if agent.version[0] >= 11:
        told = wave.hardware[9] | wave.hardware[10] << 32
        return (address, size) if size and told == address else None
    if agent.version >= (9, 4, 0) and agent.version[0] == 9:
        return _told_region(wave, scratch, size)
    return (address, size) if size else None


def _told_region(wave: SavedWave, scratch: ScratchMemory, size: int) -> tuple[int, int] | None:
    """Where the hardware's register (FLAT_SCRATCH, the sixth scalar register from the end) says that it is, if that is
    a slot of the compute die: of these processors it is not known how slots follow each other."""
    at = 4 * (min(len(wave.scalar) // 4, 108) - 6)
    told = int.from_bytes(wave.scalar[at : at + 8], "little") if at >= 0 else 0
    inside = told - scratch.address - scratch.die_bytes * wave.xcc
    return (told, size) if size and 0 <= inside <= scratch.die_bytes - size and inside % size == 0 else None


def global_ranges(
    memory: WaveMemory, space: Space, lane: int | None, address: int, size: int
) -> list[tuple[int, int]] | None:
    """The global addresses and sizes that hold so many bytes at an address of a space, as ``lane`` sees it. None where
    that is nowhere, or not known."""
    space, address = _lowered(memory, space, address)
    region = {"global": (0, 1 << 64), "local": memory.local}.get(space, memory.scratch)
    if region is None or address < 0 or not 0 < size <= MAX_BYTES or (space == "private" and lane is None):
        return None
    base, length = region
    found = (
        [*_interleaved(memory.width, lane, address, size)]
        if space == "private" and lane is not None
        else [(address, size)]
    )
    return [(base + at, part) for at, part in found] if sum(found[-1]) <= length else None


def _lowered(memory: WaveMemory, space: Space, address: int) -> tuple[Space, int]:
    """A flat address as one of the space that it means."""
    if space != "generic":
        return space, address
    upper, below = divmod(address, _SEGMENT_BYTES)
    meant: dict[int, Space] = {memory.private_aperture: "private", memory.local_aperture: "local"}
    return (meant[upper], below) if upper and upper in meant else ("global", address)


def _interleaved(width: int, lane: int, address: int, size: int) -> Iterator[tuple[int, int]]:
    while size > 0:
        slot, inside = divmod(address, _INTERLEAVED)
        part = min(_INTERLEAVED - inside, size)
        yield (slot * width + lane) * _INTERLEAVED + inside, part
        address, size = address + part, size - part


class WaveReader:
    """Reads the memory of one wave from the dump."""

    def __init__(self, core: CoreMemory, memory: WaveMemory) -> None:
        self._core, self._memory = core, memory
        self.scaled_frames = memory.scaled_frames

    def read(self, space: Space, address: int, size: int) -> bytes | None:
        """The bytes at an address; None where the dump does not have them."""
        ranges = global_ranges(self._memory, space, None, address, size)
        if ranges is None:
            return None
        found = b"".join(self._core.read(*each) for each in ranges)
        return found if len(found) == size else None
