// The run of one block, which the ladder's --play shows.
#include <cstring>

#include "device/ptx/named_barrier.h"
#include "device/shared_memory.h"
#include "device/tile_mark.h"
#include "device/warp.h"
#include "support.h"

namespace cuflash::simt {
namespace {

using Kind = WarpEvent::Kind;

struct Columns {
  float padded[32][33];
  float plain[32][32];
};

// Two warps. The first stores a row, both read a column of it, and each lane adds what its
// neighbour has. Only the even lanes write.
__global__ void columns(const float* in, float* out) {
  auto& s = shared_storage<Columns>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int tile = 0; tile < 2; ++tile) {
    mark_tile("KV tile", tile);
    for (int row = warp; row < 32; row += 2) {
      s.padded[row][lane] = in[row * 32 + lane];  // copies
      s.plain[row][lane] = s.padded[row][lane];   // repeats
    }
    __syncthreads();                                       // filled
    float x = s.padded[lane][warp] + s.plain[lane][warp];  // reads
    x += __shfl_xor_sync(0xffffffff, x, 1);                // adds
    mark_tile(nullptr, 0);
    if (lane % 2 == 0) out[blockIdx.x * 64 + threadIdx.x] = x;  // writes
    __syncthreads();                                            // emptied
  }
}

// Warp 0 hands over to warp 1, twice.
__global__ void turns(float* out) {
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x < 32) {
      out[threadIdx.x] = 1.f;
      ptx::named_barrier_arrive(1, 64);  // hands over
      ptx::named_barrier_sync(2, 64);    // takes back
    } else {
      ptx::named_barrier_sync(1, 64);    // takes over
      ptx::named_barrier_arrive(2, 64);  // gives back
    }
  }
}

class BlockRecorderTest : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    std::vector<float> numbers(1024);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    in_.set(numbers);
  }
  void TearDown() override {
    record_block(false);
    take_block_runs();
    AccessTest::TearDown();
  }
  BlockRun recorded(const Schedule& order = {}) {
    set_schedule(order);
    record_block(true);
    run(columns, {dim3(2), dim3(64), shared_layout<Columns>(), nullptr}, in_.data(), out_.data());
    record_block(false);
    std::vector<BlockRun> runs = take_block_runs();
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? BlockRun{} : runs.front();
  }

  Array<float> in_{1024, "in"}, out_{128, "out"};
};

// The events of a warp at the line with this mark.
std::vector<WarpEvent> at_line(const BlockRun& run, std::size_t warp, const std::string& location) {
  std::vector<WarpEvent> found;
  for (const WarpEvent& event : run.warps[warp]) {
    const BlockRun::Place& place = run.places[static_cast<std::size_t>(event.place)];
    const std::string file = place.file.substr(place.file.rfind('/') + 1);
    if (file + ':' + std::to_string(place.line) == location) found.push_back(event);
  }
  return found;
}

const LoggedArray& array_of(const BlockRun& run, const WarpEvent& event) {
  return run.arrays[static_cast<std::size_t>(event.array)];
}

TEST_F(BlockRecorderTest, TheBlockItself) {
  const BlockRun run = recorded();
  EXPECT_NE(run.kernel.find("columns"), std::string::npos);
  EXPECT_EQ(run.blocks, 2u);
  EXPECT_EQ(run.block.x, 0u);
  EXPECT_EQ(run.threads, 64);
  EXPECT_EQ(run.intervals, 5) << "four barriers";
  EXPECT_EQ(run.shared_bytes, sizeof(Columns));
  EXPECT_EQ(run.warps.size(), 2u);
}

TEST_F(BlockRecorderTest, RequestsOfALine) {
  const BlockRun run = recorded();
  const auto copies = at_line(run, 1, LINE_MARKED("copies"));
  ASSERT_EQ(copies.size(), 2u * 16 * 2) << "16 rows in each tile: a load and a store";
  const WarpEvent& load = copies[0].kind == Kind::kRead ? copies[0] : copies[1];
  const WarpEvent& store = copies[0].kind == Kind::kRead ? copies[1] : copies[0];
  EXPECT_EQ(array_of(run, load).name, "in");
  EXPECT_EQ(array_of(run, load).bytes, 4096u);
  EXPECT_FALSE(load.shared);
  EXPECT_EQ(load.bytes, 128u);
  EXPECT_EQ(load.sectors, 4u);
  ASSERT_EQ(load.lanes.size(), 1u);
  EXPECT_EQ(load.lanes[0].first, 0);
  EXPECT_EQ(load.lanes[0].lanes, 32);
  EXPECT_EQ(load.lanes[0].offset, 128) << "warp 1 begins with row 1";
  EXPECT_EQ(load.lanes[0].stride, 4);
  EXPECT_TRUE(load.written.empty());

  EXPECT_EQ(store.kind, Kind::kWrite);
  EXPECT_EQ(array_of(run, store).name, "padded");
  EXPECT_EQ(array_of(run, store).extents, (std::vector<int>{32, 33}));
  EXPECT_TRUE(store.shared);
  EXPECT_EQ(store.lanes[0].offset, 33 * 4);
  float last = 0;
  ASSERT_EQ(store.written.size(), 128u);
  std::memcpy(&last, &store.written[124], 4);
  EXPECT_EQ(last, 63.f) << "lane 31 stores in[1][31]";
}

TEST_F(BlockRecorderTest, ConflictsOfARequest) {
  const BlockRun run = recorded();
  const auto reads = at_line(run, 0, LINE_MARKED("reads"));
  ASSERT_EQ(reads.size(), 4u);
  for (const WarpEvent& read : reads) {
    const bool padded = array_of(run, read).name == "padded";
    EXPECT_EQ(read.conflicts, padded ? 0u : 31u);
    EXPECT_EQ(read.wavefronts, padded ? 1u : 32u);
    EXPECT_EQ(read.lanes[0].stride, padded ? 132 : 128);
  }
  EXPECT_EQ(array_of(run, reads[0]).offset + array_of(run, reads[1]).offset,
            sizeof(float) * 32 * 33);
}

TEST_F(BlockRecorderTest, OnlySomeLanes) {
  const BlockRun run = recorded();
  const auto writes = at_line(run, 1, LINE_MARKED("writes"));
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].bytes, 64u);
  EXPECT_EQ(writes[0].lanes.size(), 16u) << "no two lanes are neighbours";
  EXPECT_EQ(writes[0].lanes[1].first, 2);
  EXPECT_EQ(writes[0].lanes[1].offset, (32 + 2) * 4);
}

TEST_F(BlockRecorderTest, OperationsOfAWarpAreOneEventInTheirPlace) {
  const BlockRun run = recorded();
  for (const std::size_t warp : {0, 1}) {
    const auto filled = at_line(run, warp, LINE_MARKED("filled"));
    ASSERT_EQ(filled.size(), 2u);
    EXPECT_EQ(filled[0].kind, Kind::kBarrier);
    EXPECT_EQ(filled[0].interval, 0);
    EXPECT_EQ(filled[1].interval, 2);
    const auto adds = at_line(run, warp, LINE_MARKED("adds"));
    ASSERT_EQ(adds.size(), 2u);
    EXPECT_EQ(adds[0].kind, Kind::kShuffle);
  }
  std::vector<Kind> last;
  for (std::size_t n = run.warps[0].size() - 5; n < run.warps[0].size(); ++n) {
    last.push_back(run.warps[0][n].kind);
  }
  EXPECT_EQ(last, (std::vector<Kind>{Kind::kRead, Kind::kRead, Kind::kShuffle, Kind::kWrite,
                                     Kind::kBarrier}));
}

TEST_F(BlockRecorderTest, IntervalsAndTiles) {
  const BlockRun run = recorded();
  for (const WarpEvent& read : at_line(run, 0, LINE_MARKED("reads"))) {
    EXPECT_EQ(read.tile.name, "KV tile");
    EXPECT_EQ(read.interval, 2 * read.tile.number + 1);
  }
  for (const WarpEvent& write : at_line(run, 0, LINE_MARKED("writes"))) {
    EXPECT_EQ(write.tile.name, "");
  }
}

TEST_F(BlockRecorderTest, RequestsAddUpToTheCounts) {
  reset_counts();
  const BlockRun run = recorded();
  std::uint64_t global = 0, shared = 0, sectors = 0, conflicts = 0;
  for (const auto& warp : run.warps) {
    for (const WarpEvent& event : warp) {
      (event.shared ? shared : global) += event.bytes;
      sectors += event.sectors;
      conflicts += event.conflicts;
    }
  }
  EXPECT_EQ(run.counts.global_read_bytes + run.counts.global_write_bytes, global);
  EXPECT_EQ(run.counts.shared_read_bytes + run.counts.shared_write_bytes, shared);
  EXPECT_EQ(run.counts.global_read_sectors + run.counts.global_write_sectors, sectors);
  EXPECT_EQ(run.counts.bank_conflicts, conflicts);
  EXPECT_EQ(run.counts.barriers, 4u);
  EXPECT_EQ(counts().global_read_bytes, 2 * run.counts.global_read_bytes) << "of two blocks";
}

TEST_F(BlockRecorderTest, TheBlockOfReportOnlyBlock) {
  report_only_block(BlockIndex{1, 0, 0});
  const BlockRun run = recorded();
  EXPECT_EQ(run.block.x, 1u);
  const auto writes = at_line(run, 0, LINE_MARKED("writes"));
  ASSERT_FALSE(writes.empty());
  EXPECT_EQ(writes[0].lanes[0].offset, 64 * 4);
}

std::vector<std::int64_t> numbers(const std::vector<LaneSpan>& lanes) {
  std::vector<std::int64_t> list;
  for (const LaneSpan& one : lanes) {
    list.insert(list.end(), {one.first, one.lanes, one.offset, one.stride});
  }
  return list;
}

TEST_F(BlockRecorderTest, DoesNotDependOnTheSchedule) {
  const BlockRun first = recorded();
  for (const char* name : {"reversed", "random:7"}) {
    Schedule order;
    ASSERT_TRUE(parse_schedule(name, order));
    const BlockRun other = recorded(order);
    for (const std::size_t warp : {0, 1}) {
      ASSERT_EQ(other.warps[warp].size(), first.warps[warp].size());
      for (std::size_t n = 0; n < first.warps[warp].size(); ++n) {
        const WarpEvent &a = first.warps[warp][n], &b = other.warps[warp][n];
        ASSERT_TRUE(a.kind == b.kind && a.place == b.place && a.array == b.array &&
                    a.interval == b.interval && a.tile.number == b.tile.number &&
                    numbers(a.lanes) == numbers(b.lanes) && a.written == b.written)
            << name << ", warp " << warp << ", event " << n;
      }
    }
  }
}

TEST_F(BlockRecorderTest, PhasesOfBarriers) {
  record_block(true);
  run(turns, {dim3(1), dim3(64), {}, nullptr}, out_.data());
  EXPECT_EQ(counts().barrier_calls, 2u * 2 * 64);
  record_block(false);
  const std::vector<BlockRun> runs = take_block_runs();
  ASSERT_EQ(runs.size(), 1u);
  const BlockRun& run = runs[0];
  ASSERT_EQ(run.barriers.size(), 2u);
  const auto expect = [&](std::size_t warp, const std::string& location, Kind kind,
                          const std::string& barrier) {
    const auto events = at_line(run, warp, location);
    ASSERT_EQ(events.size(), 2u);
    for (int phase : {0, 1}) {
      const WarpEvent& event = events[static_cast<std::size_t>(phase)];
      EXPECT_EQ(event.kind, kind);
      EXPECT_EQ(event.phase, phase);
      EXPECT_EQ(run.barriers.at(static_cast<std::size_t>(event.barrier)).name, barrier);
    }
  };
  expect(0, LINE_MARKED("hands over"), Kind::kArrive, "barrier 1");
  expect(0, LINE_MARKED("takes back"), Kind::kWait, "barrier 2");
  expect(1, LINE_MARKED("takes over"), Kind::kWait, "barrier 1");
  expect(1, LINE_MARKED("gives back"), Kind::kArrive, "barrier 2");
  for (const BlockRun::Barrier& barrier : run.barriers) {
    EXPECT_TRUE(barrier.named);
    EXPECT_EQ(barrier.phases, 2);
  }
}

TEST_F(BlockRecorderTest, OnlyWhileItIsOnAndOnlyOnce) {
  recorded();
  EXPECT_TRUE(take_block_runs().empty());
  run(columns, {dim3(2), dim3(64), shared_layout<Columns>(), nullptr}, in_.data(), out_.data());
  EXPECT_TRUE(take_block_runs().empty());
}

}  // namespace
}  // namespace cuflash::simt
