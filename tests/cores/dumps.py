"""A small cubin with two functions, and dumps in which it is loaded."""

from __future__ import annotations

from pathlib import Path

from symd.config import Limits
from symd.cores.read import read
from symd.formats.budget import Budget
from symd.model.cores import CoreDump, CoreStack
from tests.builders.cuda_core import CudaCore, Row
from tests.builders.elf import AX, FUNC, Section, Symbol, build_elf
from tests.builders.relocated_cubin import relocated

ROOT = Path(__file__).parents[2]
BASE = 0x7F00_0000_0000
KERNEL, CALLEE = BASE, BASE + 0x200
"""Where .text.kernel (0x200 bytes) and .text.callee (0x100 bytes) are."""
CUBIN = build_elf(
    machine=190,
    type=2,
    flags=90,
    osabi=0x33,
    abiversion=7,
    version=120,
    sections=[
        Section(".text.kernel", flags=AX, data=bytes(range(256)) * 2, align=128),
        Section(".text.callee", flags=AX, data=bytes(range(255, -1, -1)), align=128),
    ],
    symbols=[
        Symbol("kernel", 0, 0x200, ".text.kernel", FUNC, 1, 0x10),
        Symbol("callee", 0, 0x100, ".text.callee", FUNC, 1),
    ],
)
LOADED = relocated(CUBIN, BASE).data


class Dump(CudaCore):
    """A dump with one device, ``CUBIN`` loaded, a grid of its kernel, an SM and a block."""

    def __init__(self, driver: int = 580) -> None:
        super().__init__(driver)
        self.gpu = self.device(number=3, name="Some GPU", sm="sm_86")
        self.owner = self.context(self.gpu)
        self.module(self.owner, handle=0x77, relocated=LOADED)
        self.grid(self.gpu, number=9, entry=KERNEL, module=0x77)
        self.unit = self.sm(self.gpu, number=5)
        self.cta = self.block(self.unit, grid=9, index=(1, 2, 3))

    def one_warp(self, **fields: object) -> Row:
        return self.warp(self.cta, **{"number": 4, **fields})  # type: ignore[arg-type]


def stopped(dump: CudaCore) -> CoreDump:
    return read(dump.build(), Budget(Limits())).dump


def only(dump: CudaCore) -> CoreStack:
    (stack,) = stopped(dump).stacks
    return stack
