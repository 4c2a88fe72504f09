"""The AMDGPU workload many times over: the same slices linked as often as wanted, every copy's symbols with a prefix of
its own. Compiling ten times as many kernels would take ten times as long and say the same."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from benchmarks.workloads import amdgpu


def build(
    kernels: int, slices: int, output: Path, copies: tuple[int, ...], objcopy: str = "llvm-objcopy-14",
    linker: str = "ld.lld-14",
) -> list[Path]:  # fmt: skip
    """``output`` with each number of ``copies`` put before its suffix: so many copies of ``kernels`` kernels, linked."""
    edges = [kernels * number // slices for number in range(slices + 1)]
    made = []
    with tempfile.TemporaryDirectory() as folder:
        amdgpu.compile_slices(edges, Path(folder))
        for count in copies:
            objects = []
            for copy in range(count):
                for number in range(slices):
                    name = f"slice_{number}.o"
                    if copy:
                        name = f"copy_{copy}_{number}.o"
                        prefix = ("--prefix-symbols", f"c{copy}_")
                        subprocess.run([objcopy, *prefix, f"slice_{number}.o", name], cwd=folder, check=True)
                    objects.append(name)
            target = output.with_name(f"{output.stem}-{count}{output.suffix}")
            subprocess.run([linker, "-shared", "-o", str(target.resolve()), *objects], cwd=folder, check=True)
            made.append(target)
    return made
