// Counts of single lines, worked out by hand, and their sum.
#include <algorithm>
#include <tuple>

#include "support.h"

namespace cuflash::simt {
namespace {

class LineCount : public AccessTest {
 protected:
  const Array<float> in_{4096, 1.f}, out_{4096};
};

template <int kPitch>
__global__ void transpose(const float* in, float* out) {
  __shared__ float tile[32][kPitch];
  const int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[y * 32 + x];  // fills
  __syncthreads();
  out[y * 32 + x] = tile[x][y];  // empties
}

// 32 warps. A row is 128 bytes: 4 sectors, and a word of each bank. A column of the unpadded tile
// lies in one bank.
TEST_F(LineCount, Transpose) {
  run(transpose<32>, {1, dim3(32, 32)}, in_.data(), out_.data());
  const LineCounts read = counts_of_line(LINE_NUMBER("fills"), false, false);
  EXPECT_EQ(read.file, __FILE__);
  EXPECT_EQ(read.requests, 32u);
  EXPECT_EQ(read.bytes, 4096u);
  EXPECT_EQ(read.sectors, 128u);
  EXPECT_EQ(read.wavefronts, 0u);
  const LineCounts store = counts_of_line(LINE_NUMBER("fills"), true, true);
  EXPECT_EQ(store.requests, 32u);
  EXPECT_EQ(store.bytes, 4096u);
  EXPECT_EQ(store.sectors, 0u);
  EXPECT_EQ(store.wavefronts, 32u);
  EXPECT_EQ(store.conflicts, 0u);
  const LineCounts load = counts_of_line(LINE_NUMBER("empties"), true, false);
  EXPECT_EQ(load.wavefronts, 1024u);
  EXPECT_EQ(load.conflicts, 992u);
  EXPECT_EQ(counts_of_line(LINE_NUMBER("empties"), false, true).sectors, 128u);
  EXPECT_EQ(line_counts().size(), 4u);
}

// The two instances of a template are the same lines.
TEST_F(LineCount, AddUpUntilTheyAreReset) {
  run(transpose<32>, {1, dim3(32, 32)}, in_.data(), out_.data());
  run(transpose<33>, {1, dim3(32, 32)}, in_.data(), out_.data());
  EXPECT_EQ(line_counts().size(), 4u);
  EXPECT_EQ(counts_of_line(LINE_NUMBER("empties"), true, false).requests, 64u);
  EXPECT_EQ(counts_of_line(LINE_NUMBER("empties"), true, false).conflicts, 992u);
  reset_counts();
  EXPECT_TRUE(line_counts().empty());
  run(transpose<33>, {1, dim3(32, 32)}, in_.data(), out_.data());
  EXPECT_EQ(counts_of_line(LINE_NUMBER("empties"), true, false).wavefronts, 32u);
}

// Many sites, divergent lanes, vectors, bytes, and pointers that may point to either memory.
__global__ void everything(const float* in, float* out) {
  __shared__ float box[64];
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int i = 0; i < 700 + t; ++i) sum += in[(i * 5 + t) % 4096];
  for (int i = 0; i < t % 5; ++i) sum += reinterpret_cast<const float4*>(in)[i + t].x;
  box[t] = sum;
  __syncthreads();
  const float* const either = t % 3 == 0 ? box : in;
  sum += either[(t * 16) % 64];  // from either
  out[blockIdx.x * 64 + t] = sum + reinterpret_cast<const char*>(in)[t];
}

TEST_F(LineCount, SumIsTheTotal) {
  run(everything, {2, 64}, in_.data(), out_.data());
  Counts sum;
  sum.launches = 1;
  for (const LineCounts& line : line_counts()) {
    auto& bytes = line.shared  ? line.write ? sum.shared_write_bytes : sum.shared_read_bytes
                  : line.write ? sum.global_write_bytes
                               : sum.global_read_bytes;
    auto& requests = line.shared  ? sum.shared_requests
                     : line.write ? sum.global_write_requests
                                  : sum.global_read_requests;
    bytes += line.bytes;
    requests += line.requests;
    (line.write ? sum.global_write_sectors : sum.global_read_sectors) += line.sectors;
    sum.shared_wavefronts += line.wavefronts;
    sum.bank_conflicts += line.conflicts;
  }
  const Counts total = counts();
  EXPECT_EQ(sum.global_read_bytes, total.global_read_bytes);
  EXPECT_EQ(sum.global_write_bytes, total.global_write_bytes);
  EXPECT_EQ(sum.global_read_requests, total.global_read_requests);
  EXPECT_EQ(sum.global_write_requests, total.global_write_requests);
  EXPECT_EQ(sum.global_read_sectors, total.global_read_sectors);
  EXPECT_EQ(sum.global_write_sectors, total.global_write_sectors);
  EXPECT_EQ(sum.shared_read_bytes, total.shared_read_bytes);
  EXPECT_EQ(sum.shared_write_bytes, total.shared_write_bytes);
  EXPECT_EQ(sum.shared_requests, total.shared_requests);
  EXPECT_EQ(sum.shared_wavefronts, total.shared_wavefronts);
  EXPECT_EQ(sum.bank_conflicts, total.bank_conflicts);
  EXPECT_GT(total.bank_conflicts, 0u);  // words 0, 16, 32, 48: two of a bank
  // One line, two memories: 22 of 64 threads read the box.
  EXPECT_EQ(counts_of_line(LINE_NUMBER("from either"), true, false).bytes, 2 * 22 * 4u);
  EXPECT_EQ(counts_of_line(LINE_NUMBER("from either"), false, false).bytes, 2 * 42 * 4u);
}

TEST_F(LineCount, SortedByFileAndLine) {
  run(everything, {1, 64}, in_.data(), out_.data());
  const std::vector<LineCounts> lines = line_counts();
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.line) < std::tie(b.file, b.line);
  }));
}

// An atomic operation is one request, shown as a write; in the totals it is a read as well.
TEST_F(LineCount, AtomicsAreWrites) {
  void (*kernel)(float*) = [](float* p) {
    atomicAdd(p + threadIdx.x, 1.f);  // adds
  };
  run(kernel, {1, 32}, in_.data());
  EXPECT_EQ(line_counts().size(), 1u);
  const LineCounts line = counts_of_line(LINE_NUMBER("adds"), false, true);
  EXPECT_EQ(line.requests, 1u);
  EXPECT_EQ(line.sectors, 4u);
}

}  // namespace
}  // namespace cuflash::simt
