"""Small files of those kinds of which all samples are large: containers around small code objects, and core dumps of one wave."""

from __future__ import annotations

import gzip
import struct

from tests.builders.amdgpu_core import AmdgpuCore
from tests.cores.dumps import KERNEL, Dump
from tests.fuzz.mutations import SAMPLES
from tests.hostile.wrappers import WRAPPERS

_AMD = "amdgpu/bin/v4-scale.co", "amdgpu/bin/v2-scale.o", "amdgpu/bin/v4-gfx900-nodebug.co"
_SPIRV = "spirv/bin/inline.O2.line-tables.spv"
_CONTAINERS = "archive", "ccob", "cuda-fatbin", "host-elf", "kpack", "neo-elf", "offload-binary", "offload-bundle"
_BASE = 0x7F12_0000_0000
PATCH_TOKENS = struct.pack("<7I", 0x494E5443, 1081, 0xC07, 8, 1, 0, 0) + bytes(64)
"""The header of a program binary of patch tokens (patch_list.h, SProgramBinaryHeader), of which symd says what it is and no more."""


def made() -> list[bytes]:
    codes = [(SAMPLES / name).read_bytes() for name in (*_AMD, _SPIRV)]
    dumps = [_amd_core(codes[0]), _cuda_core()]
    containers = [WRAPPERS[name](code) for name in _CONTAINERS for code in codes]
    return [PATCH_TOKENS, *dumps, *containers, *(gzip.compress(each, mtime=0) for each in (*codes, *dumps))]


def _amd_core(code: bytes) -> bytes:
    dump = AmdgpuCore(version=(9, 0, 0))
    dump.load(code, _BASE, uri="file:///nowhere/scale.co")
    dump.wave(pc=_BASE + 0x1004, scalar=list(range(32)), vector=[[7] * 64] * 4, local=64)
    return dump.build()


def _cuda_core() -> bytes:
    dump = Dump()
    warp = dump.one_warp(active=3)
    for number in range(2):
        calls = [(8, KERNEL + 8)]
        lane = dump.lane(warp, number=number, pc=KERNEL + 0x40, offset=0x40, calls=calls, registers=list(range(16)))
        dump.local(lane, 0x100, bytes(16))
    return dump.build()
