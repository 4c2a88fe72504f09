// Global and shared arrays larger than the file: in a relocatable cubin their sections have a size and no bytes.

__device__ float weights[1 << 16];

__device__ __noinline__ float neighbour(float value, int lane)
{
    __shared__ float tile[4096];
    tile[lane] = value;
    __syncthreads();
    return tile[(lane + 1) & 4095] + value;
}

__global__ void blend(float *values, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        values[at] = neighbour(values[at], threadIdx.x) * weights[at & 0xffff];
}
