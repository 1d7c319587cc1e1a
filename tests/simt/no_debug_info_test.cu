// What a report says if the debug information of a kernel is missing. This file becomes several
// programs: compiled without -g; compiled with it and stripped; compiled by clang.
#include <mma.h>

#include <cstddef>

#include "support.h"

namespace cuflash::simt {
namespace {

struct Storage {
  float sK[32][33];
  char flag;  // and 15 bytes
  alignas(16) float sums[2][4];
};

__global__ void write_byte(int offset) {
  if (threadIdx.x == 0) shared_memory[offset] = 1;
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class NoDebugInfo : public SimulatorTest {
 protected:
  void SetUp() override {
    SimulatorTest::SetUp();
#ifdef __clang__
    run(write_byte, {1, 1, shared_layout<Storage>()}, 0);
    const bool known = !shared_maps().front().arrays.empty();
    reset_counts();
    if (known) GTEST_SKIP() << "the debug information of clang can be read here";
#endif
  }
};

constexpr const char* kWhy =
    "\n  Arrays in shared memory appear as byte offsets, and their padding is not checked, because "
    "the kernel has no debug information that can be read (built without -g, stripped, or built by "
    "clang).\n";

#ifndef __clang__  // clang inserts no hooks: accesses are not seen

using NoDebugInfoOfAccesses = AccessTest;

// Threads 4 and 41 both write the float that lies there.
__global__ void meet(int offset) {
  const auto place = reinterpret_cast<float*>(shared_memory + offset);
  if (threadIdx.x == 4 || threadIdx.x == 41) *place = 1.f;
}

TEST_F(NoDebugInfoOfAccesses, ReportsShowOffsetsAndSayWhyOnce) {
  const LaunchConfig config{1, 64, shared_layout<Storage>()};
  run(meet, config, 64);
  const std::vector<Finding> races = take_findings();
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(races[0].array, "shared_memory");
  EXPECT_EQ(races[0].text().substr(0, races[0].text().find('\n')), "  shared_memory + 64 bytes");
  EXPECT_EQ(count_of(kWhy, races[0].message()), 1) << races[0].message();
  const std::string why = kWhy;
  EXPECT_EQ(races[0].text().substr(races[0].text().size() - why.size()), why);

  run(meet, config, 128);
  const Finding second = only_finding(FindingKind::kSharedRace);
  EXPECT_EQ(second.array, "shared_memory");
  EXPECT_EQ(count_of("Arrays in shared memory", second.message()), 0) << second.message();
}

TEST_F(NoDebugInfoOfAccesses, PaddingIsNotChecked) {
  run(write_byte, {1, 64, shared_layout<Storage>()}, offsetof(Storage, flag) + 1);
}

TEST_F(NoDebugInfoOfAccesses, TheEndOfTheStorageIsChecked) {
  EXPECT_EQ(launch(write_byte, {1, 64, shared_layout<Storage>()}, int{sizeof(Storage)}),
            FlashAttentionError::CUDA_ERROR);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  says(finding, "\n  shared_memory + " + std::to_string(sizeof(Storage)) + " bytes\n");
  says(finding, "It reaches 1 bytes past the end of the ");
  cudaGetLastError();
}

#endif

// The checks of a matrix need no hooks.
__global__ void load_matrix(int offset) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;
  nvcuda::wmma::load_matrix_sync(a, reinterpret_cast<__half*>(shared_memory + offset), 24);
}

TEST_F(NoDebugInfo, ReportsOfMatricesToo) {
  int times_said = 0;
  for (const int offset : {40, 80}) {
    EXPECT_EQ(launch(load_matrix, {1, 32, shared_layout<Storage>()}, offset),
              FlashAttentionError::CUDA_ERROR);
    const Finding finding = only_finding(FindingKind::kMisaligned);
    says(finding, "\n  shared_memory + " + std::to_string(offset) + " bytes\n");
    times_said += count_of(kWhy, finding.message());
  }
  EXPECT_LE(times_said, 1);  // another test of this process may have heard it
#ifdef __clang__
  EXPECT_EQ(times_said, 1);
#endif
  cudaGetLastError();
}

TEST_F(NoDebugInfo, MapsHaveNoArrays) {
  run(write_byte, {1, 64, shared_layout<Storage>()}, 0);
  const std::vector<SharedMap> maps = shared_maps();
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].bytes, sizeof(Storage));
  EXPECT_TRUE(maps[0].arrays.empty());
}

}  // namespace
}  // namespace cuflash::simt
