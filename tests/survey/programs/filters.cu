// Three kernels with functions that are inlined, one of them three deep, and one function that is called.
struct Pixel {
    float red, green, blue;

    __device__ float brightest() const
    {
        return fmaxf(red, fmaxf(green, blue));
    }
};

template <typename T> __device__ T clamped(T value, T low, T high)
{
    if (value < low)
        return low;
    return value > high ? high : value;
}

__device__ float toned(const Pixel &pixel)
{
    float light = pixel.brightest();
    return clamped(light / (1.0f + light), 0.0f, 1.0f);
}

__device__ __noinline__ float weighed(float value, int steps)
{
    for (int step = 0; step < steps; ++step)
        value = value * 0.5f + sqrtf(value);
    return value;
}

extern "C" __global__ void tone(const Pixel *in, float *out, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        out[at] = toned(in[at]);
}

extern "C" __global__ void weigh(float *values, int count, int steps)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    values[at] = weighed(clamped(values[at], 0.0f, 8.0f), steps);
}

__global__ void total(const float *in, float *out, int count)
{
    __shared__ float shared[256];
    float sum = 0;
    for (int at = threadIdx.x; at < count; at += blockDim.x)
        sum += clamped(in[at], -1.0f, 1.0f);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (!threadIdx.x)
        *out = shared[0];
}
