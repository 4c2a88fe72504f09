"""Triton's compiler ahead of time: two kernels, one with a function that is inlined, for an NVIDIA and an AMD processor."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGES, OUT = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(PACKAGES))
os.environ["TRITON_CACHE_DIR"] = str(OUT / ".cache")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

TARGETS = {"cubin": GPUTarget("cuda", 90, 32), "hsaco": GPUTarget("hip", "gfx942", 64)}


@triton.jit
def scaled(x, factor):
    low = tl.where(x < 0, 0.0, x)
    return low * factor


@triton.jit
def saxpy(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    y = tl.load(y_ptr + at, mask=mask)
    tl.store(y_ptr + at, scaled(x, factor) + y, mask=mask)


@triton.jit
def softmax(out_ptr, in_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(in_ptr + row * columns + at, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * columns + at, numerator / total, mask=mask)


SIGNATURES = {
    saxpy: {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"},
    softmax: {"out_ptr": "*fp32", "in_ptr": "*fp32", "columns": "i32", "BLOCK": "constexpr"},
}


def main() -> None:
    for function, signature in SIGNATURES.items():
        for kind, target in TARGETS.items():
            source = ASTSource(fn=function, signature=signature, constexprs={"BLOCK": 1024})
            made = triton.compile(source, target=target)
            (OUT / f"{function.__name__}.{kind}").write_bytes(made.asm[kind])


main()
