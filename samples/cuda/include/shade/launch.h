// What clang needs of CUDA's headers to compile a kernel and its launch.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))

struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" int cudaConfigureCall(dim3 grid, dim3 block, __SIZE_TYPE__ shared = 0, void *stream = 0);
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, __SIZE_TYPE__ shared = 0, void *stream = 0);
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, struct CUstream_st *);
