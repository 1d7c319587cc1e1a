// All of it together: attention without its softmax, O = (Q · Kᵀ) · V, in integers. Tiles are
// copied asynchronously into the XOR layout, K one tile ahead and V one product ahead.
#include "device/mma_fragments.h"
#include "device/ptx/cp_async.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/swizzle.h"
#include "support.h"

namespace cuflash {
namespace {

constexpr int kWarps = 2, kThreads = 32 * kWarps;
constexpr int kBlockQ = kMmaM * kWarps, kBlockKV = 32;

template <class T, int kHeadDim>
struct SharedStorage {
  alignas(1024) T sQ[kBlockQ * kHeadDim];
  alignas(1024) T sK[kBlockKV * kHeadDim];
  alignas(1024) T sV[kBlockKV * kHeadDim];
};

// Begins to copy rows [first, first + kRows). Rows past the end become zeros.
template <int kRows, int kHeadDim, class T>
__device__ void copy_rows(T* tile, const T* g, int first, int num_rows) {
  using Tile = Swizzle<kRows, kHeadDim>;
  for (int n = threadIdx.x; n < kRows * kHeadDim / 8; n += kThreads) {
    const int row = n / Tile::kChunks % kRows, panel = n / Tile::kChunks / kRows;
    const int col = panel * Tile::kPanelCols + n % Tile::kChunks * 8;
    const bool valid = first + row < num_rows;
    ptx::cp_async_16(&tile[Tile::index(row, col)], &g[valid ? (first + row) * kHeadDim + col : 0],
                     valid);
  }
}

template <class T, int kHeadDim>
__global__ void attend(const T* q, const T* k, const T* v, float* o, int num_keys) {
  auto& s = shared_storage<SharedStorage<T, kHeadDim>>();
  using TileQ = Swizzle<kBlockQ, kHeadDim>;
  using TileKV = Swizzle<kBlockKV, kHeadDim>;
  const int lane = threadIdx.x % 32, q0 = threadIdx.x / 32 * kMmaM;
  MmaAccumulator::Registers rO[kHeadDim / kMmaN] = {};
  copy_rows<kBlockQ, kHeadDim>(s.sQ, q, 0, kBlockQ);
  copy_rows<kBlockKV, kHeadDim>(s.sK, k, 0, num_keys);
  ptx::cp_async_commit();
  for (int j0 = 0; j0 < num_keys; j0 += kBlockKV) {
    copy_rows<kBlockKV, kHeadDim>(s.sV, v, j0, num_keys);
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncthreads();  // K has arrived
    MmaAccumulator::Registers rS[kBlockKV / kMmaN] = {};
    for (int d = 0; d < kHeadDim; d += kMmaK) {
      MmaA::Registers rQ;
      ptx::ldmatrix_x4(rQ, &s.sQ[TileQ::index(q0 + LoadA::row(lane), d + LoadA::col(lane))]);
      for (int j = 0; j < kBlockKV; j += 2 * kMmaN) {
        std::uint32_t rK[4];
        ptx::ldmatrix_x4(
            rK,
            &s.sK[TileKV::index(j + LoadBTransposed::row(lane), d + LoadBTransposed::col(lane))]);
        ptx::mma_m16n8k16<T>(rS[j / kMmaN], rQ, {rK[0], rK[1]});
        ptx::mma_m16n8k16<T>(rS[j / kMmaN + 1], rQ, {rK[2], rK[3]});
      }
    }
    __syncthreads();  // nobody reads K any more
    if (j0 + kBlockKV < num_keys) {
      copy_rows<kBlockKV, kHeadDim>(s.sK, k, j0 + kBlockKV, num_keys);
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncthreads();  // V has arrived
    for (int j = 0; j < kBlockKV; j += kMmaK) {
      MmaA::Registers rP;
      to_operand<T>(rP, rS[j / kMmaN], rS[j / kMmaN + 1]);
      for (int d = 0; d < kHeadDim; d += 2 * kMmaN) {
        std::uint32_t rV[4];
        ptx::ldmatrix_x4_trans(rV,
                               &s.sV[TileKV::index(j + LoadB::row(lane), d + LoadB::col(lane))]);
        ptx::mma_m16n8k16<T>(rO[d / kMmaN], rP, {rV[0], rV[1]});
        ptx::mma_m16n8k16<T>(rO[d / kMmaN + 1], rP, {rV[2], rV[3]});
      }
    }
    __syncthreads();  // nobody reads V any more
  }
  for (int n = 0; n < kHeadDim / kMmaN; ++n) {
    for (int i = 0; i < MmaAccumulator::kElements; ++i) {
      o[(q0 + MmaAccumulator::row(lane, i)) * kHeadDim + n * kMmaN + MmaAccumulator::col(lane, i)] =
          rO[n][i];
    }
  }
}

template <class T>
class Pipeline : public DeviceTest {
 protected:
  void TearDown() override {
    simt::set_schedule({});
    DeviceTest::TearDown();
  }
  template <int kHeadDim>
  void check(int num_keys) {
    const auto q = small_integers(kBlockQ * kHeadDim, 1, 1);
    const auto k = small_integers(num_keys * kHeadDim, 1, 2);
    const auto v = small_integers(num_keys * kHeadDim, 4, 3);
    std::vector<int> expected(kBlockQ * kHeadDim);
    for (int i = 0; i < kBlockQ; ++i) {
      for (int j = 0; j < num_keys; ++j) {
        int score = 0;
        for (int d = 0; d < kHeadDim; ++d) score += q[i * kHeadDim + d] * k[j * kHeadDim + d];
        for (int d = 0; d < kHeadDim; ++d) {
          expected[i * kHeadDim + d] += score * v[j * kHeadDim + d];
        }
      }
    }
    const Array<T> dq(converted<T>(q)), dk(converted<T>(k)), dv(converted<T>(v));
    const Array<float> o(std::vector<float>(expected.size()));
    simt::reset_counts();
    run(attend<T, kHeadDim>, {1, kThreads, shared_layout<SharedStorage<T, kHeadDim>>()}, dq.data(),
        dk.data(), dv.data(), o.data(), num_keys);
    ASSERT_EQ(o.values(), converted<float>(expected)) << kHeadDim << ", " << num_keys;
    if (!simt::counts_accesses()) return;
    EXPECT_EQ(simt::counts().bank_conflicts, 0u);
    EXPECT_EQ(simt::counts().global_read_bytes, 2u * kHeadDim * (kBlockQ + 2 * num_keys));
  }
};
using Types = ::testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Pipeline, Types);

TYPED_TEST(Pipeline, IsRightUnderEverySchedule) {
  for (const auto& schedule :
       {simt::Schedule{}, simt::Schedule{simt::Schedule::Order::kReversed, 0},
        simt::Schedule{simt::Schedule::Order::kRandom, 1}}) {
    simt::set_schedule(schedule);
    for (const int num_keys : {1, 32, 81}) {
      this->template check<32>(num_keys);
      this->template check<64>(num_keys);
      this->template check<96>(num_keys);
      this->template check<128>(num_keys);
    }
  }
}

}  // namespace
}  // namespace cuflash
