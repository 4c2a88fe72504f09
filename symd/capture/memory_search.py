"""Modules found in a process's memory, where its driver and its program keep them.

Only the beginning of such a module is found. Its size follows from its own headers (``extent``).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from symd.capture.process import MemoryMapping, RunningProcess
from symd.config import Limits
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.formats.containers import UnpackedModule, compressed_bundle
from symd.formats.containers.intel import igc_debug
from symd.formats.containers.nvidia import fatbin
from symd.formats.elf.constants import EM_AMDGPU, EM_CUDA, EM_INTEL182, EM_INTELGT, EM_NONE, ET_CORE

ATTACH_SECONDS: Final = 60.0
"""Time that the memory of a running process is searched, and what its runtime lists is read."""
Read = Callable[[int, int], bytes]
"""Offset and size to bytes, fewer where there are no more."""
MAGICS: Final = (elf.MAGIC, igc_debug.MAGIC, compressed_bundle.MAGIC, fatbin.MAGIC)
"""What the modules begin with whose end can be told. What lies unpacked in a bundle of Clang's is an ELF image
itself."""
HEAD_BYTES: Final = 64
"""Bytes from which ``may_begin`` knows."""
_MACHINES: Final = (EM_CUDA, EM_INTELGT, EM_AMDGPU, EM_INTEL182)
_INTEL_TYPES: Final = range(0xFF01, 0xFF14)
"""The types of Intel's runtime and compiler, for which the machine may be a product's number."""
_MOST_KERNELS: Final = 100_000


def may_begin(head: bytes) -> bool:
    """Whether a module of a device may begin with these bytes."""
    kind = elf.kind(head)
    if kind is not None:
        intel = kind.type in _INTEL_TYPES and kind.machine in (EM_NONE, EM_INTELGT)
        return head[4] in (1, 2) and head[5] == 1 and kind.type != ET_CORE and (kind.machine in _MACHINES or intel)
    return igc_debug.claims(head) or compressed_bundle.claims(head) or head[:8] == fatbin.MAGIC + b"\1\0\x10\0"


def extent(read: Read) -> int | None:
    """The bytes of the module that ``read`` begins with; None where its own tables do not say, or say nonsense."""
    head = read(0, HEAD_BYTES)
    try:
        if head[:4] == elf.MAGIC:
            return elf.image_size(read)
        if head[:4] == igc_debug.MAGIC:
            return _igc_debug(read, head)
        if head[:4] == fatbin.MAGIC:
            return 16 + int(struct.unpack_from("<Q", head, 8)[0])
        return compressed_bundle.header(head).size
    except (SymdError, struct.error):
        return None


def _igc_debug(read: Read, head: bytes) -> int | None:
    kernels = int.from_bytes(head[24:28], "little")
    at = 28
    if not 0 < kernels < _MOST_KERNELS:
        return None
    for _ in range(kernels):
        name, image, generated = struct.unpack("<3I", read(at, 12))
        at += 12 + (name + 3 & ~3) + image + generated
    return at


_PIECE: Final = 4 << 20
_NOT_SEARCHED: Final = ("[vvar]", "[vdso]", "[vsyscall]", "[stack]", "[vvar_vclock]")


class InMemory(NamedTuple):
    """A module at an address of a process."""

    address: int
    data: bytes
    opened: UnpackedModule


@dataclass(slots=True)
class SearchCounts:
    """How far a search went. ``damaged``: beginnings of modules whose rest is not theirs any more, or not yet, or does
    not stay."""

    searched: int = 0
    unsearched: int = 0
    damaged: int = 0
    limits: set[str] = field(default_factory=set)
    """Names of the limits that ended the search early; empty where none did."""


class MemorySearch:
    """Looks for modules in the memory of ``process`` that no file is behind. The process goes on meanwhile: bytes
    count that are the same twice and make a sound module."""

    def __init__(self, process: RunningProcess, mappings: list[MemoryMapping], limits: Limits) -> None:
        self.counts = SearchCounts()
        self._process, self._limits = process, limits
        self._mappings = [each for each in mappings if _is_searched(each)]
        self._end = time.monotonic() + ATTACH_SECONDS

    def __iter__(self) -> Iterator[InMemory]:
        for mapping in self._mappings:
            after = mapping.start
            for start, end in self._process.held_ranges(mapping):
                for found in self._range(start, end, after):
                    after = found.address + len(found.data)
                    yield found

    def _is_over(self, size: int) -> bool:
        if self.counts.searched + size > self._limits.attach_bytes:
            self.counts.limits.add("attach_bytes")
        return self._is_late() or bool(self.counts.limits)

    def _is_late(self) -> bool:
        if time.monotonic() > self._end:
            self.counts.limits.add("attach_seconds")
        return "attach_seconds" in self.counts.limits

    def _range(self, start: int, end: int, after: int) -> Iterator[InMemory]:
        """The modules that begin in a range, none inside another."""
        for at in range(start, end, _PIECE):
            size = min(_PIECE, end - at)
            if self._is_over(size):
                self.counts.unsearched += end - at
                return
            piece = self._process.read(at, size + HEAD_BYTES)
            self.counts.searched += min(len(piece), size)
            for offset in _beginnings(piece, size):
                found = self._module(at + offset) if at + offset >= after else None
                if found is not None:
                    after = found.address + len(found.data)
                    yield found
                elif self._is_late():
                    self.counts.unsearched += end - at - offset
                    return

    def _module(self, address: int) -> InMemory | None:
        size = extent(lambda offset, length: b"" if self._is_late() else self._process.read(address + offset, length))
        if self._is_late():
            return None
        if size is None or size > self._limits.folder_bytes:
            self.counts.damaged += 1
            return None
        data = self._process.read(address, size)
        try:
            opened = containers.unpack(data, self._limits) if len(data) == size else None
        except SymdError:
            opened = None
        if opened is None or not any(code.kernels or code.functions for code in opened.objects):
            self.counts.damaged += 1
            return None
        if self._process.read(address, size) != data:
            self.counts.damaged += 1
            return None
        return InMemory(address, data, opened)


def _is_searched(mapping: MemoryMapping) -> bool:
    return (
        mapping.readable
        and mapping.held > 0
        and not mapping.special
        and not mapping.is_file
        and mapping.file not in _NOT_SEARCHED
    )


def _beginnings(piece: bytes, most: int) -> list[int]:
    """The offsets below ``most`` where modules may begin, in order."""
    return sorted(
        at for magic in MAGICS for at in _occurrences(piece, magic, most) if may_begin(piece[at : at + HEAD_BYTES])
    )


def _occurrences(piece: bytes, magic: bytes, most: int) -> Iterator[int]:
    at = piece.find(magic)
    while 0 <= at < most:
        yield at
        at = piece.find(magic, at + 1)
