// Macros: what one of several lines expands to belongs to the line that uses it, also when a macro uses another, makes a
// whole function, or is conditional.

#define BINS 64
#define BIN_OF(value) ((uint)((value) * (float)(BINS - 1)))

#define COUNT(table, value)                          \
    do {                                             \
        float inside = clamp((value), 0.0f, 1.0f);   \
        atomic_inc(&(table)[BIN_OF(inside)]);        \
    } while (0)

#define LUMINANCE_OF(NAME, R, G, B)                  \
    float NAME(float4 pixel)                         \
    {                                                \
        return R * pixel.x + G * pixel.y             \
             + B * pixel.z;                          \
    }

LUMINANCE_OF(broadcast_luminance, 0.299f, 0.587f, 0.114f)
LUMINANCE_OF(screen_luminance, 0.2126f, 0.7152f, 0.0722f)

kernel void histogram(global const float4 *image, global uint *counts, int broadcast)
{
    float4 pixel = image[get_global_id(0)];
    if (broadcast)
        COUNT(counts, broadcast_luminance(pixel));
    else
        COUNT(counts, screen_luminance(pixel));
#ifdef COUNT_ALPHA
    COUNT(counts + BINS, pixel.w);
#endif
}
