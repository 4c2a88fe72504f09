"""What the hardware reads before a kernel starts: ``amd_kernel_code_t`` of version 2 objects, which stands in front of the
code, and the 64-byte kernel descriptor (symbol ``K.kd``) of later ones.

Source: LLVM's AMDGPU usage guide, "Kernel Descriptor" and "amd_kernel_code_t"."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

DESCRIPTOR_SIZE = 64
CODE_SIZE = 256
_DESCRIPTOR = struct.Struct("<IIIxxxxq32xHH4x")
_CODE = struct.Struct("<IIHHHHq")
_CODE_RESOURCES = struct.Struct("<IIIQIHH")


def entry(data: bytes) -> int | None:
    """How many bytes from a ``.kd``'s own start its kernel begins; None when fewer than 64 bytes are there."""
    return None if len(data) < DESCRIPTOR_SIZE else _DESCRIPTOR.unpack(data)[3]


class Resources(NamedTuple):
    """What a ``.kd`` says that most kernels of an object have in common, sizes in bytes."""

    shared_memory: int
    scratch: int
    kernarg_size: int
    simd_width: int
    dynamic_stack: bool


def resources(data: bytes) -> Resources | None:
    """Of a ``.kd``; None when fewer than 64 bytes are there.

    Register counts are not decoded here: the descriptor holds them rounded up to an allocation granule that depends on
    the processor, while the metadata note has them exactly.
    """
    if len(data) < DESCRIPTOR_SIZE:
        return None
    group, private, kernarg, _, properties, _ = _DESCRIPTOR.unpack(data)
    return Resources(group, private, kernarg, 32 if properties & 0x400 else 64, bool(properties & 0x800))


def kernel_code(data: bytes) -> dict[str, Any]:
    """The same of an ``amd_kernel_code_t``, with ``entry_offset``: bytes from its start to the first instruction. {} when
    fewer than 256 bytes are there or its version is not 1."""
    if len(data) < CODE_SIZE:
        return {}
    major, _, machine, isa_major, isa_minor, isa_stepping, start = _CODE.unpack_from(data)
    if major != 1 or machine != 1:
        return {}
    private, group, _, kernarg, _, sgprs, vgprs = _CODE_RESOURCES.unpack_from(data, 60)
    return {
        "registers": vgprs,
        "vgprs": vgprs,
        "sgprs": sgprs,
        "shared_memory": group,
        "scratch": private,
        "kernarg_size": kernarg,
        "simd_width": 1 << min(data[103], 16),
        "isa": f"{isa_major}.{isa_minor}.{isa_stepping}",
        "entry_offset": start,
    }
