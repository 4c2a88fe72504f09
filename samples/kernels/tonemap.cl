// Headers in another folder: most of the kernel's instructions belong to include/colour/*.h, one header includes another.

#include "colour/tone.h"

kernel void tonemap(global const float *image, global float *mapped, float exposure)
{
    size_t i = get_global_id(0);
    vstore3(tone(vload3(i, image), exposure), i, mapped);
}
