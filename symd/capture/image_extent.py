"""How many bytes a module has that begins somewhere in memory: nobody tells, and it must follow from the module itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from symd.errors import SymdError
from symd.formats import elf
from symd.formats.containers.intel import igc_debug
from symd.formats.containers.llvm import compressed_bundle
from symd.formats.containers.nvidia import fatbin
from symd.formats.elf.constants import EM_AMDGPU, EM_CUDA, EM_INTEL182, EM_INTELGT, EM_NONE, ET_CORE

Read = Callable[[int, int], bytes]
"""Offset and size to bytes, fewer where there are no more."""
MAGICS: Final = (elf.MAGIC, igc_debug.MAGIC, compressed_bundle.MAGIC, fatbin.MAGIC)
"""What the modules begin with whose end can be told. What lies unpacked in a bundle of Clang's is an ELF image itself."""
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
