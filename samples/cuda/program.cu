// A host program that launches a kernel of its own, so that a fat binary lies inside a host ELF.

#include "shade/curve.cuh"

__global__ void expose(float *values, float exposure)
{
    values[threadIdx.x] = film(values[threadIdx.x] * exposure);
}

int main()
{
    float *values = nullptr;
    cudaMalloc(&values, 32 * sizeof(float));
    expose<<<1, 32>>>(values, 2.0f);
    return cudaDeviceSynchronize() != cudaSuccess;
}
