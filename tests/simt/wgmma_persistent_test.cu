// A persistent kernel of attention: one block takes one tile of queries after the other, two
// warpgroups take turns, S of a tile is computed beside O of the tile before it, and O is stored
// from where Q lay. Planted faults, and the correct kernel under many schedules.
#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/tensor_store.h"
#include "device/ptx/wgmma.h"
#include "device/swizzle.h"
#include "wgmma_attention_support.h"

namespace cuflash::simt {
namespace {

using ptx::Major;

constexpr int kGroups = 2, kGroupQ = 64, kBlockQ = kGroupQ * kGroups;
constexpr int kBlockKV = 32, kStages = 2, kThreads = 128 * (kGroups + 1);
constexpr int kTurn = 1, kOutput = 3;  // named barriers, one for each group

struct Storage {
  SwizzledTile<__half, kBlockQ, kHeadDim> sQ;  // at a tile's end, O
  SwizzledTile<__half, kBlockKV, kHeadDim> sK[kStages], sV[kStages];
  std::uint64_t q_full, q_empty, k_full[kStages], v_full[kStages], k_empty[kStages],
      v_empty[kStages];
  int tile;  // of queries
};

struct Maps {
  TensorMap q, k, v, o;
};

enum class Fault {
  kNone,
  kQueriesRequestedEarly,  // by a producer that does not wait
  kReleasedBeforeTheRead,  // Q, before its store has read it
  kNoFence,                // between O and its store
  kNoBarrier,
  kScoresNotAwaited,  // before they are used
  kOutputNotAwaited,  // before it is written
  kNoTurn             // is given back
};

__device__ void produce(Storage& s, const Maps& maps, int* next, int tiles, int kv_tiles,
                        Fault fault) {
  unsigned c = 0;  // tiles of keys so far
  for (unsigned n = 0;; ++n) {
    if (fault != Fault::kQueriesRequestedEarly) ptx::mbarrier_wait(&s.q_empty, n % 2 ^ 1);
    s.tile = atomicAdd(next, 1);
    if (s.tile >= tiles) break;
    ptx::mbarrier_arrive_expect_tx(&s.q_full, sizeof(s.sQ.panels));
    ptx::tensor_copy(&s.sQ, maps.q, 0, s.tile * kBlockQ, 0, 0, &s.q_full);  // brings Q
    for (int j = 0; j < kv_tiles; ++j, ++c) {
      const unsigned stage = c % kStages, phase = c / kStages % 2;
      ptx::mbarrier_wait(&s.k_empty[stage], phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(&s.k_full[stage], sizeof(s.sK[0].panels));
      ptx::tensor_copy(&s.sK[stage], maps.k, 0, j * kBlockKV, 0, 0, &s.k_full[stage]);
      ptx::mbarrier_wait(&s.v_empty[stage], phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(&s.v_full[stage], sizeof(s.sV[0].panels));
      ptx::tensor_copy(&s.sV[stage], maps.v, 0, j * kBlockKV, 0, 0, &s.v_full[stage]);
    }
  }
  ptx::mbarrier_arrive(&s.q_full);
}

// O = sum over the tiles of keys of (Q · Kᵀ) · V; c counts these tiles.
__device__ void compute(Storage& s, float (&rO)[kHeadDim / 8][4], int kv_tiles, unsigned& c,
                        Fault fault) {
  const int group = threadIdx.x / 128;
  const bool releases = threadIdx.x % 128 == 0;
  float rS[kBlockKV / 8][4];
  std::uint32_t rP[kBlockKV / 16][4];
  for (int j = 0; j <= kv_tiles; ++j) {
    const unsigned stage = c % kStages, before = (c + kStages - 1) % kStages;
    ptx::named_barrier_sync(kTurn + group, 128 * kGroups);  // waits for its turn
    if (j < kv_tiles) {
      ptx::mbarrier_wait(&s.k_full[stage], c / kStages % 2);
      ptx::wgmma_fence();
      for (int k = 0; k < kHeadDim; k += 16) {
        const ptx::MatrixDescriptor q = k_major(s.sQ, kGroupQ * group, k);
        ptx::wgmma_m64k16<__half, Major::kK>(rS, q, k_major(s.sK[stage], 0, k), k > 0);  // S
      }
      ptx::wgmma_commit();
    }
    if (j > 0) {
      ptx::mbarrier_wait(&s.v_full[before], (c - 1) / kStages % 2);
      ptx::wgmma_fence();
      for (int k = 0; k < kBlockKV; k += 16) {
        const ptx::MatrixDescriptor v = mn_major(s.sV[before], k);
        ptx::wgmma_m64k16<__half, Major::kMN>(rO, rP[k / 16], v, j > 1 || k > 0);  // O
      }
      ptx::wgmma_commit();
    }
    if (fault != Fault::kNoTurn) ptx::named_barrier_arrive(kTurn + 1 - group, 128 * kGroups);
    if (j < kv_tiles) {
      if (j == 0) ptx::wgmma_wait<0>();
      if (j > 0 && fault != Fault::kScoresNotAwaited) ptx::wgmma_wait<1>();
      if (fault == Fault::kScoresNotAwaited) rS[0][0] += 1.f;  // uses S
      if (releases) ptx::mbarrier_arrive(&s.k_empty[stage]);
    }
    if (j > 0) {
      if (fault == Fault::kOutputNotAwaited && j == kv_tiles) ptx::wgmma_wait<1>();
      if (fault != Fault::kOutputNotAwaited || j != kv_tiles) ptx::wgmma_wait<0>();
      if (releases) ptx::mbarrier_arrive(&s.v_empty[before]);
    }
    if (j == kv_tiles) return;
    for (int i = 0; i < kBlockKV / 16; ++i) to_operand<__half>(rP[i], rS[2 * i], rS[2 * i + 1]);
    ++c;
  }
}

__device__ void consume(Storage& s, const Maps& maps, int tiles, int kv_tiles, Fault fault) {
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float rO[kHeadDim / 8][4] = {};
  if (group == 0) ptx::named_barrier_arrive(kTurn, 128 * kGroups);  // has the first turn
  unsigned c = 0;
  for (unsigned n = 0;; ++n) {
    ptx::mbarrier_wait(&s.q_full, n % 2);
    const int tile = s.tile;
    if (tile >= tiles) return;
    compute(s, rO, kv_tiles, c, fault);
    for (int b = 0; b < kHeadDim / 8; ++b) {
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * warp + MmaAccumulator::row(lane, i);
        s.sQ(row, 8 * b + MmaAccumulator::col(lane, i)) = __half(rO[b][i]);  // writes O
      }
    }
    if (fault != Fault::kNoFence) ptx::fence_proxy_async();
    if (fault != Fault::kNoBarrier) ptx::named_barrier_sync(kOutput + group, 128);
    if (threadIdx.x % 128 != 0) continue;
    const __half* const rows = &s.sQ.panels[0][kGroupQ * group][0];
    ptx::tensor_store(maps.o, 0, tile * kBlockQ + kGroupQ * group, 0, 0, rows);  // stores O
    ptx::tensor_store_commit();
    if (fault == Fault::kReleasedBeforeTheRead) ptx::mbarrier_arrive(&s.q_empty);
    ptx::tensor_store_wait_read<0>();
    if (fault != Fault::kReleasedBeforeTheRead) ptx::mbarrier_arrive(&s.q_empty);
  }
}

__global__ void attend(const __grid_constant__ Maps maps, int* next, int tiles, int kv_tiles,
                       Fault fault) {
  auto& s = shared_storage<Storage>();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.q_full, 1);
    ptx::mbarrier_init(&s.q_empty, kGroups);
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&s.k_full[stage], 1);
      ptx::mbarrier_init(&s.v_full[stage], 1);
      ptx::mbarrier_init(&s.k_empty[stage], kGroups);
      ptx::mbarrier_init(&s.v_empty[stage], kGroups);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x / 128 == kGroups) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x % 128 == 0) produce(s, maps, next, tiles, kv_tiles, fault);
  } else {
    ptx::setmaxnreg_inc<240>();
    consume(s, maps, tiles, kv_tiles, fault);
  }
}

class WgmmaPersistentTest : public WgmmaAttentionTest {
 protected:
  static constexpr int kTiles = 5, kTilesKV = 3, kQueries = kTiles * kBlockQ - 9;
  static constexpr int kKeys = kTilesKV * kBlockKV;
  WgmmaPersistentTest() : WgmmaAttentionTest(kQueries, kKeys) {}
  std::vector<Finding> attend_with(Fault fault, unsigned blocks = 1) {
    const Maps maps = {map(q_, kQueries, kBlockQ), map(k_, kKeys, kBlockKV),
                       map(v_, kKeys, kBlockKV), map(o_, kQueries, kGroupQ)};
    next_.set({0});
    (void)launch(attend, {blocks, kThreads, shared_layout<Storage>()}, maps, next_.data(), kTiles,
                 kTilesKV, fault);
    cudaGetLastError();
    return take_findings();
  }
  // True if, under each schedule, there is a finding with one of the titles and with both lines.
  void expect(Fault fault, const std::vector<std::string>& titles, const std::string& line,
              const std::string& other) {
    for (const Schedule& schedule : all_schedules()) {
      set_schedule(schedule);
      bool found = false;
      for (const Finding& finding : attend_with(fault)) {
        const std::string message = finding.message();
        found |= std::count(titles.begin(), titles.end(), finding.title()) != 0 &&
                 message.find(line) != std::string::npos &&
                 message.find(other) != std::string::npos;
      }
      EXPECT_TRUE(found) << titles[0] << ' ' << schedule_name(schedule);
    }
  }
  Array<__half> o_{kQueries * kHeadDim, "o"};
  Array<int> next_{1, 0, "next"};
};

TEST_F(WgmmaPersistentTest, AWholeKernelIsRight) {
  std::vector<Schedule> schedules = all_schedules();
  for (unsigned seed = 3; seed < 12; ++seed) {
    schedules.push_back({Schedule::Order::kRandom, seed});
  }
  std::vector<float> wanted;
  for (int i = 0; i < kQueries * kHeadDim; ++i) {
    wanted.push_back(expected(kKeys, i / kHeadDim, i % kHeadDim));
  }
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    for (const Finding& finding : attend_with(Fault::kNone, 2)) {
      ADD_FAILURE() << schedule_name(schedule) << '\n' << finding.message();
    }
    const std::vector<__half> out = o_.values();
    for (int i = 0; i < kQueries * kHeadDim; ++i) {
      ASSERT_EQ(static_cast<float>(out[i]), wanted[i]) << i;
    }
  }
}

TEST_F(WgmmaPersistentTest, QueriesThatAreReplacedTooEarly) {
  expect(Fault::kReleasedBeforeTheRead,
         {"SOURCE OF A STORE OVERWRITTEN", "COPY INTO A STAGE THAT IS NOT EMPTY"},
         LINE_MARKED("brings Q"), LINE_MARKED("stores O"));
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    EXPECT_FALSE(attend_with(Fault::kQueriesRequestedEarly).empty());
  }
}

TEST_F(WgmmaPersistentTest, OutputsThatAreNotThere) {
  expect(Fault::kNoFence, {"WRITE WITHOUT A PROXY FENCE"}, LINE_MARKED("writes O"),
         LINE_MARKED("stores O"));
  expect(Fault::kNoBarrier, {"RACE in shared memory", "SOURCE OF A STORE OVERWRITTEN"},
         LINE_MARKED("writes O"), LINE_MARKED("stores O"));
  expect(Fault::kScoresNotAwaited, {"REGISTER OF A PRODUCT IN FLIGHT"}, LINE_MARKED("S"),
         LINE_MARKED("uses S"));
  expect(Fault::kOutputNotAwaited, {"REGISTER OF A PRODUCT IN FLIGHT"}, LINE_MARKED("O"),
         LINE_MARKED("writes O"));
}

TEST_F(WgmmaPersistentTest, ATurnThatIsNotGivenBack) {
  expect(Fault::kNoTurn, {"DEADLOCK AT A NAMED BARRIER", "DEADLOCK AT AN MBARRIER"},
         LINE_MARKED("waits for its turn"), "at barrier 2: 128 of 256 threads");
}

}  // namespace
}  // namespace cuflash::simt
