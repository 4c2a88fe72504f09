"""Clang's offload bundles: a table of entries named ``kind-triple-target``, and their code objects.

Source: Clang's offload bundler documentation, "Bundled Binary File Layout"."""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple

from symd.errors import Malformed
from symd.formats.budget import Budget
from symd.formats.containers.amd.amdgpu import target_of_name
from symd.formats.containers.file_part import FilePart
from symd.formats.containers.format import Contents, Element

NAME = "offload-bundle"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_ENTRY = struct.Struct("<QQQ")
"""Offset, size, length of the ID."""
BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


class BundleEntry(NamedTuple):
    """An entry of an offload bundle. ``offset`` and ``size`` are bytes from the start of the bundle."""

    id: str
    offset: int
    size: int


def claims(data: bytes) -> bool:
    """The magic string of 24 bytes."""
    return data[:24] == MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """An element for every device entry that holds bytes, named by the entry's ID. An entry that leaves the bundle, or
    that overlaps what comes before it, becomes a note; a bundle of which no entry is sound raises Malformed."""
    data = element.data
    found, free = entries(data, budget)
    elements: list[Element] = []
    notes: list[str] = []
    for entry in sorted(found, key=lambda one: one.offset):
        if not entry.size or entry.id.startswith("host-"):
            continue
        problem = _problem(entry, free, data)
        if problem:
            notes.append(f"left out: {entry.id} {problem}")
            continue
        free = entry.offset + entry.size
        if data[entry.offset : min(entry.offset + 4, free)] in BITCODE:
            notes.append(f"left out: {entry.id} is LLVM bitcode, not a code object")
            continue
        elements.append(Element(entry.id, partial(_content, data, entry), target=target_of_name(entry.id)))
    if notes and not elements and not any("bitcode" in note for note in notes):
        raise Malformed(f"no entry of the bundle is sound; the first: {notes[0].removeprefix('left out: ')}")
    return Contents(tuple(elements), notes=tuple(notes), facts={"entries": [entry.id for entry in found]})


def _content(data: bytes, entry: BundleEntry) -> bytes:
    return data[entry.offset : entry.offset + entry.size]


def _problem(entry: BundleEntry, free: int, data: bytes) -> str:
    if entry.offset + entry.size > len(data):
        return f"ends at byte {entry.offset + entry.size}, past the bundle's {len(data)}"
    if entry.offset < free:
        return f"begins at byte {entry.offset}, inside what stands before it (up to byte {free})"
    return ""


def entries(data: bytes, budget: Budget) -> tuple[list[BundleEntry], int]:
    """The table, and the offset of the byte after it: magic, u64 count, then per entry u64 offset, u64 size, u64 ID
    length, ID. Raises Malformed where it leaves the bytes."""
    if len(data) < 32:
        raise Malformed(f"the bundle ends inside its header, at byte {len(data)}")
    (count,) = struct.unpack_from("<Q", data, 24)
    if count > (len(data) - 32) // 24:
        raise Malformed(f"the bundle says {count} entries, more than its {len(data)} bytes can list")
    budget.count_elements("offload bundle", count)
    result, at = [], 32
    for number in range(count):
        if at + 24 > len(data):
            raise Malformed(f"the bundle ends inside entry {number} of {count}")
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        at += 24 + length
        if at > len(data):
            raise Malformed(f"the ID of entry {number}, {length} bytes long, leaves the bundle")
        result.append(BundleEntry(data[at - length : at].decode("utf-8", "backslashreplace"), offset, size))
    return result, at


def extent(data: bytes | FilePart, start: int, budget: Budget) -> int:
    """How many bytes the bundle at ``start`` takes; 0 when its table is not sound. Bundles stand back to back in a
    host program's section, and a bundle does not say its own length.

    The entries of a table that is not sound are counted: the next bundle is looked for behind its first bytes, so that
    the same entries may be those of many tables. Raises LimitExceeded.
    """
    if start + 32 > len(data):
        return 0
    (count,) = struct.unpack("<Q", data[start + 24 : start + 32])
    at, end, passed = start + 32, start + 32, 0
    if count > (len(data) - at) // _ENTRY.size:
        return 0
    while passed < count and at + _ENTRY.size <= len(data):
        offset, size, length = _ENTRY.unpack(data[at : at + _ENTRY.size])
        at += _ENTRY.size + length
        end = max(end, at, start + offset + size)
        passed += 1
    if passed == count and end <= len(data):
        return end - start
    budget.count_elements("offload bundle", passed)
    return 0
