// wgmma with copies of boxes and mbarriers: what a kernel of attention does. Planted faults, and
// the correct kernel under many schedules.
#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/wgmma.h"
#include "device/swizzle.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

using ptx::Major;

constexpr int kHeadDim = kCols;
constexpr int kGroups = 2, kBlockQ = 64 * kGroups, kBlockKV = 32, kStages = 2;
constexpr int kThreads = 128 * (kGroups + 1);

struct Storage {
  SwizzledTile<__half, kBlockQ, kHeadDim> sQ;
  SwizzledTile<__half, kBlockKV, kHeadDim> sK[kStages], sV[kStages];
  std::uint64_t q_full, k_full[kStages], v_full[kStages], k_empty[kStages], v_empty[kStages];
};

enum class Fault {
  kNone,
  kKeysNotAwaited,       // by one warp
  kKeysReleasedEarly,    // before the wait for S
  kValuesReleasedEarly,  // before the wait for O
  kValuesNotReleased     // by the second warpgroup
};

struct Maps {
  TensorMap q, k, v;
};

__device__ void produce(Storage& s, const Maps& maps, int tiles) {
  ptx::mbarrier_arrive_expect_tx(&s.q_full, sizeof(s.sQ.panels));
  ptx::tensor_copy(&s.sQ, maps.q, 0, 0, 0, 0, &s.q_full);
  for (int n = 0; n < tiles; ++n) {
    const int stage = n % kStages;
    const unsigned phase = n / kStages % 2;
    ptx::mbarrier_wait(&s.k_empty[stage], phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.k_full[stage], sizeof(s.sK[0].panels));
    ptx::tensor_copy(&s.sK[stage], maps.k, 0, n * kBlockKV, 0, 0, &s.k_full[stage]);  // brings K
    ptx::mbarrier_wait(&s.v_empty[stage], phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.v_full[stage], sizeof(s.sV[0].panels));
    ptx::tensor_copy(&s.sV[stage], maps.v, 0, n * kBlockKV, 0, 0, &s.v_full[stage]);  // brings V
  }
}

// O = sum over tiles of (Q · Kᵀ) · V. S of a tile is computed beside O of the tile before it.
__device__ void consume(Storage& s, float* out, int tiles, Fault fault) {
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool releases = threadIdx.x % 128 == 0;
  float rO[kHeadDim / 8][4] = {}, rS[kBlockKV / 8][4];
  std::uint32_t rP[kBlockKV / 16][4];
  ptx::mbarrier_wait(&s.q_full, 0);
  for (int n = 0; n <= tiles; ++n) {
    const int stage = n % kStages, before = (n + kStages - 1) % kStages;
    if (n < tiles) {
      if (fault != Fault::kKeysNotAwaited || warp != 2) {
        ptx::mbarrier_wait(&s.k_full[stage], n / kStages % 2);
      }
      ptx::wgmma_fence();
      for (int k = 0; k < kHeadDim; k += 16) {
        const ptx::MatrixDescriptor q = k_major(s.sQ, 64 * group, k);
        ptx::wgmma_m64k16<__half, Major::kK>(rS, q, k_major(s.sK[stage], 0, k), k > 0);  // S
      }
      ptx::wgmma_commit();
    }
    if (n > 0) {
      ptx::mbarrier_wait(&s.v_full[before], (n - 1) / kStages % 2);
      ptx::wgmma_fence();
      for (int k = 0; k < kBlockKV; k += 16) {
        const ptx::MatrixDescriptor v = mn_major(s.sV[before], k);
        ptx::wgmma_m64k16<__half, Major::kMN>(rO, rP[k / 16], v, true);  // O
      }
      ptx::wgmma_commit();
    }
    if (n < tiles) {
      if (releases && fault == Fault::kKeysReleasedEarly) ptx::mbarrier_arrive(&s.k_empty[stage]);
      if (n > 0) ptx::wgmma_wait<1>();
      if (n == 0) ptx::wgmma_wait<0>();
      if (releases && fault != Fault::kKeysReleasedEarly) ptx::mbarrier_arrive(&s.k_empty[stage]);
    }
    if (n > 0) {
      const bool counts = fault != Fault::kValuesNotReleased || group == 0;
      if (releases && fault == Fault::kValuesReleasedEarly)
        ptx::mbarrier_arrive(&s.v_empty[before]);
      ptx::wgmma_wait<0>();
      if (releases && counts && fault != Fault::kValuesReleasedEarly) {
        ptx::mbarrier_arrive(&s.v_empty[before]);
      }
    }
    if (n == tiles) break;
    for (int i = 0; i < kBlockKV / 16; ++i) to_operand<__half>(rP[i], rS[2 * i], rS[2 * i + 1]);
  }
  for (int b = 0; b < kHeadDim / 8; ++b) {
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + MmaAccumulator::row(lane, i);
      const int col = 8 * b + MmaAccumulator::col(lane, i);
      s.sQ(row, col) = __half(rO[b][i]);  // writes O
    }
  }
  __syncwarp();
  for (int row = 16 * warp; row < 16 * warp + 16; ++row) {
    for (int col = lane; col < kHeadDim; col += 32) {
      out[row * kHeadDim + col] = static_cast<float>(s.sQ(row, col));
    }
  }
}

__global__ void attend(const __grid_constant__ Maps maps, float* out, int tiles, Fault fault) {
  auto& s = shared_storage<Storage>();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.q_full, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&s.k_full[stage], 1);
      ptx::mbarrier_init(&s.v_full[stage], 1);
      ptx::mbarrier_init(&s.k_empty[stage], kGroups);
      ptx::mbarrier_init(&s.v_empty[stage], fault == Fault::kValuesNotReleased ? 1 : kGroups);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x / 128 == kGroups) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x % 128 == 0) produce(s, maps, tiles);
  } else {
    ptx::setmaxnreg_inc<240>();
    consume(s, out, tiles, fault);
  }
}

class WgmmaPipelineTest : public AccessTest {
 protected:
  static constexpr int kTiles = 7, kKeys = kTiles * kBlockKV;
  WgmmaPipelineTest() {
    q_.set(matrix(1, kBlockQ));
    k_.set(matrix(2, kKeys));
    v_.set(matrix(3, kKeys));
  }
  std::vector<Finding> attend_with(Fault fault, int tiles = kTiles) {
    const Maps maps = {map(q_, kBlockQ, kBlockQ), map(k_, kKeys, kBlockKV),
                       map(v_, kKeys, kBlockKV)};
    (void)launch(attend, {1, kThreads, shared_layout<Storage>()}, maps, out_.data(), tiles, fault);
    cudaGetLastError();
    return take_findings();
  }
  // An element of (Q · Kᵀ) · V over the first keys, rounded to f16.
  static float expected(int keys, int row, int col) {
    int sum = 0;
    for (int key = 0; key < keys; ++key) {
      int s = 0;
      for (int k = 0; k < kHeadDim; ++k) s += value(1, row, k) * value(2, key, k);
      sum += s * value(3, key, col);
    }
    return static_cast<float>(__half(static_cast<float>(sum)));
  }
  Array<float> out_{kBlockQ * kHeadDim, 0.0f, "out"};

 private:
  static TensorMap map(const Array<__half>& data, int rows, int box_rows) {
    return map_of(data.data(), rows, box_rows, kHeadDim, TensorSwizzle::k128Bytes);
  }
  // Small integers: the results are exact, and O fits into f16.
  static int value(int seed, int row, int col) {
    return (row * 7 + col * 5 + seed * (row ^ col)) % 13 % 3 - 1;
  }
  static std::vector<__half> matrix(int seed, int rows) {
    std::vector<__half> values;
    for (int i = 0; i < rows * kHeadDim; ++i) {
      values.push_back(__half(static_cast<float>(value(seed, i / kHeadDim, i % kHeadDim))));
    }
    return values;
  }
  Array<__half> q_{kBlockQ * kHeadDim, "q"}, k_{kKeys * kHeadDim, "k"}, v_{kKeys * kHeadDim, "v"};
};

TEST_F(WgmmaPipelineTest, AWholeKernelIsRight) {
  for (const int tiles : {1, 2, kTiles}) {
    under_all_schedules(27, [&] { no_findings(attend_with(Fault::kNone, tiles)); });
    const std::vector<float> out = out_.values();
    for (int i = 0; i < kBlockQ * kHeadDim; ++i) {
      ASSERT_EQ(out[i], expected(tiles * kBlockKV, i / kHeadDim, i % kHeadDim)) << i;
    }
  }
}

TEST_F(WgmmaPipelineTest, KeysThatAWarpHasNotWaitedFor) {
  under_all_schedules([&] {
    EXPECT_TRUE(finds("READ OF A STAGE THAT IS NOT FULL", {"brings K", "S"},
                      attend_with(Fault::kKeysNotAwaited)));
  });
}

// The copy may find the product in flight or ended: the fault is the same.
TEST_F(WgmmaPipelineTest, AStageThatIsReleasedTooEarly) {
  const auto is_found = [&](Fault fault, const std::vector<std::string>& marks) {
    const std::vector<Finding> findings = attend_with(fault);
    return finds("OPERAND OF A PRODUCT OVERWRITTEN", marks, findings) ||
           finds("COPY INTO A STAGE THAT IS NOT EMPTY", marks, findings) ||
           (schedule().order == Schedule::Order::kLagging &&
            finds("WAIT A FULL PHASE LATE", {}, findings));
  };
  under_all_schedules([&] {
    EXPECT_TRUE(is_found(Fault::kKeysReleasedEarly, {"brings K", "S"}));
    for (const Fault fault : {Fault::kValuesReleasedEarly, Fault::kValuesNotReleased}) {
      EXPECT_TRUE(is_found(fault, {"brings V", "O"}));
    }
  });
}

}  // namespace
}  // namespace cuflash::simt
