#!/bin/sh
# Numba (numba-cuda 0.30.4): what inline="always" brings into a kernel has the line of the kernel's own def.
#
# Numba inlines such a device function before it makes machine code. With lineinfo=True for both, the instructions of its body
# have neither their own lines, nor that of the call, nor an inlined_at: a profile says that the kernel's first line is hot.
# The same function compiled by itself has its own lines.
. "$(dirname "$0")/packages.sh"
wheels numba-cuda==0.30.4 numba==0.63.1 nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-runtime==13.5.37 nvidia-cuda-nvrtc==13.5.37 nvidia-nvjitlink==13.5.37
cat > bent.py <<'END'
from numba import cuda, float32, void


@cuda.jit(device=True, inline="always", lineinfo=True)
def bend(x):
    y = x * x
    return y


def curve(a):
    i = cuda.threadIdx.x
    v = a[i]
    w = bend(v)
    a[i] = w


how = {"abi": "numba", "lineinfo": True, "cc": (9, 0)}
for name, function, types in ("kernel", curve, void(float32[::1])), ("device", bend.py_func, float32(float32)):
    with open(f"{name}.ptx", "w") as file:
        file.write(cuda.compile(function, types, device=name == "device", **how)[0])
END
env/bin/python bent.py
text() { # NAME: the source line that a PTX says of the multiplication
  line=$(awk '/\.loc/ { line = $3 } /mul\.f32/ { print line; exit }' "$1.ptx")
  sed -n "${line:-1}s/^ *//p" bent.py
}
seen "line of the multiplication, inlined into the kernel" "$(text kernel)" "def curve(a):"
seen "calls in its PTX" "$(grep -c inlined_at kernel.ptx)" 0
seen "line of the multiplication, compiled by itself" "$(text device)" "y = x * x"
