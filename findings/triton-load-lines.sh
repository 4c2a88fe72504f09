#!/bin/sh
# Triton 3.9: a vector load has the line of source four lines below its own.
#
# Triton reads memory by inline assembly: an instruction for each word that is set first, then the load. LLVM's NVPTX back end, since
# llvm-project's pull request 177718, begins each line of inline assembly with a .loc whose line is one higher than that of the line before,
# as if the source had one line for each. So the hottest instructions of a kernel have the lines of other statements, or of none.
# Triton 3.6 has one line for the whole. nvdisasm -g, and whoever reads the line table, says what the PTX says.
. "$(dirname "$0")/packages.sh"
wheels triton==3.9.0 nvidia-cuda-nvdisasm==13.5.37
PATH=$(echo "$work"/env/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
cat > wide.py <<'END'
import re
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def wide(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    a = tl.load(x + i)
    a = a + 1.0
    # one
    # two
    # three: a comment
    tl.store(y + i, a * 3.0)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "block": "constexpr"}
aligned = {(each,): [["tt.divisibility", 16]] for each in range(3)}
source = triton.compiler.ASTSource(wide, signature, {"block": 512}, aligned)
made = triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm
open("wide.cubin", "wb").write(made["cubin"])
line = 0
for each in made["ptx"].splitlines():
    line = int(found[1]) if (found := re.match(r"\s*\.loc\s+\d+ (\d+)", each)) else line
    if "ld.global" in each:
        print(each.split()[0], "in the PTX:", open(__file__).read().splitlines()[line - 1].strip())
END
env TRITON_CACHE_DIR="$work/cache" env/bin/python -W ignore wide.py > said
seen "line of the load" "$(cat said)" "ld.global.v4.b32 in the PTX: # three: a comment"
line=$(nvdisasm -g -c wide.cubin 2>/dev/null | awk -F'line ' '/File .*wide.py/ { split($2, at, " "); line = at[1] } /LDG/ { print line }')
seen "line of LDG.E.128, nvdisasm -g" "$(sed -n "${line}p" wide.py)" "    # three: a comment"
