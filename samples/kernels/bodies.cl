// Functions that are called and inlined at once, in unrolled loops, with local memory and barriers.

typedef struct { float4 place; float4 speed; } Body;

float inverse_cube(float squared)
{
    float inverse = rsqrt(squared + 0.01f);
    return inverse * inverse * inverse;
}

float4 pull(float4 here, float4 there)
{
    float4 way = there - here;
    float squared = way.x * way.x + way.y * way.y + way.z * way.z;
    return way * (there.w * inverse_cube(squared));
}

__attribute__((noinline)) float4 total_pull(global const Body *bodies, uint count, float4 here)
{
    float4 sum = (float4)(0.0f);
    for (uint j = 0; j < count; ++j)
        sum += pull(here, bodies[j].place);
    return sum;
}

float4 clamp_speed(float4 speed, float limit)
{
    float length_now = length(speed.xyz);
    if (length_now > limit)
        return speed * (limit / length_now);
    return speed;
}

kernel void step_bodies(global const Body *bodies, global Body *moved, uint count, float dt)
{
    uint i = get_global_id(0);
    if (i >= count)
        return;
    Body own = bodies[i];
    float4 pulled = total_pull(bodies, count, own.place);
    own.speed = clamp_speed(own.speed + pulled * dt, 10.0f);
    own.place += own.speed * dt;
    moved[i] = own;
}

kernel void tiled(global const float4 *places, global float4 *pulls, uint count, local float4 *cache)
{
    uint i = get_global_id(0);
    uint l = get_local_id(0);
    float4 own = places[i];
    float4 sum = (float4)(0.0f);
    for (uint tile = 0; tile < count; tile += get_local_size(0)) {
        cache[l] = places[tile + l];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < 16; ++j)
            sum += pull(own, cache[j]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    pulls[i] = sum;
}

kernel void energy(global const Body *bodies, global float *out, uint count)
{
    uint i = get_global_id(0);
    float4 sum = total_pull(bodies, count, bodies[i].place);
    float4 again = total_pull(bodies, count, bodies[i].place + sum);
    out[i] = dot(sum, again) + inverse_cube(dot(sum, sum));
}
