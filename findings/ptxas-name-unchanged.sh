#!/bin/sh
# ptxas: where two functions are inlined at one line, rows of one have the other's name.
#
# In the line tables of -lineinfo an extended opcode (0x90) says where a row was inlined, and the function's name. It is written where
# the place changes; where the name alone does, it is not, and the name before stays in force. The PTX names each function with its
# own lines. eu-readelf prints the line table as it is written.
. "$(dirname "$0")/packages.sh"
cuda
# shellcheck disable=SC2086 # several packages
debs $elfutils
cat > names.cu <<'END'
__device__ float inner(float a, int i) {
  float w = i * 0.125f;
  return a * w;
}
__device__ float outer(float a, float b) {
  return a + b;
}
extern "C" __global__ void kernel(float *out, const float *in, int n) {
  float t = 0;
  for (int i = threadIdx.x; i < n; i += 64)
    t = outer(t, inner(in[i], i));
  out[threadIdx.x] = t;
}
END
nvcc -lineinfo -ptx -arch=compute_80 names.cu -o names.ptx
calls=$(sed -n 's/.*\.loc.1 \([0-9]*\) .*info_string\([0-9]\), inlined_at.*/line \1: string \2/p' names.ptx | sort | uniq)
seen "lines and names of inlined calls in the PTX (string 0 is inner, 1 outer)" "$calls" "line 2: string 0
line 6: string 1"

rows() { # line and function of each row that the cubin's table writes for lines 2 (inner) and 6 (outer)
  nvcc -lineinfo -cubin -arch="$1" names.cu -o "$1.cubin"
  eu-readelf -N --debug-dump=line "$1.cubin" | awk '
    /set inlined context/ { inlined = $0 !~ /context 0,/; name = $(NF - 1) }
    /advance line by constant|special opcode.*line/ { line = $NF }
    /copy|special opcode/ { if (inlined) print "line " line ": " name }' | sort | uniq
}
for target in sm_80 sm_90; do
  seen "$target, eu-readelf (line 2 is not in outer, nor line 6 in inner)" "$(rows $target)" "line 2: _Z5innerfi
line 2: _Z5outerff
line 6: _Z5innerfi
line 6: _Z5outerff"
done
