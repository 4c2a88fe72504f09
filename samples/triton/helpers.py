"""Two kernels with helpers: one inside another, one called from two places, one that is not inlined, and a reduction of the library."""

import triton
import triton.language as tl


@triton.jit
def inner(x):
    return x * 3.0


@triton.jit
def scale(x):
    return tl.exp(inner(x)) + 1.0


@triton.jit(noinline=True)
def apart(x):
    return scale(x) * scale(x + 2.0)


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(y + i, mask=m)
    tl.store(out + i, scale(a) + scale(b * 0.5), mask=m)


@triton.jit
def total(x, out, block: tl.constexpr):
    a = tl.load(x + tl.arange(0, block))
    tl.store(out, tl.sum(scale(a)) + apart(tl.load(x)))
