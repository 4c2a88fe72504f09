"""A debug container of a thousand kernels, as Intel's driver gives for a large program: the kernels of real samples,
repeated under names of their own."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from symd.config import Limits
from symd.formats import containers
from tests.builders import igc

SAMPLES = Path(__file__).parents[2] / "samples" / "kernels" / "bin"


def build(kernels: int, output: Path) -> None:
    """Write a container of ``kernels`` kernels."""
    known = [record for path in sorted(SAMPLES.glob("*/dg2-opt.dbg")) for record in records(path.read_bytes())]
    chosen = zip(range(kernels), cycle(known), strict=False)
    output.write_bytes(
        igc.debug_container([igc.DebugRecord(f"{name}_{number}", elf) for number, (name, elf) in chosen])
    )


def records(container: bytes) -> list[tuple[str, bytes]]:
    """(name, ELF) of each kernel of a container, by the layout that ``tests.builders.igc`` writes."""
    objects = containers.unpack(container, Limits()).objects
    return [(code.kernels[0].name, code.data) for code in objects if code.kernels]
