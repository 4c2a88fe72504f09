#!/bin/sh
# ptxas for sm_90 and above: the place where a function was inlined is another row's.
#
# In the line tables of -lineinfo an inlined row names the row of its call by number. From sm_90 on the first row of each function
# behind the kernel in its section is written twice and counted once, so that what those functions inline is said to be called a row
# earlier, two rows in the second function, and so on. nvdisasm -gi prints the caller that the number means. The PTX that ptxas was
# given has the right lines, as do the tables for sm_89 and below.
. "$(dirname "$0")/packages.sh"
cuda
cat > calls.cu <<'END'
__device__ __forceinline__ float leaf(float x) {
  return x * x + 1.0f;
}
__device__ __noinline__ float one(float x) {
  float y = x * 0.5f;
  return y
       + leaf(y);
}
__device__ __noinline__ float two(float x) {
  float y = x * 0.25f;
  return y
       + leaf(y);
}
extern "C" __global__ void kernel(float *p) {
  float y = p[0];
  y = one(y);
  p[1] = two(y)
       + leaf(y);
}
END
nvcc -lineinfo -ptx -arch=compute_80 calls.cu -o calls.ptx
called=$(grep -o 'inlined_at 1 [0-9]*' calls.ptx | cut -d' ' -f3 | sort -n | uniq | xargs)
seen "lines that call leaf, by the PTX (and by the source)" "$called" "7 12 18"

lines() { # the call lines of leaf that nvdisasm prints
  nvcc -lineinfo -cubin -arch="$1" calls.cu -o "$1.cubin"
  nvdisasm -gi -c "$1.cubin" | sed -n 's/.*line 2 inlined at .*, line //p' | sort -n | uniq | xargs
}
seen "sm_80, nvdisasm -gi" "$(lines sm_80)" "7 12 18"
seen "sm_90, nvdisasm -gi (nothing is called in lines 5 and 10)" "$(lines sm_90)" "5 10 18"
seen "sm_100, nvdisasm -gi" "$(lines sm_100)" "5 10 18"
