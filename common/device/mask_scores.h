// Masks scores in accumulators: −∞ for keys that a query does not see, and for keys past the last
// (stage 07_mma_registers spells it out). Seq is Sequence, or the Sequence of a stage with its own
// mask (mask.h).
#ifndef CUFLASH_DEVICE_MASK_SCORES_H_
#define CUFLASH_DEVICE_MASK_SCORES_H_

#include <cmath>

#include "device/mask.h"
#include "device/mma_fragments.h"
#include "device/registers.h"

namespace cuflash {

// Masks a warp's S: 16 queries from i0, and the keys from j0.
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

// Masks a warp's Sᵀ: 16 keys from j0, and the queries from i0.
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
