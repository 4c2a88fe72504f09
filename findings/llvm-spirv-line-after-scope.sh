#!/bin/sh
# llvm-spirv: an instruction without a location gets the line of the one before, which another function was inlined with.
#
# Where LLVM's instruction has no location, llvm-spirv writes DebugNoScope and leaves the OpLine before it in force, which lasts until
# the block ends: the branch behind the inlined 'return' of middle() is in no scope, at a line of middle(). Read back (-r) it has no
# location again, so that llvm-spirv itself does not mean the line.
. "$(dirname "$0")/packages.sh"
# shellcheck disable=SC2086 # several packages
debs $clang14 llvm-spirv-14=14.0.0-5 libllvmspirvlib14=14.0.0-5 llvm-14=1:14.0.6-12 spirv-tools=2023.1-2
cat > middle.cl <<'END'
float far(float v, int n) {
  float s = 0;
  for (int k = 0; k < n; k++)
    s += v * s;
  return s;
}

float middle(float v, int n) {
  if (n < 3)
    return v + 6.25f;
  float t = far(v, n);
  return t * v;
}

kernel void nested(global float *out, int n) {
  out[0] = middle(out[1], n);
}
END
clang-14 -x cl -cl-std=CL2.0 -target spir64 -g -O2 -emit-llvm -c -o middle.bc middle.cl
llvm-spirv-14 --spirv-debug-info-version=ocl-100 middle.bc -o middle.spv
llvm-spirv-14 -r middle.spv -o back.bc
ends() { # the branches behind the multiplications of line 12
  llvm-dis-14 "$1" -o - | grep -A1 'fmul float' | grep -A1 '= fmul' | sed -n 's/^ *\(br label\) %[^,]*\(.*\)/\1\2/p' | sort | uniq
}
seen "branches behind 't * v' in the bitcode" "$(ends middle.bc)" "br label"
seen "the same, read back from SPIR-V" "$(ends back.bc)" "br label"
after=$(spirv-dis --no-color --raw-id middle.spv | awk '
  /OpLine %[0-9]+ 12 12/ { in_force = 1; next }
  in_force { print /DebugNoScope/ ? "DebugNoScope" : /OpLine|OpNoLine|OpBranch/ ? $1 : $3 }
  /OpLine|OpNoLine|OpBranch/ { in_force = 0 }' | uniq)
seen "what the SPIR-V has behind OpLine 12 12, twice (there is no OpNoLine)" "$(echo "$after" | xargs)" \
  "OpFMul DebugNoScope OpBranch OpFMul DebugNoScope OpBranch"
