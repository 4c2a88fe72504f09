// Version 4 by hand: a function without a size, a label inside it, a routine that is only a label.
	.text
	.globl	scale
	.p2align	8
	.type	scale,@function
scale:
	s_load_dwordx2 s[0:1], s[0:1], 0x0
	v_mov_b32_e32 v1, 4
loop:
	v_add_u32_e32 v1, -1, v1
	v_cmp_ne_u32_e32 vcc, 0, v1
	s_cbranch_vccnz loop
	s_endpgm
routine:
	v_mov_b32_e32 v2, v1
	s_setpc_b64 s[30:31]
	.section .rodata,"a"
	.p2align 6
	.amdhsa_kernel scale
	  .amdhsa_next_free_vgpr 3
	  .amdhsa_next_free_sgpr 32
	  .amdhsa_group_segment_fixed_size 128
	.end_amdhsa_kernel
