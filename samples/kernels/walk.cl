// A function that is called from a function that is called, both with inlined helpers.

__attribute__((noinline)) uint next_random(uint *state)
{
    uint x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    return x;
}

float uniform_float(uint *state)
{
    return (next_random(state) >> 8) * (1.0f / 16777216.0f);
}

float2 direction(uint *state)
{
    float angle = uniform_float(state) * 6.2831853f;
    return (float2)(cos(angle), sin(angle));
}

bool inside(float2 at, float radius)
{
    return at.x * at.x + at.y * at.y < radius * radius;
}

__attribute__((noinline)) float walk(uint *state, float2 at, float radius)
{
    float steps = 0.0f;
    while (inside(at, radius) && steps < 1000.0f) {
        at += direction(state) * 0.1f;
        steps += 1.0f;
    }
    return steps;
}

kernel void walks(global uint *states, global float *out, float radius)
{
    uint i = get_global_id(0);
    uint state = states[i];
    float2 start = direction(&state) * 0.5f;
    out[i] = walk(&state, start, radius);
    states[i] = state;
}

kernel void darts(global uint *states, global uint *hits, uint count)
{
    uint i = get_global_id(0);
    uint state = states[i];
    uint found = 0;
    for (uint n = 0; n < count; ++n) {
        float2 at = (float2)(uniform_float(&state), uniform_float(&state));
        if (inside(at, 1.0f))
            ++found;
    }
    hits[i] = found;
    states[i] = state;
}
