// The same work in HIP, without its headers: templates and a namespace give mangled names.
#define DEVICE __attribute__((device))
#define KERNEL __attribute__((global))

#include "launch.h"

namespace shading {

template <typename T>
DEVICE __attribute__((noinline)) T march(T start, int steps)
{
    T sum = start;
    for (int k = 0; k < steps; ++k)
        sum = sum * start + T(k);
    return sum;
}

DEVICE inline float blend(float a, float b)
{
    float half_way = (a + b) * 0.5f;
    return half_way > a ? half_way : a;
}

}  // namespace shading

KERNEL void shade(float *out, const float *in, int steps)
{
    int lane = __builtin_amdgcn_workitem_id_x();
    float near = shading::blend(in[lane], in[lane + 1]);
    out[lane] = shading::blend(shading::march(near, steps), near);
}

KERNEL void shade_doubles(double *out, const double *in, int steps)
{
    int lane = __builtin_amdgcn_workitem_id_x();
    out[lane] = shading::march(in[lane], steps);
}
