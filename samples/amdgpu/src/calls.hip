// A kernel whose calls leave return addresses in registers, in lanes of a vector register and, where a function calls itself, in
// memory.
#define DEVICE __attribute__((device))
#define KERNEL __attribute__((global))

DEVICE __attribute__((noinline)) float squared(const float *in, int at)
{
    float value = in[at];
    return value * value;
}

DEVICE __attribute__((noinline)) float folded(const float *in, int count)
{
    float first = squared(in, count);
    if (count <= 1)
        return first;
    return first + folded(in + 1, count - 1) * 0.5f;
}

KERNEL void probe(float *out, const float *in, int count)
{
    int lane = __builtin_amdgcn_workitem_id_x();
    out[lane] = folded(in + lane, count);
}
