// Kernels that call a function and have nothing inlined: only their variables say whose code it is.

__attribute__((noinline)) float series(float x, uint n)
{
    float sum = 0.0f;
    float term = 1.0f;
    for (uint i = 1; i <= n; ++i) {
        term *= x / (float)i;
        sum += term;
    }
    return sum;
}

kernel void series_of(global const float *in, global float *out, uint n)
{
    uint i = get_global_id(0);
    float x = in[i];
    float y = series(x, n) * 2.0f;
    if (y > 3.0f)
        y = y - x * x;
    out[i] = y;
}

kernel void twelve(global const float *in, global float *out)
{
    out[get_global_id(0)] = series(in[get_global_id(1)], 12) * in[0] + in[1] / in[2];
}
