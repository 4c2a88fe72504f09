// The instructions of SPV_INTEL_subgroups: shuffles, block reads and writes of buffers and images.

#pragma OPENCL EXTENSION cl_intel_subgroups : enable

kernel void rotate_lanes(global const uint *from, global uint *to)
{
    uint lane = get_sub_group_local_id();
    uint value = intel_sub_group_block_read(from);
    uint next = intel_sub_group_shuffle(value, (lane + 1) & 7);
    intel_sub_group_block_write(to, next);
}

kernel void copy_tile(read_only image2d_t from, write_only image2d_t to)
{
    int2 at = (int2)((int)get_group_id(0) * 4, (int)get_group_id(1));
    intel_sub_group_block_write2(to, at, intel_sub_group_block_read2(from, at));
}

kernel void mark(write_only image2d_t to, int value)
{
    write_imagei(to, (int2)(0, 0), (int4)(value));
}
