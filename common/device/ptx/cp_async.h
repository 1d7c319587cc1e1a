// PTX cp.async: asynchronous copies from global to shared memory that bypass registers. Compute
// capability 8.0.
#ifndef CUFLASH_DEVICE_PTX_CP_ASYNC_H_
#define CUFLASH_DEVICE_PTX_CP_ASYNC_H_

#include <cuda_runtime.h>

#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Starts copying 16 bytes; both addresses must be multiples of 16. If `valid` is false, it writes
// zeros and reads nothing. Until the wait that covers the copy, its 16 bytes of shared memory are
// undefined and its source must not be written. The PTX manual requires a source size below 16; for
// a whole copy this function passes 16, as CUTLASS does.
__device__ __forceinline__ void cp_async_16(SharedAddress shared, const void* global,
                                            bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared.value), "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
               : "memory");
}

// Commits the thread's copies since its last commit as a group, which may be empty.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the thread's last kPending groups are pending. The thread then sees the data
// of the other groups; the block's other threads see it after a subsequent barrier.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_CP_ASYNC_H_
