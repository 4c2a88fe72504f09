// Transfer curves between stored and linear light, with a polynomial that both of them call.

#pragma once

__device__ inline float cubic(float x, float a, float b, float c)
{
    float inner = a * x + b;
    return (inner * x + c) * x;
}

__device__ inline float to_linear(float stored)
{
    return cubic(stored, 0.305306011f, 0.682171111f, 0.012522878f);
}

__device__ inline float to_stored(float light)
{
    float root = sqrtf(light);
    return cubic(root, 0.1f, -0.2f, 1.1f);
}
