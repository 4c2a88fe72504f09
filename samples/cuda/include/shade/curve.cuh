// A filmic curve; a header of another folder that includes another one, inlined three deep.

#pragma once

#include "shade/transfer.cuh"

__device__ inline float film(float light)
{
    float over = light * (2.51f * light + 0.03f);
    float under = light * (2.43f * light + 0.59f) + 0.14f;
    return fminf(over / under, 1.0f);
}

__device__ inline float tone(float stored, float exposure)
{
    float light = to_linear(stored);
    return to_stored(film(exposure * light));
}
