// Warp-wide operations of the running block: shuffles, votes, reductions, __syncwarp(), and those
// on matrices.
#ifndef CUFLASH_SIMT_WARP_H_
#define CUFLASH_SIMT_WARP_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace cuflash::simt {

struct Thread;

class WarpCalls {
 public:
  void begin_block(int num_warps) { last_missing_.assign(num_warps, 0); }
  std::uint64_t call(Thread& self, const WarpCall& call, std::uintptr_t return_address);

  // For when no thread can go on and some wait here. CUDA lets an operation begin without the lanes
  // that have exited; true if one has begun.
  bool begin_without_absent();
  // Reports an operation with a missing lane that has not exited.
  void report_stuck() const;

 private:
  bool is_complete(const Thread& caller, bool ignore_absent);

  std::vector<int> last_missing_;  // by warp: the lane that kept the last operation waiting
};

// The last lane that reaches an operation of the warp executes it for all. `lanes` points to the
// first lane.
void finish_matrix_access(const Thread& caller);  // matrix.cpp
void finish_product(const Thread* lanes);         // matrix.cpp
void finish_mma(const Thread* lanes);             // mma.cpp
void finish_ldmatrix(const Thread* lanes);        // ldmatrix.cpp

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_WARP_H_
