// Second half: a function that is called across the link, one that nobody calls and the linker strips, and a kernel.

#include "shade/curve.cuh"

__device__ float weigh(float value, int rank)
{
    return film(value) / sqrtf((float)rank + value);
}

__device__ __noinline__ float nobody(float value)
{
    return to_stored(value) * 3.0f;
}

__global__ void decay(float *values, float rate)
{
    values[threadIdx.x] = to_linear(values[threadIdx.x]) * rate;
}
