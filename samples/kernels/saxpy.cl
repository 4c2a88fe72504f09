// Built without -g: text and kernels, and no debug information at all.

kernel void saxpy(float a, global const float *x, global float *y)
{
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
