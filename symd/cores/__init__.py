"""GPU core dumps: what every warp or wave was doing when the dump was made.

``nvidia``      CUDA's dumps: tables of devices, blocks, warps, lanes and calls
``amd``         ROCm's: waves in the areas in which they were saved (``amd_waves``)
``read``        either
``answering``   the lines, from the dump's own code objects or from modules that have the same code
``values``      variables from registers

Here is the form of all that, before anybody is asked which lines it means: device addresses to places in loaded code,
memory read in batches (a reader runs twice, first to see what it needs), the dump on its way between processes, in
which stacks share their calls; whether two code objects have the same code, one of a dump, which may lack debug data,
and one that somebody kept; and what CUDA's exceptions are called. The code objects inside are opened by ``containers``,
as those of every module.

Source: NVIDIA's ``cudadebugger.h`` (CUDBGException_t), and the table of exceptions in the manual of cuda-gdb."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.config import DEFAULT_LIMITS
from symd.errors import DataLoss, SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import PF_X, PT_LOAD
from symd.model.code import CodeKind, CodeObject, DebugScheme, Vendor
from symd.model.cores import CoreDump, CoreFault, CoreFrame, CoreImage, CorePlace

Range = tuple[int, int]
"""An address of global memory and a size in bytes."""
ReadMemory = Callable[[Sequence[Range]], Sequence[bytes | None]]
"""The content of some ranges; None for one that the dump does not have all of."""
MAX_RANGES = 200_000


class DumpContents(NamedTuple):
    """What a dump is asked for: ``memory`` at addresses of global memory, ``positions`` at positions of the file."""

    memory: ReadMemory
    positions: ReadMemory


class PendingMemory:
    """Memory of a dump that is asked for in one go: what is wanted is noted first, and ``read`` then asks the dump
    for all of it."""

    def __init__(self, read: ReadMemory) -> None:
        self._read = read
        self._known: dict[Range, bytes | None] = {}
        self._wanted: dict[Range, None] = {}

    def get(self, ranges: Sequence[Range]) -> bytes | None:
        """What the ranges hold, one after another; None where that is not in the dump, or not fetched yet."""
        parts = [self._known.get(each) for each in ranges]
        unknown = [each for each in ranges if each not in self._known]
        if len(self._wanted) + len(unknown) <= MAX_RANGES:
            self._wanted.update(dict.fromkeys(unknown))
        found = [part for part in parts if part is not None]
        return b"".join(found) if len(found) == len(parts) else None

    def fetch(self) -> bool:
        """Ask for what was wanted in vain; whether there was something to ask for."""
        wanted, self._wanted = list(self._wanted), {}
        if wanted:
            self._known.update(zip(wanted, self._read(wanted), strict=True))
        return bool(wanted)


_NESTED = 16
"""Functions that begin before a place and may all hold it."""


class LoadedText(NamedTuple):
    """A text section as loaded: device addresses from ``start`` to ``end``, of section ``section_index`` of image
    number ``image``; ``functions`` are (offset, size, name), by offset."""

    start: int
    end: int
    image: int
    section_index: int
    functions: Sequence[tuple[int, int, str]]


class LoadedImage(NamedTuple):
    """A code object that was loaded: how answers name it, where its text is, and what its code is known by (None: the
    dump has no code of it that could be compared)."""

    image: CoreImage
    texts: tuple[LoadedText, ...] = ()
    identity: CodeIdentity | None = None


class DumpedCode:
    """All text of one device's address space."""

    def __init__(self, texts: Iterable[LoadedText]) -> None:
        self._texts = sorted(texts)
        self._starts = [text.start for text in self._texts]

    def place(self, address: int) -> CorePlace | None:
        """Where an address is; None in no code that is known. Of texts that overlap, the one that begins last
        counts."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._texts[at].end:
            return None
        text = self._texts[at]
        return _place(text, address - text.start)


def _place(text: LoadedText, offset: int) -> CorePlace:
    after = bisect_right(text.functions, offset, key=lambda each: each[0])
    for start, size, name in reversed(text.functions[max(after - _NESTED, 0) : after]):
        if offset < start + size:
            return CorePlace(text.image, text.section_index, offset, name, offset - start)
    return CorePlace(text.image, text.section_index, offset, "", offset)


def functions_of(code: CodeObject, section: int) -> list[tuple[int, int, str]]:
    """(offset, size, name) of a section's functions, by offset."""
    return sorted((each.offset, each.size, each.name) for each in code.functions if each.section_index == section)


MAX_REGISTER_BYTES = 32 << 20
"""Bytes of registers that one answer takes along, all stacks together."""


class WaveMemory(NamedTuple):
    """Where the memory of an AMD wave is in global memory. ``width`` is its number of lanes; ``scratch`` and
    ``local`` are global addresses and sizes of its private memory, all lanes', and of its work-group's local memory
    (None: not known). The apertures are the upper 32 bits of flat addresses that mean local and private memory.
    ``scaled_frames``: stack and frame pointers count the bytes of all lanes together, and not those of one."""

    width: int
    scratch: tuple[int, int] | None
    local: tuple[int, int] | None
    local_aperture: int
    private_aperture: int
    scaled_frames: bool


class MemoryWindow(NamedTuple):
    """A part of a CUDA warp's memory: ``size`` bytes from address ``start`` of a space, which are at byte
    ``position`` of the dump. ``lane`` is whose local memory it is; None for what all lanes share, shared memory and the
    launch's parameters."""

    space: Literal["local", "shared", "param"]
    lane: int | None
    start: int
    size: int
    position: int


class WaveRegisters(NamedTuple):
    """The registers of one warp or wave. ``lanes`` are lane numbers; ``vector`` has the registers of each of them,
    32-bit little-endian words, and ``predicates`` a word of 0 or 1 each; ``scalar`` those that all lanes share (uniform
    registers, SGPRs)."""

    lanes: tuple[int, ...]
    vector: tuple[bytes, ...]
    predicates: tuple[bytes, ...] = ()
    scalar: bytes = b""
    memory: WaveMemory | None = None
    """AMD's waves: where their memory is."""
    windows: tuple[MemoryWindow, ...] = ()
    """CUDA's warps: their own memory."""


class TextPlace(NamedTuple):
    """A text section of a code object: its number and name, its object address and size in bytes."""

    section: int
    name: str
    address: int
    size: int


class CodeIdentity(NamedTuple):
    """What two code objects must have in common to have the same code. ``known_by`` has the name, size in bytes and
    SHA-256 of each executable section (AMD: each executable segment, its address as its name), sorted; ``texts`` are
    the executable sections. ``relocated``: a loader has changed the bytes, so that only names and sizes can be
    compared."""

    target: str | None
    known_by: tuple[tuple[str, int, str], ...]
    texts: tuple[TextPlace, ...]
    has_debug_data: bool
    relocated: bool = False


class StoppedCore(NamedTuple):
    """A dump with all its stopped warps or waves, before any line is looked up. ``dump`` has stacks whose frames
    have places and no lines yet. ``registers`` are those of each stack's first wave, where they are known, and
    ``identities`` those of each image's code, where the dump has it."""

    dump: CoreDump
    registers: tuple[WaveRegisters | None, ...]
    identities: tuple[CodeIdentity | None, ...]


def identity_of(code: CodeObject, *, relocated: bool = False) -> CodeIdentity | None:
    """What the code is known by; None for SPIR-V, which no device executes."""
    if code.kind is not CodeKind.MACHINE:
        return None
    pieces = _segments(code) if code.vendor is Vendor.AMD and code.linked else _sections(code)
    texts = tuple(
        TextPlace(each.index, each.name, each.address, each.size) for each in code.sections if each.executable
    )
    return CodeIdentity(code.target, tuple(sorted(pieces)), texts, code.debug is not DebugScheme.NONE, relocated)


def _sections(code: CodeObject) -> Iterator[tuple[str, int, str]]:
    for each in code.sections:
        if each.executable:
            yield each.name, each.size, sha256(each.data).hexdigest()


def _segments(code: CodeObject) -> Iterator[tuple[str, int, str]]:
    """AMD's loaded images have no sections: segments are what both forms have."""
    try:
        image = elf.parse(code.data, Budget(DEFAULT_LIMITS, len(code.data)), section_table=False)
    except SymdError:
        return
    for segment in image.segments:
        if segment.type == PT_LOAD and segment.flags & PF_X:
            yield f"{segment.address:#x}", segment.file_size, sha256(image.stored(segment)).hexdigest()


def is_same(one: CodeIdentity, other: CodeIdentity) -> bool:
    """Whether all pieces of the code have the same names, sizes and bytes; where a loader changed the bytes, names and
    sizes, of those pieces that it loaded."""
    if one.relocated or other.relocated:
        mine, theirs = ({(name, size) for name, size, _ in each.known_by} for each in (one, other))
        return bool(mine and theirs) and ((one.relocated and mine <= theirs) or (other.relocated and theirs <= mine))
    return bool(one.known_by) and one.known_by == other.known_by


def counterpart(one: CodeIdentity, other: CodeIdentity, section: int, offset: int) -> tuple[int, int] | None:
    """The place in ``other``, which is the same, of a section of ``one`` and an offset in it; None where it has
    none."""
    text = next((each for each in one.texts if each.section == section), None)
    if text is None:
        return None
    for each in other.texts:
        if (each.name, each.size, each.address) == (text.name, text.size, text.address):
            return each.section, offset
    for each in other.texts:
        if (each.name, each.size) == (text.name, text.size):
            return each.section, offset
    address = text.address + offset
    holding = (each for each in other.texts if each.address <= address < each.address + each.size)
    return next(((each.section, address - each.address) for each in holding), None)


class SharedFrames(NamedTuple):
    """A dump whose stacks share their frames, each of which is once. ``core`` has stacks without frames. The
    frames of the stack number n are ``counts[n]`` of ``numbers``, those of the stacks before it left out, each the
    number of one of ``frames``."""

    core: StoppedCore
    frames: tuple[CoreFrame, ...]
    numbers: NDArray[np.uint32]
    counts: NDArray[np.uint32]


def shared(core: StoppedCore) -> SharedFrames:
    """The dump with its frames apart."""
    stacks = core.dump.stacks
    numbers: dict[CoreFrame, int] = {}
    of_object: dict[int, int] = {}  # spares to hash a frame again; the stacks keep the objects
    for stack in stacks:
        for frame in stack.frames:
            if id(frame) not in of_object:
                of_object[id(frame)] = numbers.setdefault(frame, len(numbers))
    every = np.array([of_object[id(frame)] for stack in stacks for frame in stack.frames], np.uint32)
    counts = np.array([len(stack.frames) for stack in stacks], np.uint32)
    bare = tuple(replace(stack, frames=()) for stack in stacks)
    return SharedFrames(core._replace(dump=replace(core.dump, stacks=bare)), tuple(numbers), every, counts)


def with_frames(apart: SharedFrames) -> StoppedCore:
    """The dump with its frames; equal ones are one object. Raises DataLoss where the numbers are not those of
    frames."""
    core, frames, numbers, counts = apart
    if len(counts) != len(core.dump.stacks) or int(counts.sum()) != len(numbers) or (numbers >= len(frames)).any():
        raise DataLoss("the calls of a dump's stacks do not fit them", where="a reading process")
    ends = np.cumsum(counts.astype(np.uint64)).tolist()
    stacks = tuple(
        replace(stack, frames=tuple(frames[number] for number in numbers[start:end].tolist()))
        for stack, start, end in zip(core.dump.stacks, [0, *ends], ends, strict=False)
    )
    return core._replace(dump=replace(core.dump, stacks=stacks))


def call_frame_section(code: CodeObject) -> bytes:
    """The content of a code object's ``.debug_frame``; nothing where it has none, or is not linked."""
    section = code.section(".debug_frame") if code.vendor is Vendor.AMD and code.linked else None
    return section.data if section is not None else b""


_NAMES = {
    1: "Lane Illegal Address",
    2: "Lane User Stack Overflow",
    3: "Device Hardware Stack Overflow",
    4: "Warp Illegal Instruction",
    5: "Warp Out-of-range Address",
    6: "Warp Misaligned Address",
    7: "Warp Invalid Address Space",
    8: "Warp Invalid PC",
    9: "Warp Hardware Stack Overflow",
    10: "Device Illegal Address",
    11: "Lane Misaligned Address",
    12: "Warp Assert",
    13: "Lane Syscall Error",
    14: "Warp Illegal Address",
    15: "Lane Non-migratable System Atomic",
    16: "Lane Invalid System Atomic",
    17: "Cluster Out-of-range Address",
    18: "Cluster Block Not Present",
    19: "Warp Stack Canary",
    20: "Warp Tensor Memory Access Check",
    21: "Warp Tensor Memory Leak",
    22: "Warp Call Requires Newer Driver",
    23: "Warp Misaligned PC",
    24: "Warp PC Overflow",
    25: "Warp Misaligned Register",
    26: "Warp Illegal Instruction Encoding",
    27: "Warp Illegal Instruction Parameter",
    28: "Warp Out-of-range Register",
    29: "Warp Invalid Constant Address",
    30: "Warp MMU Fault",
    31: "Warp Barrier Arrival Mismatch",
    32: "Cluster Shared Memory Uncorrectable Error",
    33: "Warp API Stack Error",
    34: "Warp Block Not Present",
    35: "Warp User Stack Overflow",
    36: "TMA Syscall Error",
}


def cuda_fault(number: int) -> CoreFault | None:
    """The exception of that number; None for 0, which is none."""
    if number == 0:
        return None
    meaning = _NAMES.get(number, "an exception that symd does not know")
    return CoreFault(number, f"CUDA_EXCEPTION_{number}", meaning)


TRAPPED = CoreFault(0, "SIGTRAP", "the warp stopped at a breakpoint or trap")
"""The fault of a warp that is broken and in which no lane has an exception."""
