#!/bin/sh
# ptxas: an instruction from the same line of another file has the file of the instruction before.
#
# Code of headers, and of #line, follows code of other files, now and then with the same line number. The PTX says both places (.loc).
# ptxas writes a row where the line changes; where the file alone does, it writes none, with -lineinfo and with -g (-G), for every
# architecture. nvdisasm -g prints the file that the table has.
. "$(dirname "$0")/packages.sh"
cuda
cat > files.cu <<'SOURCE'
extern "C" __global__ void k(volatile float *p) {
#line 50 "one.h"
  p[0] = p[1] * 3.0f;
#line 50 "two.h"
  p[2] = p[3] * 5.0f;
#line 60 "three.h"
  p[4] = p[5] * 7.0f;
#line 8 "files.cu"
}
SOURCE
nvcc -lineinfo -ptx -arch=compute_80 files.cu -o files.ptx
places() { # of the files whose numbers PTX gives
  awk '/\.file/ { gsub(/"/, ""); sub(/.*\//, "", $3); file[$2] = $3 } /\.loc/ { place[++n] = $2 " " $3 }
    END { for (i = 1; i <= n; i++) { split(place[i], at, " "); print file[at[1]] ":" at[2] } }' files.ptx
}
seen "places in the PTX" "$(places | grep '\.h:' | uniq)" "one.h:50
two.h:50
three.h:60"

for target in sm_75 sm_80 sm_90 sm_100 sm_120; do
  for option in -lineinfo -G; do
    nvcc $option -cubin -arch=$target files.cu -o files.cubin
    rows=$(nvdisasm -g -c files.cubin | sed -n 's/.*File ".*\/\([a-z]*\.h\)", line \([0-9]*\).*/\1:\2/p' | uniq)
    seen "$target, $option, nvdisasm -g" "$rows" "one.h:50
three.h:60"
  done
done
