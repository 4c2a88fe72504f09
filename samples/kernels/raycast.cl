// Functions that are really called: a noinline one that stands behind the kernel in the same text, called from two
// places, with an inlined helper of its own.

float length_squared(float3 v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z;
}

__attribute__((noinline)) float distance_to(global const float4 *spheres, uint count, float3 at)
{
    float nearest = 1.0e30f;
    for (uint i = 0; i < count; ++i) {
        float3 way = at - spheres[i].xyz;
        nearest = fmin(nearest, sqrt(length_squared(way)) - spheres[i].w);
    }
    return nearest;
}

kernel void raycast(global const float4 *spheres, uint count, global float *depth, uint width, float3 eye)
{
    uint x = get_global_id(0);
    uint y = get_global_id(1);
    float3 way = (float3)((float)x / width - 0.5f, (float)y / width - 0.5f, 1.0f);
    way = way * rsqrt(length_squared(way));
    float travelled = distance_to(spheres, count, eye);
    for (int step = 0; step < 64 && travelled < 100.0f; ++step) {
        float near = distance_to(spheres, count, eye + way * travelled);
        if (near < 0.001f)
            break;
        travelled += near;
    }
    depth[y * width + x] = travelled;
}
