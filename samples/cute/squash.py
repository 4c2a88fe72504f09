"""A helper in a file of its own."""

from cutlass import cute


@cute.jit
def squash(x):
    y = cute.math.exp(x)
    return y / (y + 1.0)
