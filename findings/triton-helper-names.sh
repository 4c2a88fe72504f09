#!/bin/sh
# Triton: code of an inlined helper is said to be of the kernel, which was inlined into itself.
#
# Triton writes one subprogram for each module. A call of another @triton.jit function that was inlined has the helper's lines, and the
# kernel's own name: a profile by function shows a kernel that calls itself, and never the helper.
. "$(dirname "$0")/packages.sh"
wheels triton==3.9.0
cat > helper.py <<'END'
import re
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def helper(x):
    return x * 3.0 + 1.0


@triton.jit
def kernel(p, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + at, helper(tl.load(p + at)))


source = triton.compiler.ASTSource(fn=kernel, signature={"p": "*fp32", "BLOCK": "constexpr"}, constexprs={(1,): 64})
ir = triton.compile(source, target=GPUTarget("hip", "gfx942", 64)).asm["llir"]
lines = open(__file__).read().splitlines()
helpers = lines.index("def helper(x):") + 2
entries = dict(re.findall(r"^(!\d+) = (.*)", ir, re.M))
[scope] = {entry for entry in entries.values() if entry.startswith(f"!DILocation(line: {helpers},")}
while "DISubprogram" not in scope:
    scope = entries[re.search(r"scope: (!\d+)", scope)[1]]
print("subprograms:", *sorted(set(re.findall(r'DISubprogram\(name: "(\w+)"', ir))))
print("the line of helper is in:", re.search(r'name: "(\w+)"', scope)[1])
END
said=$(env TRITON_CACHE_DIR="$work/cache" env/bin/python -W ignore helper.py)
seen "debug data of kernel, which calls helper" "$said" "subprograms: kernel
the line of helper is in: kernel"
