#!/bin/sh
# nvlink for sm_90: functions that were inlined in the second object have names of the first.
#
# The names stand in .debug_str, by offsets from a base at the end of each line table's header. nvlink lays the strings of all objects
# one after the other and sets each table's base; for sm_90 it leaves 0 in all of them. eu-readelf reads the names so.
. "$(dirname "$0")/packages.sh"
cuda
# shellcheck disable=SC2086 # several packages
debs $elfutils
cat > one.cu <<'END'
__device__ float first(float x) { return x * 3.0f + 1.0f; }
extern "C" __global__ void k1(volatile float *p) { p[0] = first(p[1]); }
END
cat > two.cu <<'END'
__device__ float second(float x) { return x * 5.0f + 2.0f; }
extern "C" __global__ void k2(volatile float *p) { p[0] = second(p[1]); }
END
names() { # file and inlined function of each table
  eu-readelf -N --debug-dump=line "$1" | awk '
    $NF ~ /\.cu$/ { file = $NF }
    /set inlined context [1-9]/ { print file ": " $(NF - 1) }'
}
for target in sm_80 sm_90 sm_100; do
  for name in one two; do nvcc -lineinfo -dc -cubin -arch=$target $name.cu -o $name.cubin; done
  seen "$target, two.cu before it is linked" "$(names two.cubin)" "two.cu: _Z6secondf"
  nvlink -arch=$target one.cubin two.cubin -o $target.cubin
  second=_Z6secondf
  [ $target != sm_90 ] || second=_Z5firstf # which two.cu has not
  seen "$target, linked" "$(names $target.cubin)" "one.cu: _Z5firstf
two.cu: $second"
done
