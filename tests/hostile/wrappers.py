"""Containers of every format around given contents, and compressed ones whose sizes may lie."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import lz4.block
import zstandard

from tests.builders.elf import AX, COMPRESSED, Section, build_elf
from tests.builders.igc import DEVICE_DEBUG, DebugRecord, debug_container, neo_elf
from tests.builders.kpack import kernel_pack
from tests.formats.containers.llvm.test_offload_binary import binary, compressed
from tests.formats.containers.llvm.test_offload_bundle import DEVICE, bundle, packed
from tests.formats.containers.nvidia.test_fatbin import LZ4, ZSTD, container, entry
from tests.formats.containers.test_archive import member

SPIRV_SECTION = 0xFF000009


def in_bundle(*contents: bytes) -> bytes:
    names = [f"{DEVICE}:{number}" for number in range(len(contents))]
    at = 32 + sum(24 + len(name) for name in names)
    entries = []
    for name, content in zip(names, contents, strict=True):
        entries.append((name, at, len(content)))
        at += len(content)
    return bundle(*entries, body=b"".join(contents))


def in_archive(*contents: bytes) -> bytes:
    return b"!<arch>\n" + b"".join(member(f"m{number}/", data) for number, data in enumerate(contents))


def in_host(*contents: bytes) -> bytes:
    sections = [Section(".llvm.offloading", data=data, align=8) for data in contents]
    return build_elf(machine=62, sections=[Section(".text", flags=AX, data=b"\xc3"), *sections])


def in_zebin(*contents: bytes) -> bytes:
    sections = [Section(".spv", SPIRV_SECTION, data=data) for data in contents]
    return build_elf(machine=205, sections=[Section(".text.k", flags=AX, data=bytes(64)), *sections])


WRAPPERS: dict[str, Callable[..., bytes]] = {
    "offload-bundle": in_bundle,
    "ccob": lambda *contents: packed(in_bundle(*contents)),
    "cuda-fatbin": lambda *contents: container(*map(entry, contents)),
    "offload-binary": binary,
    "archive": in_archive,
    "kpack": lambda *contents: kernel_pack(*(("lib.so#0", f"gfx{n}", data) for n, data in enumerate(contents))),
    "host-elf": in_host,
    "igc-debug": lambda *contents: debug_container([DebugRecord(f"k{n}", data) for n, data in enumerate(contents)]),
    "neo-elf": lambda *contents: neo_elf([(DEVICE_DEBUG, data) for data in contents]),
    "zebin": in_zebin,
}
"""By format: contents in, a container that holds them out."""


def compressed_section(how: str, stored: bytes, says: int) -> Section:
    """A debug section with a compression header that says ``says`` bytes."""
    if how == "gnu":
        return Section(".zdebug_info", data=b"ZLIB" + says.to_bytes(8, "big") + stored)
    header = struct.pack("<IIQQ", 1 if how == "zlib" else 2, 0, says, 1)
    return Section(".debug_info", flags=COMPRESSED, data=header + stored)


def elf_bombs(size: int, says: int) -> dict[str, bytes]:
    """Images of every vendor with one compressed section that expands to ``size`` bytes and says ``says``."""
    streams = {"zlib": zlib.compress(bytes(size)), "zstd": zstandard.compress(bytes(size))}
    streams["gnu"] = streams["zlib"]
    return {
        f"{vendor} {how}": build_elf(
            machine=machine,
            type=kind,
            sections=[Section(".text.k", flags=AX, data=bytes(64)), compressed_section(how, stored, says)],
        )
        for vendor, machine, kind in (("zebin", 205, 1), ("amdgpu", 224, 3), ("cubin", 190, 2), ("igc-elf", 182, 2))
        for how, stored in streams.items()
    }


def container_bombs(size: int, says: int) -> dict[str, bytes]:
    """The same for the containers that compress what they hold."""
    body = bytes(size)
    bombs = {
        f"ccob v{version} {name}": packed(body, version, method, expanded=says)
        for version in (1, 2, 3)
        for method, name in enumerate(("zlib", "zstd"))
    }
    for name, flag, stored in (
        ("lz4", LZ4, lz4.block.compress(body, store_size=False)),
        ("zstd", ZSTD, zstandard.compress(body)),
    ):
        bombs[f"cuda-fatbin {name}"] = container(entry(stored, flags=0x11 | flag, raw=says))
    for name in ("zlib", "zstd"):
        bombs[f"offload-binary {name}"] = compressed(binary(body, version=3), name, says)
    return bombs


def nested(wrap: Callable[..., bytes], content: bytes, depth: int) -> bytes:
    for _ in range(depth):
        content = wrap(content)
    return content
