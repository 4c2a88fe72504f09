// A launch that fails: threads of two blocks walk through lists of bodies, and some follow an index out of the list. The load that
// fails is two calls deep, in a function with an inlined helper; each thread has values of its own in registers and in local memory.
#include <cstdio>
#include <cstdlib>

struct Body {
    float x, y, z, mass;
};

struct Walk {
    int start, step;
    float total;
    short visited[4];
};

__constant__ float softening = 0.25f;

__device__ inline float squared(float x, float y, float z)
{
    return x * x + y * y + z * z;
}

__device__ __noinline__ float pull(const Body *bodies, long at, float x)
{
    const Body *body = bodies + at;
    float dx = body->x - x;
    return body->mass / (squared(dx, body->y, body->z) + softening);
}

__device__ __noinline__ float walk(const Body *bodies, const int *next, int first, int steps)
{
    Walk walk = {first, 0, 0.0f, {}};
    long at = first;
    for (; walk.step < steps; ++walk.step) {
        walk.total += pull(bodies, at, (float)walk.step);
        walk.visited[walk.step & 3] = (short)at;
        at = next[at];
        if (at < 0)
            at = at * 1048576 * 1024;
    }
    return walk.total + walk.visited[first & 3];
}

__global__ void orbit(float *pulls, const Body *bodies, const int *next, int steps)
{
    __shared__ float sums[32];
    unsigned thread = threadIdx.x;
    bool even = thread % 2 == 0;
    double weight = 0.5 + blockIdx.x;
    sums[thread] = 0.0f;
    __syncthreads();
    if (!even)
        sums[thread] = walk(bodies, next, thread, steps);
    else
        sums[thread] = (float)weight;
    __syncthreads();
    pulls[blockIdx.x * 32 + thread] = sums[31 - thread] * (float)weight;
}

int main()
{
    Body *bodies;
    int *next, list[32];
    float *pulls;
    for (int i = 0; i < 32; ++i)
        list[i] = i == 7 || i == 21 ? -i : (i + 2) % 32;
    cudaMalloc(&bodies, 32 * sizeof(Body));
    cudaMalloc(&next, sizeof list);
    cudaMalloc(&pulls, 64 * sizeof(float));
    cudaMemset(bodies, 0, 32 * sizeof(Body));
    cudaMemcpy(next, list, sizeof list, cudaMemcpyHostToDevice);
    orbit<<<2, 32>>>(pulls, bodies, next, 8);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
