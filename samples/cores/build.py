"""Builds the core dumps in ``bin/``: made up to the published structures, from cubins and code objects of the other samples.
No GPU wrote them; ``README.md`` says what each is. Run from the root: ``python -m samples.cores.build``."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.builders.amdgpu_core import AmdgpuCore
from tests.builders.cuda_core import CudaCore
from tests.builders.relocated_cubin import relocated

HERE = Path(__file__).parent
CUBINS = HERE.parent / "cuda" / "bin"
CODE_OBJECTS = HERE.parent / "amdgpu" / "bin"
BASE = 0x7F00_0000_1000
"""Where the code was loaded: its text sections stand from here on, one after another."""
PROBE, DISTANCE_TO, SQUARED = "_Z5probePfPK6float3", "_Z11distance_tofff", "_Z7squaredfff"
"""A kernel, which calls the second at 0x760, which calls the third at 0xa60, as relocations of the cubin's text say."""


def illegal_address() -> bytes:
    """Two warps of a debug build: half of their lanes two calls deep in a function, where one of each used an address out
    of bounds; the others wait in the kernel."""
    image = relocated((CUBINS / "raycast.sm_90.debug.cubin").read_bytes(), BASE)
    kernel, middle, inner = (image.text[f".text.{name}"] for name in (PROBE, DISTANCE_TO, SQUARED))
    dump = CudaCore()
    device = dump.device()
    dump.module(dump.context(device), handle=0x51, relocated=image.data)
    dump.grid(device, entry=kernel, module=0x51)
    calls = [(0xA70, middle + 0xA70), (0x770, kernel + 0x770)]
    for number in range(2):
        block = dump.block(dump.sm(device, number=number), index=(number, 0, 0))
        warp = dump.warp(block, number=number, existing=0xFF, active=0x0F, error_pc=inner + 0x80)
        for lane in range(8):
            inside = lane < 4
            dump.lane(
                warp,
                number=lane,
                pc=inner + 0x90 if inside else kernel + 0x780,
                offset=0x90 if inside else 0x780,
                exception=14 if lane == 2 else 0,
                calls=calls if inside else (),
                registers=[0x3F80_0000 + 0x1_0000 * register + lane for register in range(48)],
                predicates=[1] * 7,
            )
    return dump.build()


SHADE, DESCRIPTOR = 0x1900, 0x6C0
"""Where the kernel begins in the code object, and where its descriptor does."""
LOADED, BUFFER = 0x7F12_0000_0000, 0x5555_0000_0000
"""Where the code object was loaded, and where the program had its file in memory."""


def address_error(*, host: bool) -> bytes:
    """Three waves of a kernel, two of which stopped at a load; the core file of the process, which has the code object's file in its
    memory, or of the GPU alone."""
    code = (CODE_OBJECTS / "v3-gfx906-xnack-off.co").read_bytes()
    dump = AmdgpuCore(version=(9, 0, 6), host=host, list_code=host, exceptions=1 << 4)
    dump.load(code, LOADED, uri=f"memory://4242#offset={BUFFER:#x}&size={len(code)}")
    if host:
        dump.memory.append((BUFFER, code))
    dump.dispatch(3, LOADED + DESCRIPTOR)
    for number, offset in enumerate((0x40, 0x40, 0x80)):
        dump.wave(
            pc=0x1110,
            parked=LOADED + SHADE + offset,
            exec=0xFF,
            traps={6: 3, 8: number},
            hardware={6: 1 << 8},
            scalar=[100 + register for register in range(96)],
            vector=[[1000 * register + lane for lane in range(64)] for register in range(8)],
        )
    return dump.build()


if __name__ == "__main__":
    for name, content in (
        ("illegal_address.nvcudmp", illegal_address()),
        ("illegal_address.nvcudmp.gz", gzip.compress(illegal_address(), mtime=0)),
        ("address_error.core", address_error(host=True)),
        ("address_error.gpucore", address_error(host=False)),
    ):
        (HERE / "bin" / name).write_bytes(content)
