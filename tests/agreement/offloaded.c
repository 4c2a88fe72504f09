/* Two regions for a GPU: functions inlined into one another, and one that is called. */
#include <stdio.h>

#define WIDTH 64

static float clamped(float value)
{
    if (value < 0.0f)
        return 0.0f;
    return value > 1.0f ? 1.0f : value;
}

static float darkened(float value, int row)
{
    float faded = value - 0.01f * row;
    return clamped(faded) * 0.5f;
}

#pragma omp declare target
__attribute__((noinline)) float contrast(float value)
{
    float centred = value - 0.5f;
    return clamped(centred * 1.5f + 0.5f);
}
#pragma omp end declare target

int main(void)
{
    float picture[WIDTH * WIDTH];
    for (int at = 0; at < WIDTH * WIDTH; at++)
        picture[at] = (float)(at % WIDTH) / WIDTH;
#pragma omp target teams distribute parallel for map(tofrom : picture)
    for (int at = 0; at < WIDTH * WIDTH; at++)
        picture[at] = darkened(picture[at], at / WIDTH);
#pragma omp target map(tofrom : picture)
    for (int at = 0; at < WIDTH; at++)
        picture[at] = contrast(picture[at]);
    printf("%f\n", picture[WIDTH]);
    return 0;
}
