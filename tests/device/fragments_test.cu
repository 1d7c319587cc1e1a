// mma.sync and ldmatrix: the lane maps of device/mma_fragments.h are the hardware's.
#include <cmath>

#include "device/mma_fragments.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/ptx/unpack.h"
#include "support.h"

namespace cuflash {
namespace {

template <class T>
class Fragments : public DeviceTest {};
using Types = ::testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Fragments, Types);

// a · b + c in integers; a is m × k, b is k × n.
std::vector<int> product(const std::vector<int>& a, const std::vector<int>& b,
                         const std::vector<int>& c, int m, int n, int k) {
  std::vector<int> d = c;
  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < n; ++col) {
      for (int i = 0; i < k; ++i) d[row * n + col] += a[row * k + i] * b[i * n + col];
    }
  }
  return d;
}

// Every lane takes its elements from row-major matrices, as the maps say.
template <class T>
__global__ void multiply(const T* a, const T* b, const float* c, float* d) {
  const int lane = threadIdx.x;
  MmaA::Registers rA;
  MmaB::Registers rB;
  MmaAccumulator::Registers rD;
  const auto element = [&](auto fragment, const T* from, int i) {
    return float(from[fragment.row(lane, i) * fragment.kCols + fragment.col(lane, i)]);
  };
  for (int i = 0; i < MmaA::kElements; i += 2) {
    rA[i / 2] = pack<T>(element(MmaA{}, a, i), element(MmaA{}, a, i + 1));
  }
  for (int i = 0; i < MmaB::kElements; i += 2) {
    rB[i / 2] = pack<T>(element(MmaB{}, b, i), element(MmaB{}, b, i + 1));
  }
  const auto at = [&](int i) {
    return MmaAccumulator::row(lane, i) * kMmaN + MmaAccumulator::col(lane, i);
  };
  for (int i = 0; i < MmaAccumulator::kElements; ++i) rD[i] = c[at(i)];
  ptx::mma_m16n8k16<T>(rD, rA, rB);
  for (int i = 0; i < MmaAccumulator::kElements; ++i) d[at(i)] = rD[i];
}

// A thread for each number: it is the lower one of a pair, and its complement the upper one.
template <class T>
__global__ void unpack_all(float2* x, float2* expected) {
  const unsigned n = blockIdx.x * blockDim.x + threadIdx.x, bits = n | (~n << 16);
  x[n] = ptx::unpack<T>(bits);
  expected[n] = unpack<T>(bits);
}

TYPED_TEST(Fragments, Unpack) {
  constexpr int kNumbers = 1 << 16;
  const Array<float> x(std::vector<float>(2 * kNumbers)),
      expected(std::vector<float>(2 * kNumbers));
  run(unpack_all<TypeParam>, {kNumbers / 256, 256}, reinterpret_cast<float2*>(x.data()),
      reinterpret_cast<float2*>(expected.data()));
  const auto values = x.values(), expected_values = expected.values();
  for (int n = 0; n < 2 * kNumbers; ++n) {
    if (std::isnan(expected_values[n])) {
      EXPECT_TRUE(std::isnan(values[n]));
    } else {
      EXPECT_EQ(values[n], expected_values[n]);
    }
  }
}

TYPED_TEST(Fragments, Product) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto a = small_integers(kMmaM * kMmaK, 8, seed);
    const auto b = small_integers(kMmaK * kMmaN, 8, seed + 100);
    const auto c = small_integers(kMmaM * kMmaN, 1000, seed + 200);
    const Array<TypeParam> da(converted<TypeParam>(a)), db(converted<TypeParam>(b));
    const Array<float> dc(converted<float>(c)), d(std::vector<float>(c.size()));
    run(multiply<TypeParam>, {1, 32}, da.data(), db.data(), dc.data(), d.data());
    ASSERT_EQ(d.values(), converted<float>(product(a, b, c, kMmaM, kMmaN, kMmaK)));
  }
}

// A tile of 16 × 16 in shared memory. Rows of 48 bytes have no bank conflicts.
constexpr int kTile = 16, kPitch = 24;
template <class T>
using Tile = T[kTile][kPitch];

template <class T>
__device__ void load_tile(Tile<T>& tile, const T* from) {
  const int lane = threadIdx.x;
  for (int i = lane; i < kTile * kTile; i += 32) tile[i / kTile][i % kTile] = from[i];
  __syncwarp();
}

// All elements that the lanes receive, register by register.
template <class Load, bool kTrans>
__global__ void show_loads(const unsigned short* from, unsigned* out) {
  __shared__ __align__(16) Tile<unsigned short> tile;
  load_tile(tile, from);
  const int lane = threadIdx.x;
  std::uint32_t r[4];
  const void* const row = &tile[Load::row(lane)][Load::col(lane)];
  if (kTrans) {
    ptx::ldmatrix_x4_trans(r, row);
  } else {
    ptx::ldmatrix_x4(r, row);
  }
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];
}

class LdMatrixTest : public DeviceTest {
 protected:
  // The tile's element (row, col) is row * 16 + col.
  template <class Load, bool kTrans>
  void check() {
    std::vector<unsigned short> numbers;
    for (int i = 0; i < kTile * kTile; ++i) numbers.push_back(static_cast<unsigned short>(i));
    const Array<unsigned short> from(numbers);
    const Array<unsigned> out(std::vector<unsigned>(128));
    run(show_loads<Load, kTrans>, {1, 32}, from.data(), out.data());
    std::vector<unsigned> expected;
    for (int lane = 0; lane < 32; ++lane) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        unsigned pair[2];
        for (int half = 0; half < 2; ++half) {
          // The PTX manual's figure for ldmatrix.
          const int row = kTrans ? lane % 4 * 2 + half : lane / 4;
          const int col = kTrans ? lane / 4 : lane % 4 * 2 + half;
          const int named_by = matrix * 8 + row;
          pair[half] = Load::row(named_by) * kTile + Load::col(named_by) + col;
        }
        expected.push_back(pair[1] << 16 | pair[0]);
      }
    }
    EXPECT_EQ(out.values(), expected);
    if (simt::counts_accesses()) {
      EXPECT_EQ(simt::counts().bank_conflicts, 0u);
    }
  }
};

TEST_F(LdMatrixTest, Down) { check<QuartersDown, false>(); }
TEST_F(LdMatrixTest, DownTransposed) { check<QuartersDown, true>(); }
TEST_F(LdMatrixTest, Across) { check<QuartersAcross, false>(); }
TEST_F(LdMatrixTest, AcrossTransposed) { check<QuartersAcross, true>(); }

}  // namespace
}  // namespace cuflash
