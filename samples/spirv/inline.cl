// Two levels of inlining through a header, and one helper inlined twice on the same source line.

#include "include/weigh.h"

float blend(float low, float high, float part)
{
    float rest = 1.0f - part;
    return weigh(low, rest) + weigh(high, part);
}

kernel void fade(global const float *from, global const float *to, global float *out, float part)
{
    size_t i = get_global_id(0);
    if (part > 0.5f)
        out[i] = blend(from[i], to[i], part);
    else
        out[i] = blend(to[i], from[i], part);
}
