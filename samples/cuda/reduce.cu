// Templates, warp shuffles, dynamic shared memory, a barrier in a loop, and a stack frame.

struct Sum {
    template <typename T> __device__ static T join(T a, T b)
    {
        return a + b;
    }
};

struct Largest {
    template <typename T> __device__ static T join(T a, T b)
    {
        return a > b ? a : b;
    }
};

template <typename T, typename Fold> __device__ T fold_warp(T value)
{
    for (int step = 16; step; step /= 2)
        value = Fold::join(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

template <typename T, typename Fold> __global__ void reduce(const T *in, T *out)
{
    extern __shared__ __align__(8) unsigned char raw[];
    T *partial = reinterpret_cast<T *>(raw);
    partial[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int half = blockDim.x / 2; half >= 32; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            partial[threadIdx.x] = Fold::join(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    if (threadIdx.x < 32)
        out[blockIdx.x] = fold_warp<T, Fold>(partial[threadIdx.x]);
}

template __global__ void reduce<float, Sum>(const float *, float *);
template __global__ void reduce<int, Largest>(const int *, int *);

__global__ void histogram(const unsigned char *in, int *out, int n)
{
    int bins[64];
    for (int b = 0; b < 64; ++b)
        bins[b] = 0;
    for (int i = threadIdx.x; i < n; i += 32)
        ++bins[in[i] & 63];
    for (int b = 0; b < 64; ++b)
        atomicAdd(&out[b], bins[b]);
}
