// Atomics, barriers and an asynchronous copy: the instructions that carry scopes.

kernel void count(global int *bins, global const int *values, local int *near)
{
    event_t done = async_work_group_copy(near, values, (size_t)64, (event_t)0);
    wait_group_events(1, &done);
    atomic_inc(&bins[near[get_local_id(0)] & 15]);
    barrier(CLK_GLOBAL_MEM_FENCE);
    atomic_max(&bins[16], near[0]);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}

kernel void exchange(volatile global int *lock, global int *out)
{
    int seen = atomic_cmpxchg(lock, 0, 1);
    while (seen)
        seen = atomic_cmpxchg(lock, 0, 1);
    out[0] = seen;
}
