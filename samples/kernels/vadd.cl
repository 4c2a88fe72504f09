// The smallest sample: one kernel and one inlined helper, for a first look and for hand-checked expectations.

float shifted(float x, float by)
{
    float scaled = x * 2.0f;
    return scaled + by;
}

kernel void vadd(global const float *a, global const float *b, global float *sum, uint count)
{
    size_t i = get_global_id(0);
    if (i >= count)
        return;
    sum[i] = shifted(a[i], b[i]);
}
