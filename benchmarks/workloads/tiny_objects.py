"""An archive of many small AMDGPU objects, as libraries of kernels are built: a few sources compiled by clang, and copies of them in which
the kernel has a name of its own. Compiling thousands would take an hour and say the same."""

from __future__ import annotations

import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.workloads.amdgpu import FLAGS

SOURCES = 32
PLACEHOLDER = "kernel_000000"
KERNEL = """\
static float step_{n}(float a, float b) {{
    float t = a * {n}.5f + b;
    return t > b ? t - a : t * b;
}}
kernel void kernel_000000(global float *out, global const float *in) {{
    int id = __builtin_amdgcn_workitem_id_x();
    float value = step_{n}(in[id], in[id + {n}]);
    if (value > {n}.0f)
        value = step_{n}(value, {n}.25f);
    out[id] = value;
}}
"""


def build(count: int, output: Path, clang: str = "clang-14") -> None:
    """Write an archive of ``count`` objects."""
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(2) as pool:
            compiled = list(pool.map(lambda number: _compiled(number, Path(folder), clang), range(SOURCES)))
        with output.open("wb") as archive:
            archive.write(b"!<arch>\n")
            for number in range(count):
                archive.write(_member(number, compiled[number % SOURCES]))


def _compiled(number: int, folder: Path, clang: str) -> bytes:
    text = folder / f"tiny_{number}.cl"
    text.write_text(KERNEL.format(n=number))
    subprocess.run([clang, *FLAGS, "-c", "-o", f"{text.stem}.o", text.name], cwd=folder, check=True)
    return text.with_suffix(".o").read_bytes()


def _member(number: int, compiled: bytes) -> bytes:
    """An archive's member in GNU ar's layout (ar.h): a header of 60 bytes, the file, a byte of padding where its size is odd."""
    data = compiled.replace(PLACEHOLDER.encode(), f"kernel_{number:06d}".encode())
    header = f"{f'{number:06d}.o/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (len(data) % 2)
