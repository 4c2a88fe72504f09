"""Kernel packs of ROCm (``.kpack``): the code objects that were taken out of host programs, by program and processor;
and the reference that a host program has to its packs.

A pack: ``KPAK``, u32 version, u64 offset of the table of contents, which is msgpack and reaches to the end of the file.
Its ``toc`` is {program: {processor: {type, ordinal, original_size}}}, where a program is its path and ``#`` and the
number of its translation unit. ``compression_scheme`` says what an ordinal means: "none", an entry of ``blobs``, each
{offset, size}; or "zstd-per-kernel", a frame at ``zstd_offset``, where a u32 count stands and then a u32 size before
each frame.

A reference: section ``.rocm_kpack_ref`` is a msgpack map of ``kernel_name``, under which packs list the program, and
``kpack_search_paths``, relative to the program's folder, in which ``@GFXARCH@`` stands for the processor. Each wrapper
of ``.hipFatBinSegment`` (24 bytes: magic, version, address of that section, u32 number) then begins with ``HIPK``;
``.hip_fatbin`` stays, mostly zeros.

Sources: ROCm's rocm-systems, shared/kpack: docs/multi_arch_packaging_with_kpack.md, runtime/src/toc_parser.cpp and
loader.cpp, python/rocm_kpack/elf/kpack_transform.py.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

import msgpack

from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers.amd.msgpack import unpacked
from symd.formats.containers.format import Contents, Element
from symd.formats.elf import Elf
from symd.formats.elf.contents import expand_zstd

NAME = "kpack"
MAGIC = b"KPAK"
VERSION = 1
CODE_OBJECT = "hsaco"
"""The type of an entry that is a code object; no other is known."""
ALIGNMENT = 64
_OVERLAP = 8
"""Times the size of the file that the stored bytes of all entries together may have."""
_HEADER = struct.Struct("<4sIQ")
_U32 = struct.Struct("<I")
_FACTS = ("group_name", "gfx_arch_family", "gfx_arches", "compression_scheme")


class Entry(NamedTuple):
    """A code object of a pack: ``program`` is its path and ``#`` and its number, ``processor`` its target ID."""

    program: str
    processor: str
    content: bytes


class Pack(NamedTuple):
    """The code objects of a pack; notes on what was left out; the facts of its table about the whole pack."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]


class _TableEntry(NamedTuple):
    """The entry of the table for one code object. ``size`` is its expanded size in bytes, None where the table has
    none."""

    program: str
    processor: str
    type: str
    ordinal: int
    size: int | None

    @property
    def name(self) -> str:
        """The entry in words, for notes."""
        return f"{self.program} for {self.processor}"


def claims(data: bytes) -> bool:
    """The magic bytes."""
    return data[:4] == MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """An element for every code object, named ``program-processor`` with ``_`` for each ``/``. Raises Malformed,
    Unsupported."""
    pack = opened(element.data, budget)
    elements = tuple(
        Element(f"{entry.program}-{entry.processor}".replace("/", "_"), entry.content, target=entry.processor)
        for entry in pack.entries
    )
    return Contents(elements, notes=pack.notes, facts=pack.facts)


def opened(data: bytes, budget: Budget, program: str | None = None) -> Pack:
    """The code objects of a pack, or those of one ``program``, whatever their numbers; others are not expanded.

    A damaged one becomes a note, and so do further names of the same bytes. Raises Malformed where the table cannot be
    read, Unsupported for another version or another compression.
    """
    table = _table(data)
    lines = [line for line in _table_entries(table) if program is None or line.program.rpartition("#")[0] == program]
    places, compressed = _places(data, table, budget)
    entries, notes = list[Entry](), list[str]()
    for line, (start, end) in _without_repetition(lines, places, _OVERLAP * len(data), notes):
        try:
            content = data[start:end]
            found = _expanded(content, line, budget) if compressed else content
            entries.append(Entry(line.program, line.processor, found))
        except LimitExceeded:
            raise
        except SymdError as error:
            notes.append(f"left out: {error}")
    return Pack(tuple(entries), tuple(notes), {key: table[key] for key in _FACTS if key in table})


def packed(entries: Iterable[Entry]) -> bytes:
    """A pack of the entries, not compressed; equal entries give equal bytes."""
    blobs, toc = bytearray(), dict[str, dict[str, Any]]()
    extents: list[dict[str, int]] = []
    start = -(-_HEADER.size // ALIGNMENT) * ALIGNMENT
    for entry in entries:
        extents.append({"offset": start + len(blobs), "size": len(entry.content)})
        blobs += entry.content + bytes(-len(entry.content) % ALIGNMENT)
        line = {"type": CODE_OBJECT, "ordinal": len(extents) - 1, "original_size": len(entry.content)}
        toc.setdefault(entry.program, {})[entry.processor] = line
    names = {
        "group_name": "",
        "gfx_arch_family": "",
        "gfx_arches": sorted({processor for line in toc.values() for processor in line}),
    }
    table = {"format_version": VERSION, **names, "compression_scheme": "none", "blobs": extents, "toc": toc}
    head = _HEADER.pack(MAGIC, VERSION, start + len(blobs))
    return b"".join((head.ljust(start, b"\0"), blobs, msgpack.packb(table)))


def _table(data: bytes) -> dict[Any, Any]:
    if len(data) < _HEADER.size:
        raise Malformed("the kernel pack ends inside its header")
    _, version, offset = _HEADER.unpack_from(data)
    if version != VERSION:
        raise Unsupported(f"kernel packs of version {version} are not read (1 is)")
    if not _HEADER.size <= offset < len(data):
        raise Malformed(f"the kernel pack puts its table at byte {offset}, and has {len(data)}")
    table = unpacked(data[offset:], "the kernel pack's table")
    if not isinstance(table, dict):
        raise Malformed("the kernel pack's table is not a map")
    return table


def _table_entries(table: dict[Any, Any]) -> Iterator[_TableEntry]:
    """The entries of the table. Raises Malformed for a table that is not as the format says."""
    for program, processors in _map(table.get("toc"), "toc").items():
        for processor, line in _map(processors, f"entry {program!r}").items():
            entry = _map(line, f"entry {program!r} for {processor!r}")
            ordinal, size = entry.get("ordinal"), entry.get("original_size")
            if not _is_size(ordinal) or not (size is None or _is_size(size)):
                raise Malformed(
                    f"entry {program!r} for {processor!r} of the kernel pack has no ordinal that can be read"
                )
            yield _TableEntry(str(program), str(processor), str(entry.get("type", CODE_OBJECT)), ordinal, size)


def _places(data: bytes, table: dict[Any, Any], budget: Budget) -> tuple[list[tuple[int, int]], bool]:
    """(the bytes [start, end) of each ordinal, whether they are compressed)."""
    scheme = table.get("compression_scheme")
    if scheme == "none":
        blobs = table.get("blobs")
        if not isinstance(blobs, list):
            raise Malformed("the kernel pack has no list of blobs")
        budget.count_elements("kernel pack", len(blobs))
        return [_extent(blob, data) for blob in blobs], False
    if scheme == "zstd-per-kernel":
        return _frames(data, table.get("zstd_offset"), table.get("zstd_size"), budget), True
    raise Unsupported(f"the kernel pack is compressed by {scheme!r}, which is not known (none and zstd-per-kernel are)")


def _without_repetition(
    lines: Iterable[_TableEntry], places: list[tuple[int, int]], most: int, notes: list[str]
) -> Iterator[tuple[_TableEntry, tuple[int, int]]]:
    """(entry, its bytes [start, end)) for each entry that can be read; all together have at most ``most`` bytes. Of
    entries whose bytes begin at one place only the first is given: an entry takes thirty bytes of the file, and opening
    it a thousand times the work. ``notes`` gets what is left out."""
    first, again, held = dict[tuple[int, bool], _TableEntry](), Counter[tuple[int, bool]](), 0
    for line in lines:
        if line.type != CODE_OBJECT:
            notes.append(f"left out: {line.name} is of type {line.type!r}, and only {CODE_OBJECT!r} is known")
            continue
        if line.ordinal >= len(places):
            notes.append(f"left out: {line.name} is code object {line.ordinal} of a kernel pack with {len(places)}")
            continue
        start, end = places[line.ordinal]
        key = start, start < end  # an empty one begins where the next one does
        if key in first:
            again[key] += 1
            continue
        held += end - start
        if held > most:
            notes.append(
                f"left out: {line.name} and those after it: the pack's entries hold {_OVERLAP} times its bytes"
            )
            break
        first[key] = line
        yield line, (start, end)
    notes.extend(
        f"left out: {count} more {'entry' if count == 1 else 'entries'} with the bytes of {first[key].name}"
        for key, count in again.items()
    )


def _expanded(frame: bytes, line: _TableEntry, budget: Budget) -> bytes:
    if line.size is None:
        raise Malformed(f"the kernel pack does not say to how many bytes {line.name} expands")
    return expand_zstd(frame, line.size, budget, line.name)


def _extent(blob: Any, data: bytes) -> tuple[int, int]:
    """The bytes [start, end) of a blob. Raises Malformed."""
    offset, size = (_map(blob, "blob").get(key) for key in ("offset", "size"))
    if not (_is_size(offset) and _is_size(size)) or offset + size > len(data):
        raise Malformed(f"a blob of the kernel pack leaves its {len(data)} bytes")
    return offset, offset + size


def _frames(data: bytes, offset: Any, size: Any, budget: Budget) -> list[tuple[int, int]]:
    """The bytes [start, end) of each frame. Raises Malformed."""
    if not (_is_size(offset) and _is_size(size)) or size < _U32.size or offset + size > len(data):
        raise Malformed(f"the frames of the kernel pack leave its {len(data)} bytes")
    (count,) = _U32.unpack_from(data, offset)
    budget.count_elements("kernel pack", count)
    at, end, frames = offset + _U32.size, offset + size, list[tuple[int, int]]()
    while len(frames) < count:
        if at + _U32.size > end:
            raise Malformed(f"the kernel pack says {count} frames, and {len(frames)} are there")
        start = at + _U32.size
        at = start + _U32.unpack_from(data, at)[0]
        if at > end:
            raise Malformed(f"frame {len(frames)} of the kernel pack ends at byte {at}, past {end}")
        frames.append((start, at))
    return frames


def _map(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"{what} of the kernel pack is not a map")
    return value


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


SECTION = ".rocm_kpack_ref"
WRAPPERS = ".hipFatBinSegment"
HIPK_MAGIC = b"HIPK"
PROCESSOR = "@GFXARCH@"
_WRAPPER_SIZE = 24


class KpackReference(NamedTuple):
    """What a host program says of the kernel packs that it needs. ``units`` is how many code objects the program has
    for each processor: ``program#0`` and so on."""

    program: str
    search_paths: tuple[str, ...]
    units: int


def reference(image: Elf) -> KpackReference | None:
    """The reference of a program to its kernel packs; None where it has its code objects itself. Raises Malformed."""
    section = image.by_name.get(SECTION)
    if section is None:
        return None
    table = unpacked(section.data, SECTION)
    if not isinstance(table, dict):
        raise Malformed(f"{SECTION} is not a map")
    program, paths = table.get("kernel_name"), table.get("kpack_search_paths")
    if not isinstance(program, str) or not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise Malformed(f"{SECTION} does not say where the program's kernel packs are")
    return KpackReference(program, tuple(paths), _units(image))


def _units(image: Elf) -> int:
    wrappers = image.by_name.get(WRAPPERS)
    if wrappers is None:
        return 0
    return sum(wrappers.data[at : at + 4] == HIPK_MAGIC for at in range(0, len(wrappers.data), _WRAPPER_SIZE))
