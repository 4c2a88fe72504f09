"""Core files of ROCm programs: their memory by address, the state of AMD's devices (the note AMDGPU), and the code
objects that the process had loaded.

Sources: System V ABI, chapter 5, "Program Header"; ROCdbgapi, ``os_driver.cpp`` (the note) and ``rocr_rdebug.h`` (the
list of code objects, in the form of glibc's ``r_debug``); ``kfd_ioctl.h`` for the entries; the ROCm runtime's
``amd_core_dump.cpp``.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from symd.errors import BadQuery, Malformed, SymdError, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd.amdgpu_core import claims, state_note
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.uri import memory_range
from symd.formats.elf import FILE_HEADER_64, PROGRAM_HEADER_64, ElfSegment
from symd.formats.elf.constants import (
    DT_STRTAB,
    DT_SYMTAB,
    EM_AMDGPU,
    MAGIC,
    PT_DYNAMIC,
    PT_LOAD,
)


def read(element: Element, budget: Budget) -> Contents:
    """An element for every code object whose bytes the file has. Raises Malformed, LimitExceeded, and Unsupported for
    the core file of a process that says nothing of AMD's devices."""
    if not claims(element.data):
        raise without_state(element.data, budget)
    core = Core(element.data, budget)
    named = core.objects(budget)
    elements = tuple(Element(name, each.data, bias=each.bias) for name, each in named if each.data is not None)
    notes = tuple(f"{each.name}: its code is not in the dump" for _, each in named if each.data is None)
    return Contents(elements, notes=(*core.notes, *notes))


_OVERLAP = 8
"""Times the size of the file that all segments together may have."""
_WORDS = {4: "<I", 8: "<Q"}


class CoreMemory:
    """The memory that a core dump holds, by address. ``data`` is the file, ``segments`` its program headers; of one
    that leaves the file, as in a dump that was cut off, what there is. Raises Malformed where they overlap without
    end."""

    def __init__(self, data: bytes, segments: Sequence[ElfSegment]) -> None:
        there = (each._replace(file_size=min(each.file_size, max(len(data) - each.offset, 0))) for each in segments)
        loads = [segment for segment in there if segment.type == PT_LOAD and segment.file_size]
        self._data = data
        self.missing = sum(max(each.offset + each.file_size - max(len(data), each.offset), 0) for each in segments)
        """Bytes that the program headers tell of and the file does not have."""
        self._loads = sorted(loads, key=lambda segment: segment.address)
        self.size = sum(segment.file_size for segment in loads)
        if self.size > _OVERLAP * len(data):
            raise Malformed("segments overlap so much that they hold eight times the file")
        self._starts = [segment.address for segment in self._loads]

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, fewer than ``size`` where the file does not have them. Segments that follow each
        other are read as one."""
        parts = []
        while size > 0:
            part = self._part(address, size)
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, address: int, size: int) -> bytes:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return b""
        segment = self._loads[at]
        inside = address - segment.address
        if inside >= segment.file_size:
            return b""
        start = segment.offset + inside
        return self._data[start : start + min(size, segment.file_size - inside)]

    def number(self, address: int, size: int) -> int | None:
        """The integer of 4 or 8 bytes at an address; None where the file does not have it."""
        found = self.read(address, size)
        return int(struct.unpack(_WORDS[size], found)[0]) if len(found) == size else None

    def text(self, address: int, most: int) -> str | None:
        """The string at an address, of at most so many bytes."""
        found = self.read(address, most)
        end = found.find(b"\0")
        return None if end < 0 else found[:end].decode("utf-8", "replace")

    def pages(self, size: int) -> Iterator[int]:
        """Every address that the file has and that is a multiple of ``size``."""
        for segment in self._loads:
            yield from range(-(-segment.address // size) * size, segment.address + segment.file_size, size)


_VERSION = 1
_HEADER = struct.Struct("<IIQIIII")
"""KFD's version, the size of the runtime's entry, number and size of the agents' and of the queues' entries."""
_AGENT = struct.Struct("<8xQ8xQ24xI28xI8xIII")
"""lds_base, scratch_base; gpu_id, gfx_target_version; array_count, simd_arrays_per_engine, num_xcc."""
_QUEUE = struct.Struct("<5Q5I")
_RUNTIME = struct.Struct("<QII")
_URI_BYTES = 16384
_PAGE = 4096
_IDENT_SIZE = 16
_SLACK = 1 << 20
"""Bytes between the segments of an image's file."""


class Agent(NamedTuple):
    """A GPU. ``version`` is major, minor and stepping of its architecture; ``xccs`` its compute dies; ``engines`` the
    shader engines of each (0: not told). The apertures are flat addresses at which local and private memory begin."""

    gpu_id: int
    version: tuple[int, int, int]
    xccs: int
    engines: int
    local_aperture: int
    private_aperture: int


class Queue(NamedTuple):
    """A queue of a GPU, with the area in which its waves were saved; ``exceptions`` is a mask of KFD's codes."""

    exceptions: int
    ring: int
    write_pointer: int
    read_pointer: int
    save_area: int
    queue_id: int
    gpu_id: int
    ring_size: int
    type: int
    area_size: int


class CoreState(NamedTuple):
    """What AMD's driver says of a dump's agents and queues. ``kfd`` is the major and minor version of the driver's
    interface. ``r_debug`` is the address of the structure that leads to the runtime's list of loaded code objects.
    ``has_group_ids``: the trap handler was set up to leave in each wave's trap registers which dispatch and
    work-group the wave is of."""

    kfd: tuple[int, int]
    r_debug: int
    has_group_ids: bool
    agents: tuple[Agent, ...]
    queues: tuple[Queue, ...]


class LoadedObject(NamedTuple):
    """A code object that was loaded: ``name`` is its URI, ``bias`` what is added to its addresses; ``data`` its bytes
    where the file has them, those of its file or else as they are in memory."""

    name: str
    bias: int
    data: bytes | None


def read_state(note: bytes, budget: Budget) -> CoreState:
    """Raises Malformed, LimitExceeded."""
    where = "note AMDGPU"
    if len(note) < 8 + _HEADER.size:
        raise Malformed(f"has {len(note)} bytes, too few for its header", where=where)
    (version,) = struct.unpack_from("<Q", note)
    if version != _VERSION:
        raise Malformed(f"version {version} is not known", where=where, hint="symd knows version 1")
    major, minor, runtime_size, agents, agent_size, queues, queue_size = _HEADER.unpack_from(note, 8)
    at = 8 + _HEADER.size
    agents_at, queues_at = at + _padded(runtime_size), at + _padded(runtime_size) + _padded(agents * agent_size)
    short = (
        runtime_size < _RUNTIME.size,
        agents and agent_size < _AGENT.size,
        queues and queue_size < _QUEUE.size,
    )
    if any(short) or queues_at + queues * queue_size > len(note):
        raise Malformed("its entries are too short, or leave it", where=where)
    budget.count_elements(where, agents + queues)
    r_debug, _, ttmp = _RUNTIME.unpack_from(note, at)
    return CoreState(
        (major, minor),
        r_debug,
        ttmp != 0,
        tuple(_agent(note, agents_at + number * agent_size) for number in range(agents)),
        tuple(Queue(*_QUEUE.unpack_from(note, queues_at + number * queue_size)) for number in range(queues)),
    )


def _padded(size: int) -> int:
    return size + 7 & ~7


def _agent(note: bytes, at: int) -> Agent:
    local, private, gpu_id, version, arrays, per_engine, xccs = _AGENT.unpack_from(note, at)
    parts = (version // 10000, version // 100 % 100, version % 100)
    engines = arrays // per_engine // max(xccs, 1) if per_engine else 0
    return Agent(gpu_id, parts, max(xccs, 1), engines, local, private)


def runtime_version(memory: CoreMemory, state: CoreState) -> int | None:
    """The version of the runtime's protocol; None where its list is not in the file."""
    return memory.number(state.r_debug, 4) if state.r_debug else None


def loaded_objects(memory: CoreMemory, state: CoreState, budget: Budget) -> Iterator[LoadedObject]:
    """The code objects of the runtime's list; where that is not in the file, as in a dump of the GPU alone, those that
    memory holds. Raises LimitExceeded."""
    listed = [*_listed(memory, state, budget)]
    if listed:
        yield from listed
        return
    for address in memory.pages(_PAGE):
        if memory.read(address, 4) == MAGIC and memory.read(address + 18, 2) == EM_AMDGPU.to_bytes(2, "little"):
            budget.count_elements("code objects in memory")
            data = None if _is_file(memory, address) else image_in_memory(memory, address, budget)
            if data is not None:
                yield LoadedObject(f"loaded at {address:#x}", address, data)


def _is_file(memory: CoreMemory, base: int) -> bool:
    """Whether an ELF file is there as it was read, and was not loaded there: PT_DYNAMIC's content is at its offset
    in the file, and not at its address."""
    try:
        header = elf.parse_header(memory.read(base, _IDENT_SIZE + FILE_HEADER_64.size))
    except SymdError:
        return False
    found = (row for row in _program_headers(memory, base, header) if row[0] == PT_DYNAMIC)
    _, _, offset, address, _, size, _, _ = next(found, (0,) * 8)
    at_offset, at_address = (_is_dynamic(memory.read(base + at, min(size, _PAGE))) for at in (offset, address))
    return at_offset and not at_address


def _program_headers(memory: CoreMemory, base: int, header: elf.Header) -> list[tuple[int, ...]]:
    if header.bits != 64 or header.phentsize != PROGRAM_HEADER_64.size:
        return []
    table = memory.read(base + header.phoff, header.phnum * PROGRAM_HEADER_64.size)
    return [*PROGRAM_HEADER_64.iter_unpack(table[: len(table) // PROGRAM_HEADER_64.size * PROGRAM_HEADER_64.size])]


def _is_dynamic(content: bytes) -> bool:
    """Whether these are entries of a dynamic section, with a symbol table and its strings among them."""
    tags = {tag for tag, _ in struct.iter_unpack("<QQ", content[: len(content) // 16 * 16])}
    return {DT_SYMTAB, DT_STRTAB} <= tags


class ReadableMemory(Protocol):
    """Memory of a process, in a file or alive."""

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, fewer where there are no more."""
        ...

    def number(self, address: int, size: int) -> int | None:
        """The integer of 4 or 8 bytes at an address; None where there is none."""
        ...

    def text(self, address: int, most: int) -> str | None:
        """The string at an address, of at most so many bytes."""
        ...


def _listed(memory: CoreMemory, state: CoreState, budget: Budget) -> Iterator[LoadedObject]:
    if state.r_debug:
        for name, bias in listed_names(memory, state.r_debug, budget):
            yield LoadedObject(name, bias, _bytes(memory, name, bias, budget))


def listed_names(memory: ReadableMemory, r_debug: int, budget: Budget) -> Iterator[tuple[str, int]]:
    """The URI of each code object of the runtime's list, and what is added to its addresses. glibc's r_debug: int
    version, link_map *map, ...; link_map: l_addr, l_name, l_ld, l_next."""
    at = memory.number(r_debug + 8, 8)
    seen = set()
    while at and at not in seen:
        seen.add(at)
        budget.count_elements("the list of loaded code objects")
        entry = memory.read(at, 32)
        if len(entry) < 32:
            return
        bias, name_at, _, at = struct.unpack("<4Q", entry)
        name = memory.text(name_at, _URI_BYTES) or ""
        if name.startswith(("file://", "memory://")):
            yield name, bias


def _bytes(memory: CoreMemory, name: str, bias: int, budget: Budget) -> bytes | None:
    """The file's bytes, where they are in memory; else what is loaded."""
    with suppress(BadQuery):
        address, size = memory_range(name)
        data = memory.read(address, size)
        if len(data) == size and data[:4] == MAGIC:
            return data
    return image_in_memory(memory, bias, budget)


def image_in_memory(memory: CoreMemory, base: int, budget: Budget) -> bytes | None:
    """The image that is loaded at ``base``, its segments where they are in a file again; None where no header is
    there. Sections, which are not loaded, are missing. Raises LimitExceeded."""
    head = memory.read(base, _IDENT_SIZE + FILE_HEADER_64.size)
    try:
        header = elf.parse_header(head)
    except SymdError:
        return None
    if header.bits != 64 or header.machine != EM_AMDGPU or header.phentsize != PROGRAM_HEADER_64.size:
        return None
    table = memory.read(base + header.phoff, header.phnum * PROGRAM_HEADER_64.size)
    rows = [*PROGRAM_HEADER_64.iter_unpack(table[: len(table) // PROGRAM_HEADER_64.size * PROGRAM_HEADER_64.size])]
    loads = [(offset, address, size) for kind, _, offset, address, _, size, _, _ in rows if kind == PT_LOAD]
    stored = sum(size for _, _, size in loads) + len(table) + len(head)
    length = max([offset + size for offset, _, size in loads] + [header.phoff + len(table), len(head)])
    if stored > memory.size or length > 2 * stored + _SLACK:
        return None
    budget.charge_expansion(length, "an image in memory")
    image = bytearray(length)
    for offset, address, size in loads:
        content = memory.read(base + address, size)
        image[offset : offset + len(content)] = content
    image[: len(head)] = head
    image[header.phoff : header.phoff + len(table)] = table
    image[40:48], image[58:64] = bytes(8), bytes(6)  # no section table
    return bytes(image)


def without_state(data: bytes, budget: Budget) -> SymdError:
    """What is to be said of the core file of a process that says nothing of AMD's devices. Raises Malformed,
    LimitExceeded."""
    missing = CoreMemory(data, _image(data, budget).segments).missing
    if missing:
        said = f"the core file was not written to its end: {missing} bytes are missing, and what it says of GPUs may be among them"
        return Malformed(said, hint="copy it again, or raise the limit of core files (ulimit -c)")
    hint = "the ROCm runtime writes the GPU's in a file of its own, gpucore.PID"
    return Unsupported("it is the core file of a process, and says nothing of AMD's devices", hint=hint)


def _image(data: bytes, budget: Budget) -> elf.Elf:
    try:
        return elf.parse(data, budget, section_table=False)
    except Malformed as error:
        hint = "the core file was not written to its end, or was cut off"
        raise Malformed(error.message, where=error.where, hint=hint) from None


class Core:
    """An opened core file: its state and its memory. Raises Malformed, LimitExceeded."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        image = _image(data, budget)
        note = state_note(data, image.segments)
        if note is None:
            hint = "the dump was not written to its end, or the runtime could not tell the state"
            raise Malformed("there is no note of the devices' state (AMDGPU, type 33)", hint=hint)
        self.state = read_state(note, budget)
        self.memory = CoreMemory(data, image.segments)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with the file itself."""
        if not self.memory.missing:
            return ()
        lost = "waves and code objects may be missing too, or be without names and debug data"
        return (f"the dump was not written to its end: {self.memory.missing} bytes are missing; {lost}",)

    def objects(self, budget: Budget) -> list[tuple[str, LoadedObject]]:
        """The code objects that were loaded, each with its element of the nesting path."""
        found = loaded_objects(self.memory, self.state, budget)
        return [(f"object{number}", each) for number, each in enumerate(found)]
