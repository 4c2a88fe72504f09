"""LLVM's offload binaries (section ``.llvm.offloading``): device images, each with a map of strings such as its triple
and its processor. Several stand back to back.

Source: LLVM's ``llvm-offload-binary`` documentation, "Binary Format"; version 1 holds one entry, later ones several."""

from __future__ import annotations

import struct
from typing import NamedTuple

from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.offload_bundle import BITCODE
from symd.formats.elf import string_at
from symd.formats.elf.contents import expand_zstd, inflate

NAME = "offload-binary"
MAGIC = b"\x10\xff\x10\xad"
_IMAGES = {1: "object", 2: "LLVM bitcode", 3: "cubin", 4: "CUDA fat binary", 5: "PTX assembly", 6: "SPIR-V"}
_PRODUCERS = {1: "openmp", 2: "cuda", 3: "hip", 4: "hip", 8: "sycl"}  # 3 is how LLVM up to 19 counted
_NOT_CODE = {2, 5}
_ENTRY = struct.Struct("<HHIQQQQ")


class _Image(NamedTuple):
    kind: int
    producer: int
    strings: dict[str, str]
    content: bytes

    @property
    def name(self) -> str:
        names = (_PRODUCERS.get(self.producer, ""), self.strings.get("triple", ""), self.strings.get("arch", ""))
        return "-".join(name for name in names if name) or "image"


def claims(data: bytes) -> bool:
    """The magic bytes."""
    return data[:4] == MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """An element for every image, named ``producer-triple-processor``; bitcode, PTX and images that leave their binary
    become notes. Raises Malformed or Unsupported when nothing could be read."""
    elements: list[Element] = []
    notes: list[str] = []
    failures: list[SymdError] = []
    at = 0
    while at < len(element.data) and element.data[at : at + 4] == MAGIC:
        try:
            binary, at = _binary(element.data, at, budget)
            images = _images(binary, budget)
        except LimitExceeded:
            raise
        except SymdError as error:
            failures.append(error)
            notes.append(f"left out: {error}")
            break
        for image in images:
            _sort(image, elements, notes)
    if failures and not elements and len(notes) == 1:
        raise failures[0]
    return Contents(tuple(elements), notes=tuple(notes))


def _sort(image: _Image, elements: list[Element], notes: list[str]) -> None:
    bitcode = image.content[:4] in BITCODE
    if image.kind in _NOT_CODE or bitcode:
        what = "LLVM bitcode" if bitcode else _IMAGES[image.kind]
        notes.append(f"left out: {image.name} is {what}, not a code object")
    elif image.content:
        elements.append(Element(image.name, image.content, target=image.strings.get("arch") or None))


def _binary(data: bytes, at: int, budget: Budget) -> tuple[bytes, int]:
    """The binary at ``at``, expanded when it is compressed, and where the next one would begin (aligned to 8)."""
    if at + 32 > len(data):
        raise Malformed(f"an offload binary ends inside its header, at byte {len(data)}")
    version, size, table, _ = struct.unpack_from("<IQQQ", data, at + 4)
    if not 1 <= version <= 3:
        raise Unsupported(f"offload binaries of version {version} are not read (1 to 3 are)")
    if not 32 <= size <= len(data) - at:
        raise Malformed(f"the offload binary at byte {at} says {size} bytes, and {len(data) - at} are there")
    binary = data[at : at + size]
    if version == 3 and size >= 40 and table >= 40:
        binary = _expanded(binary, table, budget)
    return binary, at + (size + 7 & ~7)


def _expanded(binary: bytes, table: int, budget: Budget) -> bytes:
    """Version 3: the last field of the header is the expanded size, 0 when nothing is compressed; everything from the
    entry table on is one zlib or zstd stream."""
    (size,) = struct.unpack_from("<Q", binary, 32)
    if not size:
        return binary
    if not table <= min(size, len(binary)):
        raise Malformed(f"the compressed offload binary puts its entries at byte {table}, past its end")
    body = binary[table:]
    expand = expand_zstd if body[:4] == b"\x28\xb5\x2f\xfd" else inflate
    return binary[:table] + expand(body, size - table, budget, "offload binary")


def _images(binary: bytes, budget: Budget) -> list[_Image]:
    version, _, table, count = struct.unpack_from("<IQQQ", binary, 4)
    if version == 1:
        count = 1
    if table + count * _ENTRY.size > len(binary):
        raise Malformed(f"the offload binary's {count} entries at byte {table} end past its {len(binary)} bytes")
    budget.count_elements("offload binary", count)
    result, taken = [], 0
    for number in range(count):
        kind, producer, _, strings_at, strings, offset, size = _ENTRY.unpack_from(binary, table + number * _ENTRY.size)
        taken += size
        if offset + size > len(binary) or taken > len(binary):
            raise Malformed(f"image {number} of an offload binary ends at byte {offset + size}, past {len(binary)}")
        texts = _strings(binary, strings_at, strings, version)
        result.append(_Image(kind, producer, texts, binary[offset : offset + size]))
    return result


def _strings(binary: bytes, at: int, count: int, version: int) -> dict[str, str]:
    """Key and value offsets, from version 2 on the value's length too; only what names the image is decoded."""
    step = 16 if version == 1 else 24
    if at + count * step > len(binary):
        raise Malformed(f"the string map of an offload binary at byte {at} leaves it")
    result: dict[str, str] = {}
    for number in range(min(count, 64)):
        key_at, value_at = struct.unpack_from("<QQ", binary, at + number * step)
        key = string_at(binary[key_at : key_at + 64], 0)
        if key in {"triple", "arch", "feature"}:
            result[key] = string_at(binary[value_at : value_at + 256], 0)
    return result
