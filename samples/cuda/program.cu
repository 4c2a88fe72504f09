// A host program that launches kernels, so that a fat binary lies inside a host ELF; -DLINKED adds those of the other
// sources, which it reaches through a device link.

#include "shade/curve.cuh"

__global__ void expose(float *values, float exposure)
{
    values[threadIdx.x] = film(values[threadIdx.x] * exposure);
}

#ifdef LINKED
__global__ void weights(float *out, const float *in);
__global__ void decay(float *values, float rate);
#endif

int main()
{
    float *values = nullptr;
    cudaMalloc(&values, 32 * sizeof(float));
    expose<<<1, 32>>>(values, 2.0f);
#ifdef LINKED
    weights<<<1, 16>>>(values, values + 16);
    decay<<<1, 32>>>(values, 0.5f);
#endif
    return cudaDeviceSynchronize() != cudaSuccess;
}
