// Local memory and barriers: a tree reduction in a work-group, and a second kernel whose local memory is an argument.

#define GROUP 64

kernel void total(global const float *values, global float *totals, uint count)
{
    local float partial[GROUP];
    uint me = get_local_id(0);
    uint i = get_global_id(0);
    partial[me] = i < count ? values[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {
        if (me < reach)
            partial[me] += partial[me + reach];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0)
        totals[get_group_id(0)] = partial[0];
}

kernel void largest(global const int *values, global int *result, local int *seen)
{
    uint me = get_local_id(0);
    seen[me] = values[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0) {
        int best = INT_MIN;
        for (uint i = 0; i < get_local_size(0); ++i)
            best = max(best, seen[i]);
        atomic_max(result, best);
    }
}
