"""Core dumps of ROCm programs stated as agents, queues and waves (ROCdbgapi's layouts).

dump = AmdgpuCore(version=(9, 0, 6))
dump.load(code_object, 0x7F00_0000_0000, uri="file:///tmp/k.co")
dump.wave(pc=0x7F00_0000_1040, exec=0xFF)
open("gpucore.1", "wb").write(dump.build())
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

PT_LOAD, PT_NOTE, ET_CORE, EM_AMDGPU, EM_X86_64 = 1, 4, 4, 224, 62
NOTE_TYPE = 33
AREA, RING, R_DEBUG, QUEUE = 0x5000_0000_0000, 0x5100_0000_0000, 0x5200_0000_0000, 0x5300_0000_0000
SCRATCH = 0x5400_0000_0000
SCRATCH_WAVES, SCRATCH_BYTES, ENGINES = 8, 16384, 4
"""Waves that have scratch memory, of each shader engine since gfx11; bytes of one; shader engines."""
WRITE_ID, READ_ID = 56, 128
"""Offsets in HSA's amd_queue_t."""
STOPPED = 1 << 30


@dataclass
class Wave:
    """What is saved of a wave. ``vector`` is one list of lanes a register; ``accumulators`` likewise."""

    pc: int
    exec: int
    traps: dict[int, int]
    hardware: dict[int, int]
    scalar: Sequence[int]
    vector: Sequence[Sequence[int]]
    accumulators: Sequence[Sequence[int]]
    local: int
    first: bool
    last: bool
    wave32: bool
    parked: int | None
    slot: tuple[int, int] | None


@dataclass
class AmdgpuCore:
    """One agent with one queue. ``list_code`` writes the runtime's list of code objects into host memory; without it the dump
    is one of the GPU alone. ``host`` makes it the core file of an x86-64 process."""

    version: tuple[int, int, int] = (9, 0, 6)
    gpu_id: int = 0x1234
    queue_id: int = 7
    xccs: int = 1
    group_ids: bool = True
    runtime: int = 9
    exceptions: int = 0
    host: bool = False
    list_code: bool = True
    waves: list[Wave] = field(default_factory=list)
    memory: list[tuple[int, bytes]] = field(default_factory=list)
    objects: list[tuple[int, str]] = field(default_factory=list)
    packets: dict[int, bytes] = field(default_factory=dict)
    ring_size: int = 4096
    scratch: bytearray = field(default_factory=bytearray)

    def load(self, code: bytes, base: int, *, uri: str) -> None:
        """Put a linked code object into memory as the loader does, and into the runtime's list."""
        image = bytearray()
        offset, count = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<H", code, 56)[0]
        for number in range(count):
            kind, _, start, address, _, size, memory_size, _ = struct.unpack_from(
                "<IIQQQQQQ", code, offset + 56 * number
            )
            if kind == PT_LOAD:
                image.extend(bytes(max(address + memory_size - len(image), 0)))
                image[address : address + size] = code[start : start + size]
        self.memory.append((base, bytes(image)))
        self.objects.append((base, uri))

    def wave(
        self,
        *,
        pc: int,
        exec: int = (1 << 64) - 1,  # noqa: A002 - the register's name
        traps: dict[int, int] | None = None,
        hardware: dict[int, int] | None = None,
        scalar: Sequence[int] = (),
        vector: Sequence[Sequence[int]] = (),
        accumulators: Sequence[Sequence[int]] = (),
        local: int = 0,
        first: bool = True,
        last: bool = True,
        wave32: bool = False,
        parked: int | None = None,
        slot: tuple[int, int] | None = None,
    ) -> None:
        """``local`` is in bytes; ``parked`` is the PC in trap registers; ``slot`` the shader engine and the slot there whose
        scratch memory the wave has."""
        self.waves.append(
            Wave(
                *(pc, exec, traps or {}, hardware or {}, scalar, vector, accumulators),
                *(local, first, last, wave32, parked, slot),
            )
        )

    def dispatch(self, packet: int, descriptor: int) -> None:
        """Put the packet of a kernel's launch into the ring."""
        self.packets[packet] = struct.pack("<HHHHHHIIIIIQQQQ", 2, 1, 64, 1, 1, 0, 64, 1, 1, 0, 0, descriptor, 0, 0, 0)

    def scratch_of(self, slot: tuple[int, int]) -> int:
        """Where the scratch memory of a slot begins, from ``SCRATCH`` on."""
        per_engine = SCRATCH_WAVES if self.version[0] >= 11 else SCRATCH_WAVES // ENGINES
        return (per_engine * slot[0] + slot[1]) * SCRATCH_BYTES

    def private(self, slot: tuple[int, int], lane: int, address: int, content: bytes, *, lanes: int = 64) -> None:
        """Write private memory of one lane: four bytes of each lane stand beside each other."""
        base = self.scratch_of(slot)
        for at, byte in enumerate(content, address):
            self._scratch(base + (at // 4 * lanes + lane) * 4 + at % 4, bytes((byte,)))

    def private_wave(self, slot: tuple[int, int], address: int, content: bytes) -> None:
        """Write private memory as it stands, all lanes together."""
        self._scratch(self.scratch_of(slot) + address, content)

    def _scratch(self, at: int, content: bytes) -> None:
        self.scratch.extend(bytes(max(at + len(content) - len(self.scratch), 0)))
        self.scratch[at : at + len(content)] = content

    def build(self) -> bytes:
        """The dump."""
        area_size, area = self._areas()
        segments = [(AREA, area), *self.memory]
        ring = bytearray(self.ring_size)
        for packet, content in self.packets.items():
            at = packet * 64 % self.ring_size
            ring[at : at + 64] = content
        segments.append((RING, bytes(ring)))
        segments.append((QUEUE, self._queue()))
        if self.scratch:
            self._scratch(SCRATCH_WAVES * ENGINES * SCRATCH_BYTES - 1, b"\0")
            segments.append((SCRATCH, bytes(self.scratch)))
        if self.list_code:
            segments.append((R_DEBUG, self._link_map()))
        return self._file(self._note(area_size), segments)

    def _file(self, note: bytes, segments: Sequence[tuple[int, bytes]]) -> bytes:
        machine, osabi = (EM_X86_64, 0) if self.host else (EM_AMDGPU, 64)
        count = 1 + len(segments)
        identity = b"\x7fELF" + bytes((2, 1, 1, osabi, 0)) + bytes(7)
        header = struct.pack("<HHIQQQIHHHHHH", ET_CORE, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
        at = 64 + 56 * count
        table, body = b"", b""
        for kind, address, content, shift in [(PT_NOTE, 0, note, 2), *((PT_LOAD, a, c, 12) for a, c in segments)]:
            body += bytes(-(at + len(body)) % 16)
            table += struct.pack("<IIQQQQQQ", kind, 6, at + len(body), address, 0, len(content), len(content), shift)
            body += content
        return identity + header + table + body

    def _queue(self) -> bytes:
        """amd_queue_t: write_dispatch_id, compute_tmpring_size and where the scratch memory is."""
        content = bytearray(bytes(WRITE_ID) + struct.pack("<Q", self.ring_size // 64) + bytes(4096))
        unit = 256 if self.version[0] >= 11 else 1024
        struct.pack_into("<I", content, 140, SCRATCH_WAVES | SCRATCH_BYTES // unit << 12)
        struct.pack_into("<QQ", content, 160, SCRATCH, SCRATCH_WAVES * ENGINES * SCRATCH_BYTES)
        return bytes(content)

    def _note(self, area_size: int) -> bytes:
        major, minor, stepping = self.version
        local, private = 1 << 48, 2 << 48
        agent = struct.pack("<7Q", 0, local, local | 0xFFFF_FFFF, private, private | 0xFFFF_FFFF, 4096, (1 << 47) - 1)
        agent += struct.pack("<8I", self.gpu_id, 0, 0x1002, 0x66A1, 1, 0, 0, 9999)
        agent += struct.pack(
            "<8I", major * 10000 + minor * 100 + stepping, 240, 10, 4, 1, self.xccs, 0x2000_8000, 0x400
        )
        queue = struct.pack("<5Q", self.exceptions, RING, QUEUE + WRITE_ID, QUEUE + READ_ID, AREA)
        queue += struct.pack("<6I", self.queue_id, self.gpu_id, self.ring_size, 2, area_size, 0)
        runtime = struct.pack("<QII", R_DEBUG if self.list_code else 0, 1, self.group_ids)
        head = struct.pack("<QIIQIIII", 1, 1, 13, len(runtime), 1, len(agent), 1, len(queue))
        content = head + runtime + agent + queue
        return struct.pack("<III", 7, len(content), NOTE_TYPE) + b"AMDGPU\0\0" + content

    def _link_map(self) -> bytes:
        """r_debug, then a link_map and a name for each code object."""
        maps, names = b"", b""
        first, names_at = R_DEBUG + 64, R_DEBUG + 64 + 40 * len(self.objects)
        for number, (base, uri) in enumerate(self.objects):
            after = first + 40 * (number + 1) if number + 1 < len(self.objects) else 0
            maps += struct.pack("<5Q", base, names_at + len(names), 0, after, 0)
            names += uri.encode() + b"\0"
        head = struct.pack("<iIQQiIQ", self.runtime, 0, first if self.objects else 0, 0, 0, 0, 0)
        return head.ljust(64, b"\0") + maps + names

    def _areas(self) -> tuple[int, bytes]:
        """The size of the area of one XCC, and the areas of all; every XCC has the same waves."""
        control, saved = [0, 0], b""
        for wave in self.waves:
            control += self._words(wave)
            saved = self._saved(wave) + saved
        stack = struct.pack(f"<{len(control)}I", *control)
        end = 64 + len(stack) + len(saved)
        header = struct.pack("<6I", 64, len(stack), end, len(saved), end, 0)
        area = (header.ljust(64, b"\0") + stack + saved).ljust(end + 4096, b"\0")
        return len(area), area * self.xccs

    @property
    def _old(self) -> bool:
        return self.version[0] == 9

    @property
    def _split(self) -> bool:
        """Whether accumulators and vector registers share one file."""
        return self._old and (self.version == (9, 0, 10) or self.version[1] >= 4)

    def _words(self, wave: Wave) -> list[int]:
        """The state of a wave, and the wave, as words of the control stack."""
        count = len(wave.vector)
        if self._old:
            blocks = (count + len(wave.accumulators)) // 8 if self._split else count // 4
            state = 1 << 31 | blocks - 1 | (len(wave.scalar) + 16) // 16 - 1 << 6 | wave.local // 512 << 9
            if self._split:
                state |= count // 4 - 1 << 24
            slot = wave.slot[0] << 11 | wave.slot[1] | 1 << 15 if wave.slot else 0
            return [state, wave.last << 16 | wave.first << 17 | slot, 1 << 30]
        state = 1 << 31 | count // (8 if wave.wave32 else 4) - 1 | wave.local // 512 << 10 | wave.wave32 << 24
        slot = wave.slot[0] << 24 | wave.slot[1] | 1 << 11 if wave.slot else 0
        return [state, 0, wave.last << 29 | wave.first << 12 | slot, 1 << 30]

    def _saved(self, wave: Wave) -> bytes:
        lanes = 32 if wave.wave32 else 64
        vectors = b"".join(_lanes(register, lanes) for register in (*wave.vector, *wave.accumulators))
        scalars = list(wave.scalar) if self._old else [*wave.scalar, *[0] * (128 - len(wave.scalar))]
        hardware, traps = [0] * 16, [0] * 16
        hardware[1:5] = wave.pc & 0xFFFF_FFFF, wave.pc >> 32, wave.exec & 0xFFFF_FFFF, wave.exec >> 32
        if wave.slot is not None and self.version[0] >= 11:
            base = SCRATCH + self.scratch_of(wave.slot)
            hardware[9:11] = base & 0xFFFF_FFFF, base >> 32
        for registers, given in ((hardware, wave.hardware), (traps, wave.traps)):
            for number, value in given.items():
                registers[number] = value
        if wave.parked is not None:
            traps[6] |= STOPPED
            traps[10 if self.version[0] == 12 else 7] = wave.parked & 0xFFFF_FFFF
            traps[11] |= (wave.parked >> 32 & 0xFFFF) << 7
        body = vectors + struct.pack(f"<{len(scalars)}I", *scalars) + struct.pack("<32I", *hardware, *traps)
        return body + bytes(wave.local if wave.first else 0) + bytes(64 if self._old else 0)


def _lanes(register: Sequence[int], lanes: int) -> bytes:
    return struct.pack(f"<{lanes}I", *[*register, *[0] * (lanes - len(register))])
