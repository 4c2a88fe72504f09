// One kernel with a function that stays a call and one that is inlined twice; local memory and a loop.

__attribute__((noinline)) float march(float start, int steps)
{
    float sum = start;
    for (int k = 0; k < steps; ++k)
        sum = sum * start + (float)k;
    return sum;
}

static float blend(float a, float b)
{
    float half_way = (a + b) * 0.5f;
    return half_way > a ? half_way : a;
}

kernel void shade(global float *out, global const float *in, int steps)
{
    local float tile[64];
    int lane = __builtin_amdgcn_workitem_id_x();
    tile[lane & 63] = in[lane];
    __builtin_amdgcn_s_barrier();
    float near = blend(tile[lane & 63], tile[(lane + 1) & 63]);
    float far = march(near, steps);
    out[lane] = blend(far, near);
}

kernel void clear(global float *out)
{
    out[__builtin_amdgcn_workitem_id_x()] = 0.0f;
}
