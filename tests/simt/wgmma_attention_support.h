// What the tests of whole kernels of attention by wgmma share: operands whose results are exact.
#ifndef CUFLASH_TESTS_SIMT_WGMMA_ATTENTION_SUPPORT_H_
#define CUFLASH_TESTS_SIMT_WGMMA_ATTENTION_SUPPORT_H_

#include "tensor_copy_support.h"

namespace cuflash::simt {

constexpr int kHeadDim = 64;

class WgmmaAttentionTest : public AccessTest {
 protected:
  WgmmaAttentionTest(int queries, int keys)
      : q_(elements(queries), "q"), k_(elements(keys), "k"), v_(elements(keys), "v") {
    q_.set(matrix(1, queries));
    k_.set(matrix(2, keys));
    v_.set(matrix(3, keys));
  }
  // Boxes of this many rows.
  static TensorMap map(const Array<__half>& data, int rows, int box) {
    TensorMap map;
    EXPECT_EQ(make_tensor_map(map, {data.data(),
                                    CUFLASH_F16,
                                    {kHeadDim, rows, 1, 1},
                                    {kHeadDim, 0, 0},
                                    {kHeadDim, box, 1, 1},
                                    TensorSwizzle::k128Bytes}),
              "");
    return map;
  }
  // An element of (Q · Kᵀ) · V over the first keys, rounded to f16.
  static float expected(int keys, int row, int col) {
    int sum = 0;
    for (int key = 0; key < keys; ++key) {
      int s = 0;
      for (int k = 0; k < kHeadDim; ++k) s += value(1, row, k) * value(2, key, k);
      sum += s * value(3, key, col);
    }
    return static_cast<float>(__half(static_cast<float>(sum)));
  }
  Array<__half> q_, k_, v_;

 private:
  static std::size_t elements(int rows) { return static_cast<std::size_t>(rows) * kHeadDim; }
  // Small integers: the results are exact, and O fits into f16.
  static int value(int seed, int row, int col) {
    return (row * 7 + col * 5 + seed * (row ^ col)) % 13 % 3 - 1;
  }
  static std::vector<__half> matrix(int seed, int rows) {
    std::vector<__half> values;
    for (int i = 0; i < rows * kHeadDim; ++i) {
      values.push_back(__half(static_cast<float>(value(seed, i / kHeadDim, i % kHeadDim))));
    }
    return values;
  }
};

}  // namespace cuflash::simt

#endif  // CUFLASH_TESTS_SIMT_WGMMA_ATTENTION_SUPPORT_H_
