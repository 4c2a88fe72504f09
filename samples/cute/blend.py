"""A kernel of CuTe DSL with helpers: one in front of it, called from two places, one behind it, one inside another, and one in a file of its own."""

import cutlass
import squash
from cutlass import cute


@cute.jit
def inner(x):
    return x * 3.0


@cute.jit
def scale(x):
    y = inner(x) + 1.5
    return y * x


@cute.kernel
def blend(a: cute.Tensor, b: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    v = a[i]
    w = scale(v)
    w = scale(w - v)
    w = squash.squash(w)
    if i > 3:
        w = behind(w, v)
    b[i] = w


@cute.jit
def behind(x, y):
    z = x - y * 0.25
    return z / (y + 2.0)


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor):
    blend(a, b).launch(grid=(1, 1, 1), block=(32, 1, 1))


def tensors():
    return [cute.runtime.make_fake_compact_tensor(cutlass.Float32, (64,)) for _ in range(2)]
