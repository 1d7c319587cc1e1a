// What simt_speed launches: blocks of 256 threads, each with so many rounds.
#ifndef CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_
#define CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_

#include <cuda_fp16.h>

namespace cuflash {

// A round reads 32 elements of `in` with each warp; out[blocks · 256].
void run_read_rows(const float* in, float* out, int blocks, int count);
void run_read_rows(const __half* in, float* out, int blocks, int count);
// A round reads 256 elements of `in`, and 32 times as many of a tile in shared memory.
void run_read_tiles(const float* in, float* out, int blocks, int count);

}  // namespace cuflash

#endif  // CUFLASH_BENCH_SIMT_SPEED_KERNEL_H_
