// Nested loops over tiles, unrolled by the compiler: many rows, many of them of the same line, and the largest text here.

#define TILE 16

kernel void matmul(global const float *a, global const float *b, global float *c, uint size)
{
    local float tile_a[TILE][TILE];
    local float tile_b[TILE][TILE];
    uint column = get_local_id(0);
    uint row = get_local_id(1);
    uint x = get_global_id(0);
    uint y = get_global_id(1);
    float sum = 0.0f;
    for (uint tile = 0; tile < size; tile += TILE) {
        tile_a[row][column] = a[y * size + tile + column];
        tile_b[row][column] = b[(tile + row) * size + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TILE; ++k)
            sum = mad(tile_a[row][k], tile_b[k][column], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[y * size + x] = sum;
}
