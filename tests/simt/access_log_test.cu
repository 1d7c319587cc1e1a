// The log of every access of a launch, which the grader of exercises reads.
#include <cstring>

#include "device/shared_memory.h"
#include "device/tile_mark.h"
#include "device/vector.h"
#include "support.h"

namespace cuflash::simt {
namespace {

struct Box {
  float first[4];
  float rows[2][36];
  int last[3];
};

// Two rows of 32 numbers through shared memory: a warp for each row, a vector for four lanes.
__global__ void double_rows(const float* in, float* out) {
  auto& s = shared_storage<Box>();
  const int row = threadIdx.x / 32, lane = threadIdx.x % 32;
  mark_tile("KV tile", 7);
  if (lane % 4 == 0) store4(&s.rows[row][lane], load4(&in[row * 32 + lane]));  // loads
  mark_tile(nullptr, 0);
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = 2 * s.rows[row][lane];  // doubles
}

// Where the union's members overlap, and where only the longer one is.
struct Shared {
  float first[4];
  union {
    short tile[4][8];
    float2 stats[6];
  };
};

__global__ void writes_in_a_union() {
  auto& s = shared_storage<Shared>();
  s.stats[1].y = 3.f;
  s.tile[3][0] = 1;
}

__global__ void writes_null(float* nowhere, float* out) {
  out[threadIdx.x] = 3.f;
  *nowhere = 1.f;
}

class AccessLogTest : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    std::vector<float> numbers(64);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    in_.set(numbers);
  }
  void TearDown() override {
    log_accesses(false);
    take_access_log();
    AccessTest::TearDown();
  }
  void run_twice_logged() {
    const LaunchConfig config = {dim3(2), dim3(64), shared_layout<Box>(), nullptr};
    log_accesses(true);
    run(double_rows, config, in_.data(), out_.data());
    run(double_rows, config, in_.data(), out_.data());
    log_accesses(false);
  }

  Array<float> in_{64, "in"}, out_{128, "out"};
};

// The accesses of one thread of a block, in order.
std::vector<LoggedAccess> of_thread(const AccessLog& log, int launch, std::uint64_t block,
                                    int thread) {
  std::vector<LoggedAccess> found;
  for (const LoggedAccess& access : log.accesses) {
    if (access.launch == launch && access.block == block && access.thread == thread) {
      found.push_back(access);
    }
  }
  return found;
}

std::vector<float> floats(const LoggedAccess& access) {
  std::vector<float> values(static_cast<std::size_t>(access.bytes) / sizeof(float));
  std::memcpy(values.data(), access.value, static_cast<std::size_t>(access.bytes));
  return values;
}

TEST_F(AccessLogTest, ThreadsAccessesInOrder) {
  run_twice_logged();
  const AccessLog log = take_access_log();
  for (const int launch : {0, 1}) {
    const auto found = of_thread(log, launch, 1, 36);  // row 1, lane 4
    ASSERT_EQ(found.size(), 4u);
    const LoggedAccess &load = found[0], &store = found[1], &read = found[2], &write = found[3];

    EXPECT_EQ(log.arrays[load.array].name, "in");
    EXPECT_FALSE(log.arrays[load.array].shared);
    EXPECT_FALSE(load.write);
    EXPECT_EQ(load.offset, (32 + 4) * 4);
    EXPECT_EQ(load.bytes, 16);

    EXPECT_EQ(log.arrays[store.array].name, "rows");
    EXPECT_TRUE(log.arrays[store.array].shared);
    EXPECT_EQ(log.arrays[store.array].element_bytes, sizeof(float));
    EXPECT_EQ(log.arrays[store.array].extents, (std::vector<int>{2, 36}));
    EXPECT_TRUE(store.write);
    EXPECT_EQ(store.offset, (36 + 4) * 4) << "from the array's first byte, not the block's";
    EXPECT_EQ(floats(store), (std::vector<float>{36, 37, 38, 39}));

    EXPECT_EQ(read.array, store.array);
    EXPECT_FALSE(read.write);
    EXPECT_EQ(read.offset, (36 + 4) * 4);
    EXPECT_EQ(read.bytes, 4);

    EXPECT_EQ(log.arrays[write.array].name, "out");
    EXPECT_TRUE(write.write);
    EXPECT_EQ(write.offset, (64 + 36) * 4);
    EXPECT_EQ(floats(write), (std::vector<float>{72}));
  }
}

TEST_F(AccessLogTest, MembersOfAUnionAreWords) {
  log_accesses(true);
  run(writes_in_a_union, {dim3(1), dim3(1), shared_layout<Shared>(), nullptr});
  log_accesses(false);
  const AccessLog log = take_access_log();
  ASSERT_EQ(log.accesses.size(), 2u);
  const LoggedAccess &stats = log.accesses[0], &tile = log.accesses[1];
  EXPECT_EQ(log.arrays[stats.array].name, "tile / stats");
  EXPECT_EQ(log.arrays[stats.array].element_bytes, 4u);
  EXPECT_EQ(log.arrays[stats.array].extents, (std::vector<int>{48 / 4}));
  EXPECT_EQ(stats.offset, 12);
  EXPECT_EQ(floats(stats), (std::vector<float>{3}));
  EXPECT_EQ(log.arrays[tile.array].name, "tile");
  EXPECT_EQ(log.arrays[tile.array].extents, (std::vector<int>{4, 8}));
}

TEST_F(AccessLogTest, TilesAndBarriers) {
  run_twice_logged();
  const AccessLog log = take_access_log();
  const auto found = of_thread(log, 0, 0, 0);
  ASSERT_EQ(found.size(), 4u);
  for (const int n : {0, 1}) EXPECT_EQ(found[n].tile, 7);
  for (const int n : {2, 3}) EXPECT_EQ(found[n].tile, -1);
  EXPECT_EQ(found[0].epoch, found[1].epoch);
  EXPECT_EQ(found[2].epoch, found[1].epoch + 1);
  EXPECT_EQ(found[3].epoch, found[2].epoch);
}

TEST_F(AccessLogTest, PlacesInTheSource) {
  run_twice_logged();
  const AccessLog log = take_access_log();
  const auto found = of_thread(log, 0, 0, 33);
  ASSERT_EQ(found.size(), 2u) << "only lanes that load four numbers load";
  const AccessLog::Place& place = log.sites[found[1].site];
  EXPECT_EQ(place.location, LINE_MARKED("doubles"));
  EXPECT_NE(place.source.find("out[blockIdx.x * 64 + threadIdx.x] = 2 *"), std::string::npos)
      << place.source;
}

TEST_F(AccessLogTest, OnlyWhileItIsOnAndOnlyOnce) {
  run_twice_logged();
  EXPECT_EQ(take_access_log().accesses.size(), 2u * 2 * (2 * 16 + 2 * 64));
  EXPECT_TRUE(take_access_log().accesses.empty());
  run(double_rows, {dim3(2), dim3(64), shared_layout<Box>(), nullptr}, in_.data(), out_.data());
  EXPECT_TRUE(take_access_log().accesses.empty());
  run_twice_logged();
  EXPECT_EQ(take_access_log().accesses.front().launch, 0) << "launches are counted anew";
}

TEST_F(AccessLogTest, ALaunchThatEndsEarlyKeepsWhatCameBefore) {
  log_accesses(true);
  EXPECT_NE(launch(writes_null, {1, 1}, nullptr, out_.data()), FlashAttentionError::SUCCESS);
  log_accesses(false);
  only_finding(FindingKind::kNullPointer);
  const AccessLog log = take_access_log();
  ASSERT_EQ(log.accesses.size(), 1u);
  EXPECT_EQ(log.arrays[log.accesses[0].array].name, "out");
}

}  // namespace
}  // namespace cuflash::simt
