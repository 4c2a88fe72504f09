// Version 2 by hand: amd_kernel_code_t stands in front of the code, the symbol has type AMDGPU_HSA_KERNEL.
	.text
	.hsa_code_object_version 2,1
	.hsa_code_object_isa 9,0,0,"AMD","AMDGPU"
	.globl	scale
	.p2align	8
	.amdgpu_hsa_kernel scale
scale:
	.amd_kernel_code_t
		enable_sgpr_kernarg_segment_ptr = 1
		is_ptr64 = 1
		granulated_workitem_vgpr_count = 1
		granulated_wavefront_sgpr_count = 1
		wavefront_sgpr_count = 10
		workitem_vgpr_count = 5
		kernarg_segment_byte_size = 16
		workgroup_group_segment_byte_size = 512
		kernarg_segment_alignment = 4
		group_segment_alignment = 4
		private_segment_alignment = 4
		wavefront_size = 6
	.end_amd_kernel_code_t
	s_load_dwordx2 s[0:1], s[0:1], 0x0
	v_mov_b32_e32 v1, 4
loop:
	v_add_u32_e32 v1, -1, v1
	v_cmp_ne_u32_e32 vcc, 0, v1
	s_cbranch_vccnz loop
	s_endpgm
