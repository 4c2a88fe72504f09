// A filmic curve; a header that includes another one.

#ifndef COLOUR_TONE_H
#define COLOUR_TONE_H

#include "colour/transfer.h"

inline float film(float light)
{
    float over = light * (2.51f * light + 0.03f);
    float under = light * (2.43f * light + 0.59f) + 0.14f;
    return clamp(over / under, 0.0f, 1.0f);
}

inline float3 tone(float3 pixel, float exposure)
{
    float3 mapped;
    mapped.x = to_stored(film(exposure * to_linear(pixel.x)));
    mapped.y = to_stored(film(exposure * to_linear(pixel.y)));
    mapped.z = to_stored(film(exposure * to_linear(pixel.z)));
    return mapped;
}

#endif
