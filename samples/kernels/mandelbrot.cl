// Inlined helpers three deep: mandelbrot -> escape_time -> next -> square, so that a frame list has four entries.

typedef struct {
    float re;
    float im;
} complex_t;

inline complex_t square(complex_t z)
{
    complex_t result;
    result.re = z.re * z.re - z.im * z.im;
    result.im = 2.0f * z.re * z.im;
    return result;
}

inline complex_t next(complex_t z, complex_t c)
{
    complex_t result = square(z);
    result.re += c.re;
    result.im += c.im;
    return result;
}

inline uint escape_time(complex_t c, uint limit)
{
    complex_t z = {0.0f, 0.0f};
    uint steps = 0;
    while (steps < limit && z.re * z.re + z.im * z.im < 4.0f) {
        z = next(z, c);
        ++steps;
    }
    return steps;
}

kernel void mandelbrot(global uint *image, uint width, float2 origin, float pixel, uint limit)
{
    uint x = get_global_id(0);
    uint y = get_global_id(1);
    complex_t c = {
        origin.x + pixel * (float)x,
        origin.y + pixel * (float)y,
    };
    image[y * width + x] = escape_time(c, limit);
}
