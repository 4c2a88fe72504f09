// Compiled for 32-bit addresses, which toolkits after 11.8 no longer do: two functions inlined into one another, and one that
// is called. It includes nothing, so that the device compiler takes it as it is.

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

__device__ __inline__ float square(float value)
{
    return value * value + 1.0f;
}

__device__ __inline__ float length2(float x, float y)
{
    return square(x) + square(y);
}

__device__ __attribute__((noinline)) float halved(float value)
{
    return value / 2.0f + 1.0f;
}

extern "C" __global__ void norms(float *out, const float *in, int count)
{
    int at;
    asm("mov.u32 %0, %%tid.x;" : "=r"(at));
    if (at < count)
        out[at] = halved(length2(in[at], in[at + count]));
}
