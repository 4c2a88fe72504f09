"""CUDA fat binaries: containers, one after the other, whose entries are cubins, PTX and LTO intermediates for several
architectures, plain or compressed.

Container: u32 magic, u16 version 1, u16 header size, u64 size of the rest. Entry: u16 kind, u16 version, u32 header
size, u64 stored size, u32 compressed size, u32 offset of the options, u16 minor, u16 major, u32 architecture, u32
offset and u32 size of the name, u64 flags at byte 40, u64 expanded size at byte 56. Name and options follow. The header
of a concatenated entry (``--concat``, from 13.4 on: several cubins, compressed as one) ends with u32 number and u32
size of a list; in this each image has what an entry has, but u32 offset and u64 size in what the entry expands to,
padded to 8 bytes. Measured with fatbinary 13.0 and 13.5; the result equals what cuobjdump extracts.

A fat binary may also lie among the data of a host program, in no section of its own, as cuFFT's do: its header gives
its length, and the lengths of its entries must agree.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import lz4.block

from symd.errors import Malformed, SymdError, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.file_part import FilePart, part_of
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.contents import expand_zstd
from symd.model.texts import plural

NAME = "cuda-fatbin"
MAGIC = b"\x50\xed\x55\xba"
PTX, ELF, LTO, TILE, CONCATENATED = 1, 2, 8, 0x80, 0x100
KINDS = {PTX: "PTX", ELF: "ELF", LTO: "LTO", TILE: "Tile IR", CONCATENATED: "concatenated"}
_HELD = {
    PTX: "no machine code",
    LTO: "NVVM IR and no machine code, which linking makes of it (nvcc -dlto, nvlink)",
    TILE: "no machine code, which tileiras makes of it",
}
_OF_PREFIX = {PTX: "compute", LTO: "lto"}
DEBUG, LZ4, ZSTD, ARCHITECTURE_SPECIFIC, FAMILY_SPECIFIC = 0x2, 0x2000, 0x8000, 0x100000, 0x200000
_HEADER = struct.Struct("<HHIQIIHHIIIQQQ")
_LIST = struct.Struct("<II")


class FatbinEntry(NamedTuple):
    """One entry, or one image of a concatenated entry: ``stored`` as it lies in the file, ``raw_size`` bytes once
    expanded; ``offset`` from the first byte of the fat binary. Of an image, ``inside`` is where it is in what
    ``whole_size`` bytes are once expanded."""

    offset: int
    kind: int
    target: str
    name: str
    options: str
    flags: int
    raw_size: int
    stored: FilePart
    inside: slice | None = None
    whole_size: int = 0

    @property
    def compression(self) -> str:
        return "lz4" if self.flags & LZ4 else "zstd" if self.flags & ZSTD else "none"

    @property
    def label(self) -> str:
        """How notes and errors call it."""
        what = "image" if self.inside else "entry"
        return f"{_kind_name(self.kind)} {what} {self.target} at byte {self.offset}"

    def facts(self) -> dict[str, Any]:
        return {
            "kind": KINDS.get(self.kind, str(self.kind)),
            "target": self.target,
            "name": self.name,
            "options": self.options,
            "offset": self.offset,
            "compression": self.compression if self.kind != LTO else "none",
            "stored_size": len(self.stored),
            "size": self.raw_size,
            "debug": bool(self.flags & DEBUG),
            "concatenated": self.inside is not None,
        }


def claims(data: bytes) -> bool:
    """The magic number 0xBA55ED50."""
    return data[:4] == MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """An element for every ELF entry and image, named by its target. PTX, LTO, Tile IR and unknown entries are named in
    the notes and skipped before anything is expanded. What is damaged is named in a note; where nothing else is left it
    is raised."""
    notes: list[str] = []
    elements: list[Element] = []
    failures: list[SymdError] = []
    facts = []
    skipped: list[FatbinEntry] = []
    expander = _Expander(budget)
    for entry in _entries(part_of(element.data), budget, notes, failures):
        facts.append(entry.facts())
        if entry.kind != ELF:
            budget.count_elements(entry.label)
            skipped.append(entry)
            continue
        elements.append(Element(entry.target, partial(expander.content, entry), target=entry.target))
    if failures and not elements:
        raise failures[0]
    notes = [*_skipped(skipped), *notes, *(f"left out: {error}" for error in failures)]
    return Contents(tuple(elements), notes=tuple(notes), facts={"entries": facts})


def expanded_size(data: FilePart, budget: Budget) -> int:
    """Bytes that its compressed cubins say they expand to."""
    return sum(
        each.raw_size for each in _entries(data, budget, [], []) if each.kind == ELF and each.compression != "none"
    )


def _skipped(entries: Sequence[FatbinEntry]) -> Iterator[str]:
    """A note for each kind of entry without machine code: a library has thousands of them."""
    kinds: dict[int, list[FatbinEntry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    for kind, found in kinds.items():
        one, held = len(found) == 1, _HELD.get(kind)
        targets = ", ".join(dict.fromkeys(entry.target for entry in found))
        what = found[0].label if one else f"{len(found)} {_kind_name(kind)} entries ({targets})"
        if held:
            yield f"{what}: skipped, {'it holds' if one else 'they hold'} {held}"
        else:
            yield f"{what}: skipped, symd does not know what {'it holds' if one else 'they hold'}"


def _kind_name(kind: int) -> str:
    return KINDS.get(kind, f"kind {kind}")


def _entries(data: FilePart, budget: Budget, notes: list[str], failures: list[SymdError]) -> Iterator[FatbinEntry]:
    """The entries of all containers. The first thing that cannot be read ends the walk of its container."""
    at = 0
    while at < len(data):
        budget.count_elements(f"{NAME}: container at byte {at}")
        try:
            start, end = container(data, at)
        except SymdError as error:
            failures.append(error)
            start, end = len(data), min(at + 16, len(data))
        if end > len(data):
            failures.append(Malformed(f"the container at byte {at} ends at byte {end}, past {len(data)}", where=NAME))
        yield from container_entries(data, start, min(end, len(data)), failures)
        at = _next(data, end, notes)


def _next(data: FilePart, end: int, notes: list[str]) -> int:
    """Where the next container starts: containers are aligned to 8 bytes, and sections pad with zeros."""
    found = data.find(MAGIC, end)
    found = found if found >= 0 else len(data)
    gap = found - end
    if gap > 0 and not data.part(end, found).blank():
        notes.append(
            f"{gap} {plural(gap, 'byte')} at byte {end}, behind a container, {plural(gap, 'is', 'are')} no container"
        )
    return found


def container(data: FilePart, at: int) -> tuple[int, int]:
    """Where the entries of the container at this byte start and end. Raises Malformed or Unsupported."""
    if at + 16 > len(data):
        raise Malformed(f"the container header at byte {at} ends past the file's {len(data)} bytes", where=NAME)
    version, header, size = struct.unpack("<HHQ", data[at + 4 : at + 16])
    if version != 1:
        raise Unsupported(f"the container at byte {at} has version {version}, only 1 is known", where=NAME)
    if header < 16:
        raise Malformed(f"the container at byte {at} has a header of {header} bytes instead of 16", where=NAME)
    return at + header, at + header + size


def container_entries(data: FilePart, at: int, end: int, failures: list[SymdError]) -> Iterator[FatbinEntry]:
    """The entries between these bytes. What cannot be read becomes a failure, and ends them."""
    while at < end:
        try:
            entry, at = _entry(data, at, end)
        except SymdError as error:
            failures.append(error)
            return
        if entry.kind != CONCATENATED:
            yield entry
            continue
        try:
            yield from _images(data, entry)
        except SymdError as error:
            failures.append(error)


def _entry(data: FilePart, at: int, end: int) -> tuple[FatbinEntry, int]:
    """The entry at byte ``at`` and where the next one starts."""
    place = f"{NAME}: entry at byte {at}"
    if at + 64 > end:
        raise Malformed(f"its header ends past byte {end}", where=place)
    (kind, _, header, size, packed, options, _, _, arch, name, name_size, flags, _, raw) = _HEADER.unpack(
        data[at : at + 64]
    )
    if header < 64 or at + header + size > end:
        raise Malformed(f"header of {header} and content of {size} bytes end past byte {end}", where=place)
    head = data[at : at + header]
    compressed = bool(flags & (LZ4 | ZSTD))
    if compressed and packed > size:
        raise Malformed(f"{packed} compressed bytes in a content of {size}", where=place)
    stored = data.part(at + header, at + header + (packed if compressed else size))
    entry = FatbinEntry(
        at, kind, _target(kind, arch, flags), _text(head, name, name_size), _options(head, options), flags,
        raw if compressed else size, stored,
    )  # fmt: skip
    return entry, at + header + size


def _images(data: FilePart, entry: FatbinEntry) -> Iterator[FatbinEntry]:
    """The images of a concatenated entry. Raises Malformed where the list or an image leaves the entry."""
    place = f"{NAME}: concatenated entry at byte {entry.offset}"
    header, begin = (int.from_bytes(data[entry.offset + at : entry.offset + at + 4], "little") for at in (4, 20))
    first = entry.offset + begin
    number, size = _LIST.unpack(data[first : first + _LIST.size].ljust(_LIST.size, b"\0"))
    if not _HEADER.size <= begin <= header - size:
        raise Malformed(f"its list of {size} bytes at byte {first} leaves its header of {header}", where=place)
    listed, at = data[first : first + size], _LIST.size
    for _ in range(number):
        if at + _HEADER.size > size:
            raise Malformed(f"its list of {number} images ends inside of one, at byte {first + size}", where=place)
        (kind, _, start, length, _, options, _, _, arch, name, name_size, flags, _, _) = _HEADER.unpack_from(listed, at)
        if start + length > entry.raw_size:
            raise Malformed(
                f"the image at byte {first + at} ends at byte {start + length} of {entry.raw_size} that it expands to",
                where=place,
            )
        head = listed[at : at + _image_head(listed, at, name and name + name_size, options)]
        yield FatbinEntry(
            first + at, kind, _target(kind, arch, flags), _text(head, name, name_size), _options(head, options),
            flags | entry.flags & (LZ4 | ZSTD), length, entry.stored, slice(start, start + length), entry.raw_size,
        )  # fmt: skip
        at += len(head)


def _image_head(listed: bytes, at: int, name_end: int, options: int) -> int:
    """Bytes that a list has of the image at byte ``at``: behind the fixed part follow the name and the options, each
    with a NUL, padded."""
    end = max(_HEADER.size, name_end and name_end + 1)
    if options and at + options + _LIST.size <= len(listed):
        end = max(end, options + _LIST.size + _LIST.unpack_from(listed, at + options)[1] + 1)
    return -(-end // 8) * 8


def _target(kind: int, arch: int, flags: int) -> str:
    """ "sm_90a" for code, "compute_90a" for PTX, "lto_90" for LTO."""
    letter = "a" if flags & ARCHITECTURE_SPECIFIC else "f" if flags & FAMILY_SPECIFIC else ""
    return f"{_OF_PREFIX.get(kind, 'sm')}_{arch}{letter}"


def _text(head: bytes, offset: int, size: int) -> str:
    return head[offset : offset + size].split(b"\0")[0].decode("utf-8", "replace") if offset else ""


def _options(head: bytes, offset: int) -> str:
    """The options record: u32 offset and u32 size of the text. From sm_100 on a cubin has other things there, behind a
    NUL."""
    if not offset or offset + _LIST.size > len(head):
        return ""
    start, size = _LIST.unpack_from(head, offset)
    return _text(head, start, size)


class _Expander:
    """What entries of a fat binary expand to. The one expanded last is kept: the images of a concatenated entry are
    opened one after the other."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._stored: FilePart | None = None
        self._content = b""

    def content(self, entry: FatbinEntry) -> bytes:
        where = f"{NAME}: {entry.label}"
        if entry.inside is None:
            content = self._expanded(entry, entry.raw_size, where)
            return content if entry.compression != "none" else _unpadded(content)
        if self._stored is not entry.stored:
            self._stored, self._content = None, b""
            self._content = self._expanded(entry, entry.whole_size, where)
            self._stored = entry.stored
        return _unpadded(self._content[entry.inside])

    def _expanded(self, entry: FatbinEntry, size: int, where: str) -> bytes:
        if entry.flags & LZ4:
            return _expand_lz4(entry.stored.view(), size, self._budget, where)
        if entry.flags & ZSTD:
            return expand_zstd(entry.stored.view(), size, self._budget, where)
        return entry.stored[:]


def _unpadded(content: bytes) -> bytes:
    """A cubin without the zeros that make its size a multiple of 8, as cuobjdump extracts it; other bytes as they
    are."""
    with suppress(SymdError):
        size = elf.image_size(lambda at, size: content[at : at + size])
        if size is not None and len(content) - 8 < size < len(content) and not any(content[size:]):
            return content[:size]
    return content


def _expand_lz4(data: memoryview, size: int, budget: Budget, where: str) -> bytes:
    """An LZ4 block (no frame) that must expand to exactly ``size`` bytes."""
    budget.charge_expansion(size, where)
    try:
        result: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise Malformed(f"LZ4 data is damaged: {error}", where=where) from error
    if len(result) != size:
        raise Malformed(f"LZ4 data should expand to {size} bytes and gives {len(result)}", where=where)
    return result


class FoundFatbins(NamedTuple):
    """Where those are that hold machine code, in order, and how many hold none."""

    extents: tuple[slice, ...]
    without_code: int


def fat_binaries_in(data: FilePart, name: str, budget: Budget) -> FoundFatbins:
    """The fat binaries in a section's content; every magic number counts as an element, and every entry, however often
    it is looked at. What does not read as one from end to end is data of another kind. Raises LimitExceeded."""
    found, without_code, at = [], 0, 0
    while (at := data.find(MAGIC, at)) >= 0:
        budget.count_elements(name)
        kinds, end = _kinds(data, at, name, budget)
        if ELF in kinds:
            found.append(slice(at, end))
        else:
            without_code += len(kinds) > 0
        at = end
    return FoundFatbins(tuple(found), without_code)


def _kinds(data: FilePart, at: int, name: str, budget: Budget) -> tuple[set[int], int]:
    """The kinds of the entries of the container at this byte, and where it ends; none where there is no container."""
    nothing: tuple[set[int], int] = set(), at + len(MAGIC)
    try:
        start, end = container(data, at)
    except SymdError:
        return nothing
    if end > len(data):
        return nothing
    failures: list[SymdError] = []
    kinds = set()
    for entry in container_entries(data, start, end, failures):
        budget.count_elements(name)
        kinds.add(entry.kind)
    return nothing if failures or not kinds else (kinds, end)
