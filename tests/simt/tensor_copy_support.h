// What the tests of cp.async.bulk.tensor share: a tensor, its map, and a search for findings.
#ifndef CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_
#define CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_

#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "support.h"

namespace cuflash::simt {

constexpr int kRows = 8, kCols = 64, kBytes = kRows * kCols * 2;

using Half = unsigned short;

class TensorCopyTest : public AccessTest {
 protected:
  TensorCopyTest() {
    std::vector<Half> values;
    for (int i = 0; i < kTensorRows * kCols; ++i) values.push_back(static_cast<Half>(i));
    in_.set(values);
  }
  // Boxes of kRows rows.
  TensorMap map() const {
    TensorMap map;
    EXPECT_EQ(make_tensor_map(map, {in_.data(),
                                    CUFLASH_F16,
                                    {kCols, kTensorRows, 1, 1},
                                    {kCols, 0, 0},
                                    {kCols, kRows, 1, 1},
                                    TensorSwizzle::kNone}),
              "");
    return map;
  }
  static constexpr int kTensorRows = 20 * kRows;
  Array<Half> in_{kTensorRows * kCols, "in"};
  Array<int> out_{1024, 0, "out"};
};

// True if one of the findings has this title and both lines.
inline bool finds(const std::string& title, const std::string& line, const std::string& other) {
  bool found = false;
  for (const Finding& finding : take_findings()) {
    const std::string message = finding.message();
    found |= finding.title() == title && message.find(line) != std::string::npos &&
             message.find(other) != std::string::npos;
  }
  return found;
}

}  // namespace cuflash::simt

#endif  // CUFLASH_TESTS_SIMT_TENSOR_COPY_SUPPORT_H_
