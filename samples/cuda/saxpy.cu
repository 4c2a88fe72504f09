// The smallest useful sample: two kernels, nothing inlined.

extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void scale(float *y, float a)
{
    y[threadIdx.x] *= a;
}
