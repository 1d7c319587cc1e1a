// The text of reports: tiles and blocks.
#include "device/missing_page.h"
#include "device/tiles.h"
#include "support.h"

namespace cuflash::simt {
namespace {

// ---- Tiles -------------------------------------------------------------------------------------

struct OneTile {
  float sK[32][33];
};

// 64 threads walk through the KV tiles of 32 rows: load a tile, use what other threads loaded.
template <bool kAfterLoading, bool kBeforeTheNext>
__global__ void walk(Sequence seq, const float* gK, float* out) {
  auto& s = shared_storage<OneTile>();
  mark_tile("Q tile", 7);
  const int row = threadIdx.x % 32, half = threadIdx.x / 32;
  float sum = 0.f;
  for (const int j0 : kv_tiles<32>(seq, 0, 32)) {
    for (int d = half; d < 32; d += 2) s.sK[row][d] = gK[(j0 + row) * 32 + d];  // loads
    if constexpr (kAfterLoading) __syncthreads();
    for (int d = 0; d < 32; ++d) sum += s.sK[d][(row + half) % 32];  // uses
    if constexpr (kBeforeTheNext) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

class InTiles : public AccessTest {
 protected:
  const Sequence seq_ = {32, 96, Band(Problem())};
  const Array<float> k_{96 * 32, 1.f}, out_{64};
  const LaunchConfig config_{1, 64, shared_layout<OneTile>()};

  // The lines between the element and the end, without the threads.
  static std::string without_lanes(const Finding& finding) {
    std::string text;
    for (std::size_t i = finding.text().find('\n') + 1; i < finding.text().size(); ++i) {
      if (finding.text().compare(i, 5, "warp ") == 0)
        i = finding.text().find(" findings_test", i) + 1;
      text += finding.text()[i];
    }
    return text;
  }
};

TEST_F(InTiles, BothBarriers) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(walk<true, true>, config_, seq_, k_.data(), out_.data());
  }
}

// A reader races with the thread that loads the next tile.
TEST_F(InTiles, MissingBarrierBeforeTheNextTile) {
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule_name(schedule));
    set_schedule(schedule);
    run(walk<true, false>, config_, seq_, k_.data(), out_.data());
    const Finding race = only_finding(FindingKind::kSharedRace);
    says(race, "RACE in shared memory: " + race.kernel + ", block (0,0,0)\n");
    EXPECT_EQ(race.array, "sK");
    const std::string text = without_lanes(race);
    const auto tile = text.find("KV tile ");
    ASSERT_NE(tile, std::string::npos) << race.text();
    const char earlier = text[tile + 8], later = static_cast<char>(earlier + 1);
    const std::string load =
        "for (int d = half; d < 32; d += 2) s.sK[row][d] = "
        "gK[(j0 + row) * 32 + d];  // loads";
    const std::string use =
        "for (int d = 0; d < 32; ++d) sum += s.sK[d][(row + half) % 32];  // uses";
    EXPECT_EQ(text, "   read   " + LINE_MARKED("uses") + "   " + use +
                        std::string(load.size() - use.size() + 3, ' ') + "KV tile " + earlier +
                        "\n   write  " + LINE_MARKED("loads") + "   " + load + "   KV tile " +
                        later + "\n  No barrier orders " + LINE_NUMBER("uses") +
                        " before the next tile's " + LINE_NUMBER("loads") + ".  " +
                        std::to_string(race.count - 1) + " similar findings.\n");
  }
}

// A reader races with the thread that loads the same tile, in either order.
TEST_F(InTiles, MissingBarrierAfterLoading) {
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule_name(schedule));
    set_schedule(schedule);
    run(walk<false, true>, config_, seq_, k_.data(), out_.data());
    // The race first, then the uninitialised values that a thread read without the barrier.
    const std::vector<Finding> findings = take_findings();
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(static_cast<int>(findings[0].kind()), static_cast<int>(FindingKind::kSharedRace));
    EXPECT_EQ(static_cast<int>(findings[1].kind()), static_cast<int>(FindingKind::kUninitialised));
    for (const Finding& race : findings) {
      if (race.kind() == FindingKind::kUninitialised) continue;
      says(race, "orders " + LINE_NUMBER("loads") + " before " + LINE_NUMBER("uses") + ".  ");
      says(race, "   KV tile 0\n   read ");
    }
  }
}

// After its tiles a thread is in no tile, and one line may race with itself.
__global__ void all_write_one(Sequence seq, float* out, bool all) {
  for (const int j0 : kv_tiles<32>(seq, 0, seq.num_queries)) out[1 + j0 + threadIdx.x] = 1.f;
  if (all || threadIdx.x == 0) out[0] = 2.f;  // writes one
}

TEST_F(InTiles, NoneAfterTheLast) {
  Array<float> out(seq_.num_keys + 64);
  run(all_write_one, {1, 32}, seq_, out.data(), false);
  run(all_write_one, {1, 32}, seq_, out.data(), true);
  const Finding race = only_finding(FindingKind::kGlobalRace);
  says(race, "Nothing orders the threads that execute " + LINE_NUMBER("writes one") + ".");
  EXPECT_EQ(race.text().find("KV tile"), std::string::npos) << race.text();
}

// From the last tile to the first: the later tile has the smaller number.
__global__ void walk_down(float* out, bool barrier) {
  auto& s = shared_storage<OneTile>();
  float sum = 0.f;
  for (int tile = 3; tile >= 0; --tile) {
    mark_tile("KV tile", tile);
    s.sK[0][threadIdx.x] = 1.f;  // writes down
    __syncthreads();
    sum += s.sK[0][threadIdx.x ^ 1];  // reads down
    if (barrier) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

TEST_F(InTiles, Downwards) {
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule_name(schedule));
    set_schedule(schedule);
    run(walk_down, {1, 32, shared_layout<OneTile>()}, out_.data(), true);
    run(walk_down, {1, 32, shared_layout<OneTile>()}, out_.data(), false);
    const Finding race = only_finding(FindingKind::kSharedRace);
    says(race, "orders " + LINE_NUMBER("reads down") + " before the next tile's " +
                   LINE_NUMBER("writes down") + '.');
  }
}

// A thread that has left the loop is in no tile any more, and another still in one.
__global__ void walk_alone(float* out) {
  auto& s = shared_storage<OneTile>();
  s.sK[0][threadIdx.x] = 0.f;
  __syncthreads();
  float sum = 0.f;
  for (int tile = 0; tile < 2; ++tile) {
    mark_tile("KV tile", tile);
    sum += s.sK[0][threadIdx.x ^ 1];  // reads alone
    s.sK[0][threadIdx.x] = 1.f;       // writes alone
  }
  mark_tile(nullptr, 0);
  out[threadIdx.x] = sum;
}

TEST_F(InTiles, LeftByOneThread) {
  run(walk_alone, {1, 32, shared_layout<OneTile>()}, out_.data());
  const Finding race = only_finding(FindingKind::kSharedRace);
  says(race, "orders " + LINE_NUMBER("reads alone") + " before the next tile's " +
                 LINE_NUMBER("writes alone") + '.');
  ASSERT_EQ(race.accesses.size(), 2u);
  EXPECT_EQ(race.accesses[0].tile, "KV tile 0");
  EXPECT_EQ(race.accesses[1].tile, "KV tile 1");
}

// From the last KV tile of one Q tile to the first of the next.
__global__ void walk_twice(float* out, bool barrier) {
  auto& s = shared_storage<OneTile>();
  float sum = 0.f;
  for (int i = 0; i < 2; ++i) {
    mark_tile("Q tile", i);
    for (int j = 0; j < 2; ++j) {
      mark_tile("KV tile", j);
      s.sK[0][threadIdx.x] = 1.f;  // writes again
      __syncthreads();
      sum += s.sK[0][threadIdx.x ^ 1];  // reads again
      if (j == 0 || barrier) __syncthreads();
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(InTiles, NestedLoops) {
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule_name(schedule));
    set_schedule(schedule);
    run(walk_twice, {1, 32, shared_layout<OneTile>()}, out_.data(), true);
    run(walk_twice, {1, 32, shared_layout<OneTile>()}, out_.data(), false);
    const Finding race = only_finding(FindingKind::kSharedRace);
    says(race, "// reads again   KV tile 1\n   write ");
    says(race, "// writes again       KV tile 0\n");
    says(race, "orders " + LINE_NUMBER("reads again") + " before the next tile's " +
                   LINE_NUMBER("writes again") + '.');
  }
}

// Before its first mark a thread is in no tile. The tile of another block's thread is not known.
__global__ void no_tile_yet(float* data) {
  data[threadIdx.x] = 1.f;  // in no tile
  mark_tile("KV tile", 2);
  data[threadIdx.x ^ 1] = 2.f;  // in tile 2
}

TEST_F(InTiles, NoneYet) {
  const Array<float> data(32, 0.f, "data");
  run(no_tile_yet, {1, 32}, data.data());
  for (const Finding& race : take_findings()) {
    EXPECT_EQ(race.text().find("// in no tile   KV"), std::string::npos) << race.text();
    says(race, "// in tile 2   KV tile 2\n");
  }
}

// ---- Pages -------------------------------------------------------------------------------------

// Three threads look up keys in pages that do not exist, two of them at one line.
__global__ void misses_pages(float* out) {
  if (threadIdx.x < 2) note_missing_page(40 + threadIdx.x, -1);  // twice
  if (threadIdx.x == 2) note_missing_page(50, 7);                // once
  out[threadIdx.x] = 1.f;
}

// A finding for each line, of its first key.
TEST_F(SimulatorTest, MissingPages) {
  const Array<float> out(32, 0.f);
  run(misses_pages, {1, 32}, out.data());
  EXPECT_EQ(out.values(), std::vector<float>(32, 1.f));  // The launch ran whole.
  const std::vector<Finding> findings = take_findings();
  ASSERT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(static_cast<int>(finding.kind()), static_cast<int>(FindingKind::kMissingPage));
  }
  expect_report(findings[0], "NO SUCH PAGE", "twice");
  says(findings[0], "Key 40 lies in page -1, which does not exist.");
  EXPECT_EQ(findings[0].count, 2u);
  expect_report(findings[1], "NO SUCH PAGE", "once");
  says(findings[1], "Key 50 lies in page 7, which does not exist.");
  EXPECT_EQ(findings[1].count, 1u);
}

// ---- Findings of one block ---------------------------------------------------------------------

// In every block threads 1 and 2 write one word.
__global__ void race_in_every_block(float* out) {
  __shared__ float word;
  if (threadIdx.x == 1 || threadIdx.x == 2) word = 1.f;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.y * gridDim.x + blockIdx.x] = word;
}

// Blocks 0 and 2 write one word.
__global__ void race_between_blocks(float* out) {
  if (threadIdx.x == 0 && blockIdx.x % 2 == 0) *out = 1.f;
}

TEST_F(AccessTest, OnlyOneBlocksFindings) {
  const Array<float> out(6);
  run(race_in_every_block, {dim3(3, 2), 32}, out.data());
  EXPECT_EQ(only_finding(FindingKind::kSharedRace).count, 6u);
  report_only_block(BlockIndex{1, 1, 0});
  reset_counts();
  run(race_in_every_block, {dim3(3, 2), 32}, out.data());
  const Finding race = only_finding(FindingKind::kSharedRace);
  EXPECT_EQ(race.count, 1u);
  says(race, ", block (1,1,0)\n");
  EXPECT_EQ(counts().shared_requests, 2u * 6);  // the launch ran whole
  report_only_block(BlockIndex{3, 0, 0});
  run(race_in_every_block, {dim3(3, 2), 32}, out.data());
  report_only_block(std::nullopt);
  run(race_in_every_block, {dim3(3, 2), 32}, out.data());
  EXPECT_EQ(only_finding(FindingKind::kSharedRace).count, 6u);
}

TEST_F(AccessTest, ABlockHasItsPartInARaceWithAnother) {
  const Array<float> out(1, 0.f, "out");
  const Schedule reversed{Schedule::Order::kReversed, 0};
  for (const Schedule& schedule : {Schedule{}, reversed}) {
    set_schedule(schedule);
    for (const unsigned block : {0u, 2u}) {
      report_only_block(BlockIndex{block, 0, 0});
      run(race_between_blocks, {3, 32}, out.data());
      EXPECT_EQ(only_finding(FindingKind::kGlobalRace).count, 1u);
    }
    report_only_block(BlockIndex{1, 0, 0});
    run(race_between_blocks, {3, 32}, out.data());
  }
}

TEST_F(SimulatorTest, ARefusedLaunchIsOfNoBlock) {
  report_only_block(BlockIndex{1, 0, 0});
  void (*kernel)() = [] {};
  EXPECT_EQ(launch(kernel, {1, 2000}), FlashAttentionError::CUDA_ERROR);
  EXPECT_FALSE(only_finding(FindingKind::kLaunchLimit).block);
  cudaGetLastError();
}

}  // namespace
}  // namespace cuflash::simt
