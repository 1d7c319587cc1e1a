// Recorded words write what they did, and when, to the log of a timeline.
#include <algorithm>

#include "../support.h"
#include "device/instruments/timeline/set_log.h"
#include "device/ptx/mbarrier.h"
#include "device/tile_mark.h"

namespace cuflash {
namespace {

using timeline::Event;
using timeline::Kind;

constexpr unsigned kNoSm = 100'000;
constexpr int kDelay = 20'000, kFirstLine = __LINE__;  // cycles; the kernel stands below

// Thread 0 arrives late. All others wait for it.
__global__ void meet(unsigned* barrier_address) {
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
    barrier_address[blockIdx.x] = ptx::SharedAddress(&barrier).value;
  }
  __syncthreads();
  mark_tile("tile", -7);
  if (threadIdx.x == 0) {
    for (const auto begin = clock64(); clock64() - begin < kDelay;) {
    }
    ptx::mbarrier_arrive(&barrier);
  }
  ptx::mbarrier_wait(&barrier, 0);
  mark_tile(nullptr, 0);
}

class Timeline : public DeviceTest {
 protected:
  Timeline() : DeviceTest(9) {}
  // What two warps of a block write. `logged`: whether there is a log.
  std::vector<Event> events(unsigned sm, bool logged = true) {
    const harness::DeviceBuffer log(sizeof(Event) * timeline::kNumEvents);
    EXPECT_EQ(cudaMemset(log.data(), 0, log.bytes()), cudaSuccess);
    const auto data = reinterpret_cast<Event*>(log.data());
    EXPECT_EQ(timeline::set_log({logged ? data : nullptr, sm}), cudaSuccess);
    const Array<unsigned> address({0u});
    run(meet, {1, 64}, address.data());
    EXPECT_EQ(timeline::set_log({}), cudaSuccess);
    address_ = address.values()[0];
    std::vector<Event> all(timeline::kNumEvents), found;
    EXPECT_EQ(cudaMemcpy(all.data(), data, log.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [](const Event& e) { return e.tag != 0; });
    return found;
  }

  unsigned address_ = 0;
};

Kind kind_of(const Event& e) {
  return static_cast<Kind>(e.tag >> timeline::kLineBits & ((1u << timeline::kKindBits) - 1));
}
int line_of(const Event& e) { return static_cast<int>(e.tag % (1u << timeline::kLineBits)); }
std::vector<Event> of_kind(const std::vector<Event>& events, Kind kind) {
  std::vector<Event> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const Event& e) { return kind_of(e) == kind; });
  return found;
}

TEST_F(Timeline, RecordsWhatEachWarpDid) {
  const auto all = events(timeline::kEverySm);
  EXPECT_EQ(all.size(), 7u) << "the block's beginning, and of each warp two marks and a wait";
  EXPECT_EQ(of_kind(all, Kind::kBlock).size(), 1u);
  const auto tiles = of_kind(all, Kind::kTile);
  ASSERT_EQ(tiles.size(), 2u);
  EXPECT_EQ(static_cast<int>(tiles[0].data), -7);
  EXPECT_EQ(line_of(tiles[0]), kFirstLine + 11);
  const auto waits = of_kind(all, Kind::kWait);
  ASSERT_EQ(waits.size(), 2u);
  for (const Event& wait : waits) {
    EXPECT_EQ(wait.data, address_);
    EXPECT_EQ(line_of(wait), kFirstLine + 17);
  }
  // The first lane of one of the two warps is the late thread.
  const unsigned longest = std::max(waits[0].end - waits[0].begin, waits[1].end - waits[1].begin);
  EXPECT_GT(longest, unsigned{kDelay} / 2);
  EXPECT_LT(longest, 10u * kDelay);
  EXPECT_EQ(of_kind(all, Kind::kLastTile).size(), 2u);
}

TEST_F(Timeline, RecordsOnlyWhatItIsAskedFor) {
  EXPECT_TRUE(events(kNoSm).empty());
  EXPECT_TRUE(events(timeline::kEverySm, false).empty());
}

}  // namespace
}  // namespace cuflash
