// The CPU simulator's counts by which blocks wait for others. Blocks run one after the other, so
// that a block can wait for earlier ones and for its own threads.
#ifndef CUFLASH_SIMT_DEVICE_PTX_BLOCK_COUNT_H_
#define CUFLASH_SIMT_DEVICE_PTX_BLOCK_COUNT_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

void add_to_block_count(unsigned* count);
void wait_for_block_count(const unsigned* count, unsigned value);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void block_count_add(unsigned* count) { simt::add_to_block_count(count); }
__forceinline__ void block_count_wait(const unsigned* count, unsigned value) {
  simt::wait_for_block_count(count, value);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_BLOCK_COUNT_H_
