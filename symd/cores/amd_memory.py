"""The memory of AMD's waves: private memory of each lane, which stands in the queue's scratch memory, local memory of the
work-group, which was saved with its first wave, and global memory.

Sources: ROCdbgapi, ``memory.cpp`` and ``scratch_memory_region`` of ``architecture.cpp``; ``amd_hsa_queue.h``; LLVM's AMDGPU usage
guide, "Address Space Identifier"."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from symd.cores.amd_waves import SavedWave
from symd.cores.stopped import WaveMemory
from symd.formats.containers.amd.core_memory import CoreMemory
from symd.formats.containers.amd.core_state import Agent, Queue

Space: TypeAlias = Literal["global", "generic", "local", "private", "private wave"]
SPACES: Mapping[int, Space] = {0: "global", 1: "generic", 3: "local", 5: "private", 6: "private wave"}
"""Address spaces by DWARF's number."""
MOST_BYTES = 4096
"""Bytes of one reading."""
_INTERLEAVED = 4
"""Private memory has so many bytes of a lane before those of the next."""
_QUEUE = struct.Struct("<140xI16xQQ")
"""amd_queue_t: compute_tmpring_size, scratch_backing_memory_location, scratch_backing_memory_byte_size."""
_READ_ID = 128
"""Where read_dispatch_id stands in amd_queue_t: queues are known by its address."""
_SEGMENT_BYTES = 1 << 32


class ScratchMemory(NamedTuple):
    """The scratch memory of a queue: its address, the bytes of each compute die, and the register that says how it is
    divided."""

    address: int
    die_bytes: int
    ring: int


def scratch_of(queue: Queue, memory: CoreMemory) -> ScratchMemory | None:
    """None where the dump does not have the queue's own structure."""
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
    """Where the hardware's register (FLAT_SCRATCH, the sixth scalar register from the end) says that it is, if that is a slot of the
    compute die: of these processors it is not known how slots follow each other."""
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
    if region is None or address < 0 or not 0 < size <= MOST_BYTES or (space == "private" and lane is None):
        return None
    base, room = region
    found = (
        [*_interleaved(memory.width, lane, address, size)]
        if space == "private" and lane is not None
        else [(address, size)]
    )
    return [(base + at, part) for at, part in found] if sum(found[-1]) <= room else None


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
        """None where the dump does not have it."""
        ranges = global_ranges(self._memory, space, None, address, size)
        if ranges is None:
            return None
        found = b"".join(self._core.read(*each) for each in ranges)
        return found if len(found) == size else None
