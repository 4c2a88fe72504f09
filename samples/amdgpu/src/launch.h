// What Clang's kernel stubs call, declared without HIP's headers.
#pragma once

struct dim3 {
    unsigned x, y, z;
};
typedef void *hipStream_t;
enum hipError_t { hipSuccess };
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
