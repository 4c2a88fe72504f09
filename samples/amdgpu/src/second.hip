// A second translation unit, so that a host program holds two bundles.
#include "launch.h"

__attribute__((global)) void negate(float *values)
{
    int lane = __builtin_amdgcn_workitem_id_x();
    values[lane] = -values[lane];
}
