// wgmma: where each element of a product lies, for every shape and layout.
// Inputs are small integers, so that every result is exact.
#include <cstring>
#include <string>

#include "../support.h"
#include "device/matrix_descriptor.h"
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

}  // namespace
}  // namespace cuflash
