"""A large cubin: many kernels with helpers inlined, compiled by nvcc where there is one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

KERNEL = """\
static __device__ float helper_{k}(float a, float b, int n) {{
    float sum = a;
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {{
        float t = sum * b + i;
        if (t > {k}.5f) t -= b;
        sum += t * a;
    }}
    return sum;
}}
extern "C" __global__ void kernel_{k}(float *out, const float *in, int n) {{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n) return;
    float first = helper_{k}(in[id], {k}.25f, n);
    float second = helper_{k}(first + 1.0f, in[id], n + 3);
    out[id] = first > second ? first - second : first * second;
}}
"""


def available() -> bool:
    return shutil.which("nvcc") is not None


def build(kernels: int, output: Path) -> None:
    """Compile ``kernels`` kernels with line information into a cubin."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "many.cu"
        source.write_text("".join(KERNEL.format(k=number) for number in range(kernels)))
        subprocess.run(
            ["nvcc", "-cubin", "-lineinfo", "-arch=sm_90", "-o", str(output.resolve()), source.name],
            cwd=folder, check=True,
        )  # fmt: skip
