// The gaps between the rows of a tensor, of which a call reads and writes none.
#include "harness/device_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "harness/convert.h"
#include "support/need_device.h"

namespace cuflash::harness {
namespace {

class DeviceTensorTest : public testing::Test {
 protected:
  void SetUp() override { need_device(); }

  // Two heads of three rows, with a gap after each row.
  static constexpr int kHeads = 2, kRows = 3, kHeadDim = 32;
  static DeviceTensor padded() {
    return {{1, kHeads, kRows, kHeadDim}, CUFLASH_F16, Layout::kPadded, 16, "O"};
  }
};

TEST_F(DeviceTensorTest, AnInputHasNaNInItsGaps) {
  const DeviceTensor tensor = padded();
  tensor.upload(std::vector<float>(kHeads * kRows * kHeadDim, 1.f));
  const Tensor t = tensor.view();
  std::vector<std::byte> bytes((t.head_stride + 2 * t.row_stride) * element_bytes(CUFLASH_F16));
  check(cudaMemcpy(bytes.data(), t.data, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::vector<float> values(bytes.size() / element_bytes(CUFLASH_F16));
  decode(CUFLASH_F16, bytes.data(), values.size(), values.data());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t of_head = i % t.head_stride, of_row = of_head % t.row_stride;
    if (of_head < kRows * t.row_stride && of_row < kHeadDim) {
      EXPECT_EQ(values[i], 1.f) << i;
    } else {
      EXPECT_TRUE(std::isnan(values[i])) << i << " is " << values[i];
    }
  }
}

TEST_F(DeviceTensorTest, AWriteIntoAGapIsDamage) {
  const DeviceTensor tensor = padded();
  std::string damage;
  tensor.poison();
  tensor.download(&damage);
  EXPECT_EQ(damage, "");
  const Tensor t = tensor.view();
  for (const std::int64_t element :
       {std::int64_t{kHeadDim}, t.row_stride - 1, t.head_stride - 1, t.head_stride + kHeadDim}) {
    tensor.poison();
    auto* const at = static_cast<std::byte*>(t.data) + element * element_bytes(CUFLASH_F16);
    check(cudaMemset(at, 0, 1), "cudaMemset");
    tensor.download(&damage);
    EXPECT_EQ(damage, "bytes in the gaps between the rows of O were written") << element;
  }
}

}  // namespace
}  // namespace cuflash::harness
