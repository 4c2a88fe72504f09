// Constant and shared memory, barriers, and functions that are really called: noinline ones with an inlined helper of
// their own, called from two kernels and two places.

struct Sphere {
    float x, y, z, radius;
};

__constant__ Sphere spheres[16];
__constant__ int count = 16;

__device__ inline float squared(float x, float y, float z)
{
    return x * x + y * y + z * z;
}

__device__ __noinline__ float distance_to(float x, float y, float z)
{
    float nearest = 1.0e30f;
    for (int i = 0; i < count; ++i) {
        Sphere s = spheres[i];
        nearest = fminf(nearest, sqrtf(squared(x - s.x, y - s.y, z - s.z)) - s.radius);
    }
    return nearest;
}

__global__ __launch_bounds__(64, 2) void raycast(float *depth, int width, float3 eye)
{
    __shared__ float tile[64];
    float way = threadIdx.x / (float)width - 0.5f;
    float travelled = distance_to(eye.x, eye.y, eye.z);
    for (int step = 0; step < 32; ++step)
        travelled += distance_to(eye.x + way * travelled, eye.y, eye.z + travelled);
    tile[threadIdx.x] = travelled;
    __syncthreads();
    depth[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void probe(float *nearest, const float3 *at)
{
    float3 p = at[threadIdx.x];
    nearest[threadIdx.x] = distance_to(p.x, p.y, p.z);
}
