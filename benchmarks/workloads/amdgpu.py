"""Generates a large AMDGPU code object: many OpenCL kernels with helpers inlined two deep, compiled by clang and linked
by lld. It is compiled in slices because one translation unit of 4,000 kernels takes minutes."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HELPERS = """\
static float inner_{k}(float a, float b, int n) {{
    float sum = a;
    #pragma clang loop unroll(disable)
    for (int i = 0; i < n; ++i) {{
        float t = sum * b + (float)i;
        if (t > {k}.5f)
            t = t - b;
        sum += t * a;
    }}
    return sum;
}}

static float outer_{k}(float a, int n) {{
    float x = inner_{k}(a, {k}.25f, n);
    float y = inner_{k}(x + 1.0f, a, n + 3);
    return x > y ? x - y : x * y;
}}

"""

KERNEL = """\
kernel void kernel_{k}(global float *out, global const float *in, int n) {{
    int id = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    if (id >= n)
        return;
    float value = in[id];
    float first = outer_{k}(value, n);
    float second = first + {k}.75f;
    if (second > 8.0f)
        second = outer_{k}(second, {k});
    for (int j = id; j < n; j += 64) {{
        float step = first * in[j] + second;
        if (step < value)
            step = step / (value + {k}.125f);
        out[j] = step;
    }}
    if (value > second)
        out[id + 32] = in[id + 4] * second;
    else if (value < {k}.0f)
        out[id + 16] = in[id + 5] - value;
    if (first > second)
        out[id + 64] = in[id + 1] * first;
    else if (first < value)
        out[id + 128] = in[id + 2] - second;
    else
        out[id + 256] = in[id + 3] + value;
    out[id] = first * second;
}}

"""

FLAGS = ("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib", "-O2", "-g")


def source(first: int, last: int) -> str:
    """OpenCL C of kernels [first, last)."""
    return "".join((HELPERS + KERNEL).format(k=number) for number in range(first, last))


def compile_slices(edges: list[int], folder: Path, clang: str = "clang-14") -> list[str]:
    """slice_N.o in ``folder`` for the kernels between each two of ``edges``."""

    def compile_slice(number: int) -> str:
        text = folder / f"slice_{number}.cl"
        text.write_text(source(edges[number], edges[number + 1]))
        done = text.with_suffix(".o")
        subprocess.run([clang, *FLAGS, "-c", "-o", done.name, text.name], cwd=folder, check=True)
        return done.name

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_slice, range(len(edges) - 1)))


def build(kernels: int, slices: int, output: Path, clang: str = "clang-14", linker: str = "ld.lld-14") -> None:
    """Compile ``kernels`` kernels in ``slices`` translation units and link them into ``output``."""
    edges = [kernels * number // slices for number in range(slices + 1)]
    with tempfile.TemporaryDirectory() as folder:
        objects = compile_slices(edges, Path(folder), clang)
        subprocess.run([linker, "-shared", "-o", str(output.resolve()), *objects], cwd=folder, check=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--kernels", type=int, default=4000)
    parser.add_argument("--slices", type=int, default=8)
    chosen = parser.parse_args(arguments)
    build(chosen.kernels, chosen.slices, chosen.output)


if __name__ == "__main__":
    main(sys.argv[1:])
