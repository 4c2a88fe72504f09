#!/bin/sh
# clang, HIP: a kernel without code starts at the next kernel's first instruction.
#
# A kernel whose body cannot be reached, as library templates have one for each processor that they are not compiled for, is compiled
# to a symbol of size 0. Its descriptor is like another's, and its entry point the code that follows: the next kernel's.
. "$(dirname "$0")/packages.sh"
# shellcheck disable=SC2086 # several packages
debs $clang14 lld-14=1:14.0.6-12 llvm-14=1:14.0.6-12
cat > empty.hip <<'END'
template <int N> __attribute__((global)) void k(int *p) {
  if (N == 1)
    __builtin_unreachable();
  *p = N;
}
template __attribute__((global)) void k<1>(int *);
template __attribute__((global)) void k<2>(int *);
END
clang-14 -x hip -nogpulib -nogpuinc --cuda-device-only --no-gpu-bundle-output --offload-arch=gfx90a -O2 -o empty.co empty.hip
symbols=$(llvm-readelf-14 -s empty.co)
row() { echo "$symbols" | awk -v name="$1" '$NF == name { print $2, $3; exit }'; }
first=$(row _Z1kILi1EEvPi) second=$(row _Z1kILi2EEvPi)
seen "size of k<1>" "${first#* }" "0"
[ "${first% *}" = "${second% *}" ] && same=yes || same=no
seen "k<1> has the address of k<2>" "$same" "yes"

entry() { # the descriptor's address, and what its field at byte 16 adds
  at=$(row "$1.kd")
  python3 - "${at% *}" empty.co <<'END'
import struct, sys
address, data = int(sys.argv[1], 16), open(sys.argv[2], "rb").read()
table, = struct.unpack_from("<Q", data, 0x28)
for row in range(table, len(data) - 63, 64):
    start, offset, size = struct.unpack_from("<3Q", data, row + 16)
    if start <= address < start + size:
        print(f"{address + struct.unpack_from('<q', data, offset + address - start + 16)[0]:016x}")
END
}
seen "the entry point of k<1>" "$(entry _Z1kILi1EEvPi)" "${second% *}"
