// First half of a program linked on the device: its kernels call functions of the other half.

#include "shade/curve.cuh"

extern __device__ float weigh(float value, int rank);

__global__ void weights(float *out, const float *in)
{
    out[threadIdx.x] = weigh(tone(in[threadIdx.x], 2.0f), threadIdx.x);
}
