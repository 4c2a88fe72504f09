"""The modules that the sample profiles speak of, and what LLVM and nvdisasm say is where."""

from __future__ import annotations

import re
from pathlib import Path

from tests.agreement import llvm

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples" / "profiles"
FILTERS = ROOT / "samples" / "kernels" / "bin" / "filters"
ZEBIN = FILTERS / "igc2-dg2-opt.zebin"
AMD = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co"
PRUNED = ROOT / "samples" / "amdgpu" / "bin" / "v2-scale-null-headers.co"
NO_DEBUG = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900-nodebug.co"
CUBIN = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
CUBIN_CRC = 2271560481
KERNELS = {name: FILTERS / f"igc2-dg2-opt-zebin.{name}.elf" for name in ("smooth", "denoise")}
"""The same kernels as linked ELF images, which LLVM can read (IGC's own dump)."""

Frames = list[llvm.Frame]


def of_kernel(name: str, offset: int, folder: Path) -> Frames:
    """LLVM's frames at a kernel offset of the zebin: mangled function, file, line, column."""
    return llvm.frames(KERNELS[name].read_bytes(), [offset], folder)[0]


def of_object(path: Path, address: int, folder: Path) -> Frames:
    return llvm.frames(path.read_bytes(), [address], folder)[0]


def of_cubin(section: str, offset: int) -> list[tuple[str, int]]:
    """(file, line) innermost first, as nvdisasm prints them for raycast.sm_90.lines.cubin; made by tests/golden/cuda. Callers stand where the source calls: for sm_90 and above
    the table numbers them wrongly, and nvdisasm repeats it (docs/contradictions.md)."""
    text = (ROOT / "tests" / "golden" / "cuda" / "lines.txt").read_text()
    [block] = re.findall(rf"^@ {re.escape(CUBIN.name)}\n(.*?)(?=^@ |\Z)", text, re.DOTALL | re.MULTILINE)
    files = dict(re.findall(r"^f (\d+) (.*)$", block, re.MULTILINE))
    [part] = re.findall(rf"^= {re.escape(section)}\n(.*?)(?=^= |\Z)", block, re.DOTALL | re.MULTILINE)
    rows = [(int(at, 16), chain) for at, chain in re.findall(r"^([0-9a-f]{4,}) (.*)$", part, re.MULTILINE)]
    chain = [chain for at, chain in rows if at <= offset][-1]
    innermost, *callers = [
        (files[number], int(line)) for number, line in (item.split(":") for item in chain.split("<"))
    ]
    return [innermost, *((file, _CALLED_AT.get(line, line)) for file, line in callers)]


_SOURCE = (ROOT / "samples" / "cuda" / "raycast.cu").read_text().splitlines()
_CALLED_AT = {line - 1: line for line, text in enumerate(_SOURCE, 1) if "(squared(" in text}
"""The lines that the table gives for those that call ``squared``."""
