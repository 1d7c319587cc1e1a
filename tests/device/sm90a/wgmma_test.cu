// wgmma: where each element of a product lies, for every shape and layout, and when it is there.
// Inputs are small integers, so that every result is exact.
#include <algorithm>
#include <cstring>
#include <string>

#include "../support.h"
#include "device/matrix_descriptor.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/wgmma.h"
#include "device/swizzle.h"

namespace cuflash {
namespace {

using ptx::Major;

// Code for sm_90a runs on compute capability 9.0 only.
class Wgmma : public DeviceTest {
 protected:
  Wgmma() : DeviceTest(9) {}
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    if (major != 9 || minor != 0) GTEST_SKIP() << "wgmma needs compute capability 9.0 exactly.";
  }
};

constexpr int kGroups = 2, kThreads = 128 * kGroups, kGroupRows = 64, kRows = kGroupRows * kGroups;

// B lies by columns of the product (Q · Kᵀ) or by its rows (P · V).
template <class T, int kN, int kK, Major kMajorB>
struct Operands {
  static constexpr bool kColumns = kMajorB == Major::kK;
  SwizzledTile<T, kRows, kK> a;
  SwizzledTile<T, kColumns ? kN : kK, kColumns ? kK : kN> b;
  std::uint64_t full;

  __device__ ptx::MatrixDescriptor b_from(int k) const {
    if constexpr (kColumns) {
      return k_major(b, 0, k);
    } else {
      return mn_major(b, k);
    }
  }
};

// The 16 columns from `k` of the warp's rows.
template <class T, class Tile>
__device__ void load_a(std::uint32_t (&rA)[4], Tile& tile, int k) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < MmaA::kElements; i += 2) {
    const T pair[] = {tile(16 * warp + MmaA::row(lane, i), k + MmaA::col(lane, i)),
                      tile(16 * warp + MmaA::row(lane, i), k + MmaA::col(lane, i + 1))};
    memcpy(&rA[i / 2], pair, sizeof pair);
  }
}

template <int kBlocks>
__device__ void load_d(float (&rD)[kBlocks][4], const float* d) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < 4; ++i) {
      rD[b][i] = d[(16 * warp + MmaAccumulator::row(lane, i)) * 8 * kBlocks + 8 * b +
                   MmaAccumulator::col(lane, i)];
    }
  }
}

template <int kBlocks>
__device__ void store_d(float* d, const float (&rD)[kBlocks][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < 4; ++i) {
      d[(16 * warp + MmaAccumulator::row(lane, i)) * 8 * kBlocks + 8 * b +
        MmaAccumulator::col(lane, i)] = rD[b][i];
    }
  }
}

template <class Tile, class T>
__device__ void fill(Tile& tile, const T* values, int rows, int cols) {
  for (int i = threadIdx.x; i < rows * cols; i += kThreads) tile(i / cols, i % cols) = values[i];
}

// ---- Every shape and layout --------------------------------------------------------------------

// D = A · B, or D += A · B. Each warpgroup has 64 rows.
template <class T, int kN, int kK, Major kMajorB, bool kRegistersA>
__global__ void __launch_bounds__(kThreads) multiply(const T* a, const T* b, float* d, bool add) {
  using S = Operands<T, kN, kK, kMajorB>;
  auto& s = shared_storage<S>();
  fill(s.a, a, kRows, kK);
  fill(s.b, b, S::kColumns ? kN : kK, S::kColumns ? kK : kN);
  ptx::fence_proxy_async();
  __syncthreads();
  const int row = threadIdx.x / 128 * kGroupRows;
  float rD[kN / 8][4];
  std::uint32_t rA[kK / 16][4];
  load_d(rD, d);
  if constexpr (kRegistersA) {
#pragma unroll
    for (int k = 0; k < kK; k += 16) load_a<T>(rA[k / 16], s.a, k);
  }
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kK; k += 16) {
    if constexpr (kRegistersA) {
      ptx::wgmma_m64k16<T, kMajorB>(rD, rA[k / 16], s.b_from(k), add || k > 0);
    } else {
      ptx::wgmma_m64k16<T, kMajorB>(rD, k_major(s.a, row, k), s.b_from(k), add || k > 0);
    }
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store_d(d, rD);
}

// Row-major A, and B as it lies.
std::vector<float> product(const std::vector<int>& a, const std::vector<int>& b,
                           const std::vector<int>& d, int n, int k, Major major) {
  std::vector<float> expected;
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < n; ++col) {
      int sum = d.empty() ? 0 : d[row * n + col];
      for (int i = 0; i < k; ++i) {
        sum += a[row * k + i] * b[major == Major::kK ? col * k + i : i * n + col];
      }
      expected.push_back(static_cast<float>(sum));
    }
  }
  return expected;
}

template <class T, int kN, int kK, Major kMajorB, bool kRegistersA>
void check_product() {
  SCOPED_TRACE("N " + std::to_string(kN) + ", K " + std::to_string(kK) + ", B " +
               (kMajorB == Major::kK ? "K-major" : "MN-major") + ", A in " +
               (kRegistersA ? "registers" : "shared memory"));
  const std::vector<int> a = small_integers(kRows * kK, 3, 1), b = small_integers(kK * kN, 3, 2),
                         d = small_integers(kRows * kN, 50, 3);
  const Array<T> device_a(converted<T>(a)), device_b(converted<T>(b));
  for (const bool add : {false, true}) {
    const Array<float> device_d(converted<float>(d));
    run(multiply<T, kN, kK, kMajorB, kRegistersA>,
        {1, kThreads, shared_layout<Operands<T, kN, kK, kMajorB>>()}, device_a.data(),
        device_b.data(), device_d.data(), add);
    EXPECT_EQ(device_d.values(), product(a, b, add ? d : std::vector<int>(), kN, kK, kMajorB));
  }
}

template <class T, int kN, int kK>
void check_products() {
  check_product<T, kN, kK, Major::kK, false>();
  check_product<T, kN, kK, Major::kK, true>();
  check_product<T, kN, kK, Major::kMN, false>();
  check_product<T, kN, kK, Major::kMN, true>();
}

// The swizzle of B by its rows is that of 64 bytes for 32, 96 and 160 columns, else that of
// 128. 176 columns are no whole panels of either.
TEST_F(Wgmma, OfEveryWidth) {
  check_products<__half, 32, 64>();
  check_products<__half, 64, 64>();
  check_products<__half, 96, 64>();
  check_products<__half, 128, 64>();
  check_products<__half, 160, 64>();
  check_product<__half, 176, 64, Major::kK, false>();
  check_product<__half, 176, 64, Major::kK, true>();
  check_products<__half, 192, 64>();
  check_products<__half, 256, 64>();
}

// Rows of A, and columns of B, in panels: of 128 bytes for 128, of 64 bytes for 32 and 96.
TEST_F(Wgmma, OfEveryDepth) {
  check_products<__half, 64, 32>();
  check_products<__half, 64, 96>();
  check_products<__half, 64, 128>();
}

TEST_F(Wgmma, OfBfloat16) {
  check_products<__nv_bfloat16, 32, 96>();
  check_products<__nv_bfloat16, 64, 64>();
  check_products<__nv_bfloat16, 96, 64>();
  check_products<__nv_bfloat16, 128, 64>();
  check_products<__nv_bfloat16, 160, 64>();
  check_product<__nv_bfloat16, 176, 64, Major::kK, false>();
  check_products<__nv_bfloat16, 192, 64>();
  check_products<__nv_bfloat16, 256, 64>();
}

// ---- Both operands by rows of the sum
// ------------------------------------------------------------

// A lies by columns of the product (dSᵀ in dS · K), and of B some panels take part. Each warpgroup
// has 64 columns of A, a panel.
template <class T, int kCols, int kK>
struct Columns {
  SwizzledTile<T, kK, kRows> a;
  SwizzledTile<T, kK, kCols> b;
};

template <class T, int kN, int kCols, int kK>
__global__ void __launch_bounds__(kThreads)
    multiply_columns(const T* a, const T* b, float* d, int first) {
  auto& s = shared_storage<Columns<T, kCols, kK>>();
  fill(s.a, a, kK, kRows);
  fill(s.b, b, kK, kCols);
  ptx::fence_proxy_async();
  __syncthreads();
  const int group = threadIdx.x / 128;
  float rD[kN / 8][4];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kK; k += 16) {
    ptx::wgmma_m64k16<T, Major::kMN, Major::kMN>(rD, mn_major(s.a, k, group * kGroupRows),
                                                 mn_major(s.b, k, first), k > 0);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store_d(d, rD);
}

template <class T, int kN, int kCols, int kK>
void check_columns(int first) {
  SCOPED_TRACE("N " + std::to_string(kN) + " from column " + std::to_string(first) + " of " +
               std::to_string(kCols) + ", K " + std::to_string(kK));
  const std::vector<int> a = small_integers(kK * kRows, 3, 8), b = small_integers(kK * kCols, 3, 9);
  const Array<T> device_a(converted<T>(a)), device_b(converted<T>(b));
  const Array<float> d(std::vector<float>(kRows * kN));
  run(multiply_columns<T, kN, kCols, kK>, {1, kThreads, shared_layout<Columns<T, kCols, kK>>()},
      device_a.data(), device_b.data(), d.data(), first);
  std::vector<float> expected;
  for (int row = 0; row < kRows; ++row) {
    for (int col = first; col < first + kN; ++col) {
      int sum = 0;
      for (int k = 0; k < kK; ++k) sum += a[k * kRows + row] * b[k * kCols + col];
      expected.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_EQ(d.values(), expected);
}

TEST_F(Wgmma, OfColumns) {
  check_columns<__half, 32, 32, 128>(0);
  check_columns<__half, 64, 64, 64>(0);
  check_columns<__half, 96, 96, 128>(0);
  check_columns<__half, 64, 128, 128>(64);
  check_columns<__half, 128, 256, 64>(128);
  check_columns<__half, 32, 96, 32>(32);
  check_columns<__nv_bfloat16, 64, 128, 64>(64);
  check_columns<__nv_bfloat16, 96, 96, 32>(0);
}

// ---- Operands that tensor copies bring ---------------------------------------------------------

template <class Tile>
__device__ void copy_tile(Tile& tile, const TensorMap& map, std::uint64_t* full) {
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
    ptx::tensor_copy(tile.panels[panel], map, panel * Tile::kPanelCols, 0, 0, 0, full);
  }
}

template <class T, int kN, int kK, Major kMajorB>
__global__ void __launch_bounds__(kThreads)
    multiply_copied(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                    float* d) {
  auto& s = shared_storage<Operands<T, kN, kK, kMajorB>>();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&s.full, sizeof(s.a.panels) + sizeof(s.b.panels));
    copy_tile(s.a, a, &s.full);
    copy_tile(s.b, b, &s.full);
  }
  ptx::mbarrier_wait(&s.full, 0);
  float rD[kN / 8][4];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kK; k += 16) {
    ptx::wgmma_m64k16<T, kMajorB>(rD, k_major(s.a, threadIdx.x / 128 * kGroupRows, k), s.b_from(k),
                                  k > 0);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store_d(d, rD);
}

// A tensor of one matrix; the boxes are the panels of such a tile.
template <class Tile, class T>
TensorMap map_of(const Array<T>& matrix, int rows, int cols) {
  TensorMapArguments arguments;
  arguments.data = matrix.data();
  arguments.extents[0] = cols, arguments.extents[1] = rows;
  arguments.extents[2] = arguments.extents[3] = 1;
  arguments.strides[0] = cols;
  arguments.box[0] = Tile::kPanelCols, arguments.box[1] = rows;
  arguments.box[2] = arguments.box[3] = 1;
  arguments.swizzle = Tile::kPanelCols == 64 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes;
  TensorMap map;
  EXPECT_EQ(make_tensor_map(map, arguments), "");
  return map;
}

template <int kN, int kK, Major kMajorB>
void check_copied() {
  using S = Operands<__half, kN, kK, kMajorB>;
  const std::vector<int> a = small_integers(kRows * kK, 3, 4), b = small_integers(kK * kN, 3, 5);
  const Array<__half> device_a(converted<__half>(a)), device_b(converted<__half>(b));
  const Array<float> d(std::vector<float>(kRows * kN));
  run(multiply_copied<__half, kN, kK, kMajorB>, {1, kThreads, shared_layout<S>()},
      map_of<decltype(S::a)>(device_a, kRows, kK),
      map_of<decltype(S::b)>(device_b, S::kColumns ? kN : kK, S::kColumns ? kK : kN), d.data());
  EXPECT_EQ(d.values(), product(a, b, {}, kN, kK, kMajorB));
}

TEST_F(Wgmma, OfCopiedTiles) {
  check_copied<64, 64, Major::kK>();
  check_copied<64, 96, Major::kK>();
  check_copied<64, 128, Major::kK>();
  check_copied<128, 64, Major::kMN>();
  check_copied<96, 64, Major::kMN>();
}

// ---- Groups ------------------------------------------------------------------------------------

// Two products S = A · Bᵀ in flight, of which the first is waited for alone, rounded, and
// multiplied again while the second may still run: D = (A · B₀ᵀ) · B₀ + A · B₁ᵀ.
constexpr int kSquare = 64;

struct TwoGroups {
  SwizzledTile<__half, kRows, kSquare> a;
  SwizzledTile<__half, kSquare, kSquare> b[2];
};

__global__ void __launch_bounds__(kThreads) overlap(const __half* a, const __half* b, float* d) {
  auto& s = shared_storage<TwoGroups>();
  fill(s.a, a, kRows, kSquare);
  for (int i = 0; i < 2; ++i) fill(s.b[i], b + i * kSquare * kSquare, kSquare, kSquare);
  ptx::fence_proxy_async();
  __syncthreads();
  const int row = threadIdx.x / 128 * kGroupRows;
  float rS[kSquare / 8][4], rD[kSquare / 8][4];
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSquare; k += 16) {
    ptx::wgmma_m64k16<__half, Major::kK>(rS, k_major(s.a, row, k), k_major(s.b[0], 0, k), k > 0);
  }
  ptx::wgmma_commit();
#pragma unroll
  for (int k = 0; k < kSquare; k += 16) {
    ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(s.a, row, k), k_major(s.b[1], 0, k), k > 0);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>();
  std::uint32_t rP[kSquare / 16][4];
#pragma unroll
  for (int i = 0; i < kSquare / 16; ++i) to_operand<__half>(rP[i], rS[2 * i], rS[2 * i + 1]);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSquare; k += 16) {
    ptx::wgmma_m64k16<__half, Major::kMN>(rD, rP[k / 16], mn_major(s.b[0], k), true);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store_d(d, rD);
}

TEST_F(Wgmma, InGroups) {
  const std::vector<int> a = small_integers(kRows * kSquare, 1, 6),
                         b = small_integers(2 * kSquare * kSquare, 1, 7);
  const Array<__half> device_a(converted<__half>(a)), device_b(converted<__half>(b));
  const Array<float> d(std::vector<float>(kRows * kSquare));
  run(overlap, {1, kThreads, shared_layout<TwoGroups>()}, device_a.data(), device_b.data(),
      d.data());
  const std::vector<int> b0(b.begin(), b.begin() + kSquare * kSquare),
      b1(b.begin() + kSquare * kSquare, b.end());
  const auto integers = [](const std::vector<float>& values) {
    return std::vector<int>(values.begin(), values.end());
  };
  const std::vector<int> s = integers(product(a, b0, {}, kSquare, kSquare, Major::kK));
  const std::vector<int> sum = integers(product(a, b1, {}, kSquare, kSquare, Major::kK));
  EXPECT_EQ(d.values(), product(s, b0, sum, kSquare, kSquare, Major::kMN));
}

// ---- Registers ---------------------------------------------------------------------------------

// A warpgroup gives registers to two others. 65,536 / 384 threads are 168 for each.
constexpr int kThreeGroups = 384;

__global__ void __launch_bounds__(kThreeGroups, 1) redistribute(int* out) {
  if (threadIdx.x < 128) {
    ptx::setmaxnreg_dec<24>();
    out[threadIdx.x] = 1;
  } else {
    ptx::setmaxnreg_inc<240>();
    out[threadIdx.x] = 2;
  }
}

TEST_F(Wgmma, RegistersChangeHands) {
  const Array<int> out(std::vector<int>(kThreeGroups, 0));
  run(redistribute, {1, kThreeGroups}, out.data());
  std::vector<int> expected(kThreeGroups, 2);
  std::fill_n(expected.begin(), 128, 1);
  EXPECT_EQ(out.values(), expected);
}

}  // namespace
}  // namespace cuflash
