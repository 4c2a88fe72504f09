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


@triton.jit
def masked(x, m):
    return tl.load(
        x,
        mask=m,
        other=2.0,
    )


@triton.jit
def wide(x, y, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    m = i < n
    a = tl.load(x + i)
    b = tl.load(y + i, mask=m)
    c = masked(x + i + n, m)
    d = tl.inline_asm_elementwise(
        """
    {
    .reg .b32 t;
    // a comment, and an empty line

    add.s32 t, $1, 3;
    shl.b32 $0, t, 2;
    }
    """,
        "=r,r",
        [i],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.atomic_add(out + i, a)
    tl.store(out + i, a + b + c + d, mask=m)
