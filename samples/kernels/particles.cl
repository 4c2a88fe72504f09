// Several kernels in one module, one of them without a single line of its own arithmetic, sharing helpers: every kernel
// starts at offset 0 of its own text, so an address alone does not say which one is meant.

typedef struct {
    float4 position;
    float4 velocity;
} particle;

float4 gravity(float4 at, float4 towards, float strength)
{
    float4 way = towards - at;
    float squared = dot(way.xyz, way.xyz) + 0.01f;
    return way * (strength * rsqrt(squared) / squared);
}

float bounce(float position, float *velocity, float wall)
{
    if (fabs(position) > wall) {
        *velocity = -*velocity;
        return copysign(wall, position);
    }
    return position;
}

kernel void emit(global particle *all, uint seed)
{
    uint i = get_global_id(0);
    uint noise = (i ^ seed) * 2654435761u;
    float angle = (float)(noise >> 8) * 0x1p-24f * 6.2831853f;
    all[i].position = (float4)(0.0f, 0.0f, 0.0f, 1.0f);
    all[i].velocity = (float4)(native_cos(angle), native_sin(angle), 0.1f, 0.0f);
}

kernel void attract(global particle *all, float4 sun, float strength, float step)
{
    uint i = get_global_id(0);
    all[i].velocity += gravity(all[i].position, sun, strength) * step;
}

kernel void move(global particle *all, float step, float wall)
{
    uint i = get_global_id(0);
    float4 position = all[i].position + all[i].velocity * step;
    float4 velocity = all[i].velocity;
    position.x = bounce(position.x, (float *)&velocity, wall);
    position.y = bounce(position.y, (float *)&velocity + 1, wall);
    all[i].position = position;
    all[i].velocity = velocity;
}

kernel void nothing(global particle *all)
{
}

kernel void energy(global const particle *all, global float *each)
{
    uint i = get_global_id(0);
    float3 speed = all[i].velocity.xyz;
    each[i] = 0.5f * dot(speed, speed);
}
