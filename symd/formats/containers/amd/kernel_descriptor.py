"""What the hardware reads before a kernel starts: ``amd_kernel_code_t`` of version 2 objects, which stands in front of the
code, and the 64-byte kernel descriptor (symbol ``K.kd``) of later ones.

Source: LLVM's AMDGPU usage guide, "Kernel Descriptor" and "amd_kernel_code_t"."""

from __future__ import annotations

import struct
from typing import Any

DESCRIPTOR_SIZE = 64
CODE_SIZE = 256
_ENTRY = struct.Struct("<16xq")
_RESOURCES = struct.Struct("<IIIH")
_CODE = struct.Struct("<IIHHHHq")
_CODE_RESOURCES = struct.Struct("<IIIQIHH")


def entry(data: bytes) -> int | None:
    """How many bytes from a ``.kd``'s own start its kernel begins; None when fewer than 64 bytes are there."""
    return None if len(data) < DESCRIPTOR_SIZE else _ENTRY.unpack_from(data)[0]


def resources(data: bytes) -> bytes:
    """The bytes of a ``.kd`` of which ``kernel_descriptor`` is made; most kernels of an object have the same."""
    return data[:12] + data[56:58] if len(data) >= DESCRIPTOR_SIZE else b""


def kernel_descriptor(data: bytes) -> dict[str, Any]:
    """The kernel's resources by the ``resources`` of its ``.kd``, JSON-ready, sizes in bytes; {} where it has none.

    Register counts are not decoded here: the descriptor holds them rounded up to an allocation granule that depends on
    the processor, while the metadata note has them exactly.
    """
    if not data:
        return {}
    group, private, kernarg, properties = _RESOURCES.unpack(data)
    return {
        "shared_memory": group,
        "scratch": private,
        "kernarg_size": kernarg,
        "simd_width": 32 if properties & 0x400 else 64,
        "dynamic_stack": bool(properties & 0x800),
    }


def kernel_code(data: bytes) -> dict[str, Any]:
    """The kernel's resources by an ``amd_kernel_code_t``, JSON-ready, sizes in bytes; ``entry_offset`` is the number
    of bytes from its start to the first instruction. {} when fewer than 256 bytes are there or the version is not 1."""
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
