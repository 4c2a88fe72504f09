"""What the hardware reads before a kernel starts: ``amd_kernel_code_t`` of version 2 objects, which stands in front of the
code, and the 64-byte kernel descriptor (symbol ``K.kd``) of later ones.

Source: LLVM's AMDGPU usage guide, "Kernel Descriptor" and "amd_kernel_code_t"."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DESCRIPTOR_SIZE = 64
CODE_SIZE = 256
_DESCRIPTOR = struct.Struct("<IIIxxxxq20xIIIHH")
_CODE = struct.Struct("<IIHHHHq")
_CODE_RESOURCES = struct.Struct("<IIIQIHH")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """``entry`` is the byte offset from the descriptor's own start to the first instruction; ``facts`` are the kernel's
    resources, JSON-ready, sizes in bytes."""

    entry: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def kernel_descriptor(data: bytes) -> Descriptor | None:
    """Decode a ``.kd``; None when fewer than 64 bytes are there.

    Register counts are not decoded here: the descriptor holds them rounded up to an allocation granule that depends on
    the processor, while the metadata note has them exactly.
    """
    if len(data) < DESCRIPTOR_SIZE:
        return None
    group, private, kernarg, entry, _, _, _, properties, _ = _DESCRIPTOR.unpack_from(data)
    return Descriptor(
        entry,
        {
            "shared_memory": group,
            "scratch": private,
            "kernarg_size": kernarg,
            "simd_width": 32 if properties & 0x400 else 64,
            "dynamic_stack": bool(properties & 0x800),
        },
    )


def kernel_code(data: bytes) -> Descriptor | None:
    """Decode an ``amd_kernel_code_t``; None when fewer than 256 bytes are there or its version is not 1."""
    if len(data) < CODE_SIZE:
        return None
    major, _, machine, isa_major, isa_minor, isa_stepping, entry = _CODE.unpack_from(data)
    if major != 1 or machine != 1:
        return None
    private, group, _, kernarg, _, sgprs, vgprs = _CODE_RESOURCES.unpack_from(data, 60)
    return Descriptor(
        entry,
        {
            "registers": vgprs,
            "vgprs": vgprs,
            "sgprs": sgprs,
            "shared_memory": group,
            "scratch": private,
            "kernarg_size": kernarg,
            "simd_width": 1 << min(data[103], 16),
            "isa": f"{isa_major}.{isa_minor}.{isa_stepping}",
        },
    )
