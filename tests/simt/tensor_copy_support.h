// What the tests of cp.async.bulk.tensor share: a tensor and its map.
#ifndef CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_
#define CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_

#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "support.h"

namespace cuflash::simt {

constexpr int kRows = 8, kCols = 64, kBytes = kRows * kCols * 2;

using Half = unsigned short;

// The first thread begins a barrier.
__device__ inline void begin(std::uint64_t& barrier, unsigned arrivals = 1) {
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&barrier, arrivals);
  ptx::fence_mbarrier_init();
}

// A map of rows of kCols elements, of which `cols` count, in boxes of `box_rows` rows.
inline TensorMap map_of(const void* data, int rows, int box_rows = kRows, int cols = kCols,
                        TensorSwizzle swizzle = TensorSwizzle::kNone) {
  TensorMap map;
  EXPECT_EQ(
      make_tensor_map(
          map,
          {data, CUFLASH_F16, {cols, rows, 1, 1}, {kCols, 0, 0}, {kCols, box_rows, 1, 1}, swizzle}),
      "");
  return map;
}

class TensorCopyTest : public AccessTest {
 protected:
  TensorCopyTest() {
    std::vector<Half> values;
    for (int i = 0; i < kTensorRows * kCols; ++i) values.push_back(static_cast<Half>(i));
    in_.set(values);
  }
  TensorMap map() const { return map_of(in_.data(), kTensorRows); }
  static constexpr int kTensorRows = 20 * kRows;
  Array<Half> in_{kTensorRows * kCols, "in"};
  Array<int> out_{1024, 0, "out"};
};

}  // namespace cuflash::simt

#endif  // CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_
