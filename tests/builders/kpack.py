"""Kernel packs and host programs that refer to them, as ROCm's packing tool lays them out."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import zstandard

from tests.builders.elf import AX, Section, build_elf

NAMES = {"group_name": "rand", "gfx_arch_family": "gfx9", "gfx_arches": ["gfx900"], "format_version": 1}


def kernel_pack(*entries: tuple[str, str, bytes], zstd: bool = False, version: int = 1, **changed: Any) -> bytes:
    """``entries`` are program#number, processor and content; ``changed`` replaces fields of the table."""
    body = bytearray(64)
    blobs = []
    if zstd:
        frames = [zstandard.compress(content) for *_, content in entries]
        body += struct.pack("<I", len(frames))
        body += b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)
        how = {"compression_scheme": "zstd-per-kernel", "zstd_offset": 64, "zstd_size": len(body) - 64}
    else:
        for *_, content in entries:
            blobs.append({"offset": len(body), "size": len(content)})
            body += content + bytes(-len(content) % 64)
        how = {"compression_scheme": "none", "blobs": blobs}
    toc: dict[str, dict[str, Any]] = {}
    for number, (program, processor, content) in enumerate(entries):
        toc.setdefault(program, {})[processor] = {"type": "hsaco", "ordinal": number, "original_size": len(content)}
    body[:16] = struct.pack("<4sIQ", b"KPAK", version, len(body))
    return bytes(body) + msgpack.packb({**NAMES, **how, "toc": toc, **changed})


def host(program: str, *search_paths: str, units: int = 1, reference: bytes | None = None) -> bytes:
    """An x86-64 program whose ``units`` code objects for each processor stand in packs."""
    said = msgpack.packb({"kpack_search_paths": list(search_paths), "kernel_name": program})
    wrappers = b"".join(struct.pack("<4sIQQ", b"HIPK", 1, 0, number) for number in range(units))
    sections = [
        Section(".text", flags=AX, data=b"\xc3"),
        Section(".hip_fatbin", data=b"__CLANG_OFFLOAD_BUNDLE__" + bytes(4072), align=8),
        Section(".hipFatBinSegment", data=wrappers, align=8),
        Section(".rocm_kpack_ref", data=said if reference is None else reference),
    ]
    return build_elf(machine=62, sections=sections)
