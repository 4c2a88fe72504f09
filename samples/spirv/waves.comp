#version 450
#extension GL_GOOGLE_include_directive : enable
#include "include/ripple.glsl"

layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Heights { float heights[]; };

float damp(float height, float by)
{
    float left = height * (1.0 - by);
    return max(left, 0.0);
}

void main()
{
    uint i = gl_GlobalInvocationID.x;
    float height = heights[i];
    for (int step = 0; step < 3; ++step)
        height = damp(ripple(height, float(step)), 0.1);
    heights[i] = height;
}
