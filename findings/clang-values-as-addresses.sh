#!/bin/sh
# clang, OpenCL C for AMDGPU: an optimized variable's value is described as an address in private memory.
#
# Behind the location of a local variable clang writes DW_OP_constu 1, DW_OP_swap, DW_OP_xderef: "what was computed is an address in
# address space 1". That is true of the variable's stack slot. After optimization the slot is gone, dbg.value names the value itself,
# and the operations stay: a debugger reads private memory at the value. The kernel has none (.private_segment_fixed_size 0).
. "$(dirname "$0")/packages.sh"
# shellcheck disable=SC2086 # several packages
debs $clang14
cat > value.cl <<'END'
kernel void k(global ulong *p) {
  ulong value = p[0];
  p[1] = value * 3;
}
END
compile() { clang-14 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=gfx900 -nogpulib -O2 -g -S "$@" value.cl; }
compile -emit-llvm -o value.ll
compile -o value.s
loaded=$(sed -n 's/ *\(%[0-9]*\) = load i64,.*/\1/p' value.ll)
location=$(grep "dbg.value(metadata i64 $loaded," value.ll | grep -o 'DIExpression([^)]*)')
seen "the location of 'value', which is what the load gave" "$location" "DIExpression(DW_OP_constu, 1, DW_OP_swap, DW_OP_xderef)"
seen "private memory of the kernel" "$(grep -o 'private_segment_fixed_size: [0-9]*' value.s)" "private_segment_fixed_size: 0"
