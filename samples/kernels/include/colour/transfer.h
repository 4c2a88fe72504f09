// Transfer curves between stored and linear light; everything here is inlined into the kernels that include it.

#ifndef COLOUR_TRANSFER_H
#define COLOUR_TRANSFER_H

inline float to_linear(float stored)
{
    if (stored <= 0.04045f)
        return stored / 12.92f;
    return native_powr((stored + 0.055f) / 1.055f, 2.4f);
}

inline float to_stored(float light)
{
    if (light <= 0.0031308f)
        return light * 12.92f;
    return 1.055f * native_powr(light, 1.0f / 2.4f) - 0.055f;
}

#endif
