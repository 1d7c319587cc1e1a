// Masks scores in accumulators: −∞ for the keys that a query does not see, and for those past the
// last (stage 07_mma_registers spells it out). Seq is Sequence, or that of a stage with a mask of
// its own (mask.h).
#ifndef CUFLASH_DEVICE_MASK_SCORES_H_
#define CUFLASH_DEVICE_MASK_SCORES_H_

#include <cmath>

#include "device/mask.h"
#include "device/mma_fragments.h"
#include "device/registers.h"

namespace cuflash {

// S of 16 queries from i0, of a warp, and the keys from j0.
template <class Seq, int kFragments>
__device__ __forceinline__ void mask_scores(float (&rS)[kFragments][4], const Seq& seq, int i0,
                                            int j0, int lane) {
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; ++e) {
      const int i = opaque(i0) + MmaAccumulator::row(lane, e);
      const int j = j0 + n * kMmaN + MmaAccumulator::col(lane, e);
      if (j >= seq.num_keys || !visible(seq, i, j)) rS[n][e] = -INFINITY;
    }
  }
}

// Sᵀ of 16 keys from j0, of a warp, and the queries from i0.
template <class Seq, int kFragments>
__device__ __forceinline__ void mask_transposed_scores(float (&rS)[kFragments][4], const Seq& seq,
                                                       int j0, int i0, int lane) {
#pragma unroll
  for (int m = 0; m < kFragments; ++m) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; ++e) {
      const int j = j0 + MmaAccumulator::row(lane, e);
      const int i = i0 + m * kMmaN + MmaAccumulator::col(lane, e);
      if (j >= seq.num_keys || !visible(seq, i, j)) rS[m][e] = -INFINITY;
    }
  }
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MASK_SCORES_H_
