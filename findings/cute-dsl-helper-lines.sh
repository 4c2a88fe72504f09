#!/bin/sh
# CuTe DSL 4.8.1: nothing in a kernel tells which instructions come from its helpers, and its last one has a line of the host function.
#
# With --generate-line-info a kernel in Python has the lines of the functions that it calls, and the PTX has no inlined_at for any: for
# profilers that go by the line table, the kernel alone has those lines. NVIDIA's other compilers, and Triton, write the calls. The end
# of the kernel (ret, EXIT) has the line of the decorator of the function that launches the kernel, which runs on the host.
. "$(dirname "$0")/packages.sh"
wheels nvidia-cutlass-dsl==4.8.1 nvidia-cuda-nvdisasm==13.5.37
PATH=$(echo "$work"/env/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
cat > bent.py <<'END'
import cutlass
from cutlass import cute


@cute.jit
def bend(x):
    return x * x + 1.5


@cute.kernel
def curve(a: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    v = bend(a[i])
    if i > 3:
        v = v - 2.0
    a[i] = v


@cute.jit  # runs on the host
def launch(a: cute.Tensor):
    curve(a).launch(grid=(1, 1, 1), block=(32, 1, 1))


a = cute.runtime.make_fake_compact_tensor(cutlass.Float32, (64,))
cute.compile(launch, a, options="--generate-line-info --keep-ptx --keep-cubin")
END
env CUTE_DSL_ARCH=sm_90a env/bin/python bent.py
nvdisasm -g -c ./*.cubin > listing 2> /dev/null
text() { # NAME: the source line that nvdisasm says of the first instruction of a name
  line=$(awk -F'line ' -v name="$1" '/File .*bent.py/ { split($2, at, " "); line = at[1] } $0 ~ name { print line; exit }' listing)
  sed -n "${line}s/^ *//p" bent.py
}
seen "calls in the PTX and in the listing of nvdisasm -g" "$(cat ./*.ptx listing | grep -c inlined)" 0
seen "functions in the PTX" "$(cat ./*.ptx | grep -cE '^\.(func|visible|entry)')" 1
seen "the line of the multiplication (FFMA)" "$(text FFMA)" "return x * x + 1.5"
seen "the line of the end (EXIT)" "$(text EXIT)" "@cute.jit  # runs on the host"
