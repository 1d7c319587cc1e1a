// The launches of simt_speed: blocks of 256 threads, `count` rounds each.
#ifndef CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_
#define CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_

#include <cuda_fp16.h>

namespace cuflash {

// In a round each warp reads 32 elements of `in`; out[blocks · 256].
void run_read_rows(const float* in, float* out, int blocks, int count);
void run_read_rows(const __half* in, float* out, int blocks, int count);
// In a round a block reads 256 elements of `in`, and 32 times as many of a tile in shared memory.
void run_read_tiles(const float* in, float* out, int blocks, int count);

}  // namespace cuflash

#endif  // CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_
