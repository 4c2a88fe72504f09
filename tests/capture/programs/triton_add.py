"""A program that compiles a kernel with Triton for devices that need not be there, and says what it compiled."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offset < n
    tl.store(out + offset, tl.load(x + offset, mask=mask) + tl.load(y + offset, mask=mask), mask=mask)


for target in (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    kernel = triton.compile(ASTSource(fn=add, signature=signature, constexprs={(4,): 128}), target=target)
    print(kernel.metadata.name, target.backend, sorted(kernel.asm))
