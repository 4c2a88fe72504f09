"""Clang's offload bundles: a table of entries named ``kind-triple-target``, and their code objects.

Source: Clang's offload bundler documentation, "Bundled Binary File Layout"."""

from __future__ import annotations

import struct
from typing import NamedTuple

from symd.budget import Budget
from symd.containers.amd.target_id import target_of_name
from symd.containers.format import Contents, Element
from symd.errors import Malformed

NAME = "offload-bundle"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


class BundleEntry(NamedTuple):
    """``offset`` and ``size`` are bytes from the start of the bundle."""

    id: str
    offset: int
    size: int


def claims(data: bytes) -> bool:
    """The magic string of 24 bytes."""
    return data[:24] == MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """An element for every device entry that holds bytes, named by the entry's ID. An entry that leaves the bundle, or that
    overlaps what comes before it, becomes a note; a bundle of which no entry is sound raises Malformed."""
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
        content = data[entry.offset : free]
        if content[:4] in BITCODE:
            notes.append(f"left out: {entry.id} is LLVM bitcode, not a code object")
            continue
        elements.append(Element(entry.id, content, target=target_of_name(entry.id)))
    if notes and not elements and not any("bitcode" in note for note in notes):
        raise Malformed(f"no entry of the bundle is sound; the first: {notes[0].removeprefix('left out: ')}")
    return Contents(tuple(elements), notes=tuple(notes), facts={"entries": [entry.id for entry in found]})


def _problem(entry: BundleEntry, free: int, data: bytes) -> str:
    if entry.offset + entry.size > len(data):
        return f"ends at byte {entry.offset + entry.size}, past the bundle's {len(data)}"
    if entry.offset < free:
        return f"begins at byte {entry.offset}, inside what stands before it (up to byte {free})"
    return ""


def entries(data: bytes, budget: Budget) -> tuple[list[BundleEntry], int]:
    """The table, and the offset of the byte after it: magic, u64 count, then per entry u64 offset, u64 size, u64 ID length, ID.
    Raises Malformed where it leaves the bytes."""
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


def extent(data: bytes, start: int) -> int:
    """How many bytes the bundle at ``start`` takes; 0 when its table is not sound. Bundles stand back to back in a
    host program's section, and a bundle does not say its own length."""
    table = struct.Struct("<QQQ")
    if start + 32 > len(data):
        return 0
    (count,) = struct.unpack_from("<Q", data, start + 24)
    at, end = start + 32, start + 32
    if count > (len(data) - at) // 24:
        return 0
    for _ in range(count):
        if at + 24 > len(data):
            return 0
        offset, size, length = table.unpack_from(data, at)
        at += 24 + length
        end = max(end, start + offset + size)
    return max(at, end) - start if max(at, end) <= len(data) else 0
