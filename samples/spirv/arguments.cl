// Every kind of kernel argument that the Level Zero text speaks of, with the execution modes a kernel can carry. The
// by-value struct and the double are the two that shipping drivers take although that text does not list them.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef struct {
    int first;
    float second[2];
} pair;

__attribute__((reqd_work_group_size(16, 2, 1))) kernel void
scalars(char c, short s, int i, long l, float f, float4 v, global long *out)
{
    out[get_global_id(0)] = c + s + i + l + (long)(f + v.x);
}

__attribute__((intel_reqd_sub_group_size(16))) kernel void
memory(global int *out, local int *shared, constant int *table)
{
    size_t i = get_global_id(0);
    shared[get_local_id(0)] = table[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = shared[0];
}

kernel void images(read_only image2d_t from, write_only image3d_t to, sampler_t filter)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, (int4)(at, 0, 0), read_imagef(from, filter, at));
}

__attribute__((work_group_size_hint(8, 8, 1))) kernel void byvalue(pair p, global float *out)
{
    out[p.first] = p.second[0] + p.second[1];
}

kernel void precise(double d, global double *out)
{
    out[get_global_id(0)] = d;
}
