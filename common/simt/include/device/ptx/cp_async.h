// The CPU simulator's cp.async: a copy takes effect at the wait that covers it, and not before.
#ifndef CUFLASH_SIMT_DEVICE_PTX_CP_ASYNC_H_
#define CUFLASH_SIMT_DEVICE_PTX_CP_ASYNC_H_

#include <cuda_runtime.h>

#include "device/ptx/shared_address.h"

namespace cuflash::simt {

void issue_copy(void* shared, const void* global, bool valid);
void commit_copies();
// Waits for all of the thread's groups except the last `pending`.
void wait_for_copies(int pending);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void cp_async_16(SharedAddress shared, const void* global, bool valid = true) {
  simt::issue_copy(shared.value, global, valid);
}
__forceinline__ void cp_async_commit() { simt::commit_copies(); }
template <int kPending>
__forceinline__ void cp_async_wait() {
  static_assert(kPending >= 0, "a number of groups");
  simt::wait_for_copies(kPending);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_CP_ASYNC_H_
