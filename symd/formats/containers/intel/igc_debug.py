"""The debug data that Intel's graphics compiler (IGC) hands out for a whole module: a header, then for every kernel its
name and an ELF image with the DWARF of its Gen code.

Source: program_debug_data.h of the compiler (SProgramDebugDataHeaderIGC, SKernelDebugDataHeaderIGC), little-endian
u32s:

    program header  magic "CTNI", version, size, device, stepping, pointer size, number of kernels
    kernel header   name size (padding counted), size of the ELF image (padding counted), size of Gen debug data
    then            the name, NUL-terminated, zero-padded to 4 bytes; the ELF image; the Gen debug data (always empty)

Size and pointer size are never filled in. The compiler's patch-token program binary begins with the same magic and
version, but its third word is the device: see ``patch_tokens``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from symd.errors import Malformed
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.intel import core_name

NAME = "igc-debug"
MAGIC = b"CTNI"
_HEADER = struct.Struct("<4s6I")
_KERNEL = struct.Struct("<3I")


def claims(data: bytes) -> bool:
    """The magic, and the size word left empty: program binaries have their device there."""
    return data[:4] == MAGIC and data[8:12] == b"\0\0\0\0"


def read(element: Element, budget: Budget) -> Contents:
    """One element a kernel that has debug data; kernels without any are named in the notes. Trailing bytes are allowed:
    the driver's size may count headers that it did not write."""
    data = element.data
    if len(data) < _HEADER.size:
        raise Malformed(f"the file ends inside the program header, at byte {len(data)}", where="IGC debug data")
    _, version, _, device, stepping, _, count = _HEADER.unpack_from(data)
    target = core_name(device) or element.target
    elements, notes = [], []
    for name, image in _kernels(data, count):
        budget.count_elements(name)
        if image:
            elements.append(Element(name, image, kernel=name, target=target))
        else:
            notes.append(f"kernel {name} has no debug data")
    facts = {"version": version, "device": device, "stepping": stepping, "kernel_count": count}
    return Contents(tuple(elements), notes=tuple(notes), facts=facts)


def _kernels(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    at = _HEADER.size
    for number in range(count):
        where = f"IGC debug data: kernel {number} of {count}"
        if at + _KERNEL.size > len(data):
            raise Malformed(f"the file ends inside the kernel header, at byte {len(data)}", where=where)
        name_size, image_size, gen_size = _KERNEL.unpack_from(data, at)
        at += _KERNEL.size
        padded = name_size + 3 & ~3
        end = at + padded + image_size + gen_size
        if end > len(data):
            raise Malformed(f"its sizes end at byte {end}, past the file's {len(data)} bytes", where=where)
        name, nul, _ = data[at : at + padded].partition(b"\0")
        if not nul:
            raise Malformed(f"its name of {name_size} bytes has no end", where=where)
        yield name.decode("utf-8", "replace"), data[at + padded : at + padded + image_size]
        at = end
