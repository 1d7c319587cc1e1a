// nvcuda::wmma: what it computes. wmma_check_test.cu has what it counts and finds.
#include <mma.h>

#include <array>
#include <cmath>
#include <random>
#include <type_traits>

#include "support.h"

namespace cuflash::simt {
namespace {

using namespace nvcuda::wmma;

// Small integers and halves: their products and sums are exact, whatever the order.
template <class T>
std::vector<T> exact_values(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = T(static_cast<float>(static_cast<int>(random() % 17) - 8) / 2.f);
  return values;
}

template <class T>
std::vector<float> as_floats(const std::vector<T>& values) {
  std::vector<float> floats;
  for (const T value : values) floats.push_back(static_cast<float>(value));
  return floats;
}

// Element (row, col) of a matrix in memory.
template <class T>
float at(const std::vector<T>& values, int row, int col, int ldm, bool col_major) {
  return static_cast<float>(values[col_major ? col * ldm + row : row * ldm + col]);
}

template <class Layout>
constexpr bool kIsColMajor = std::is_same_v<Layout, col_major>;

// ---- Products ----------------------------------------------------------------------------------

constexpr int kLdm = 48;  // of every matrix: more than any has rows or columns

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C>
__global__ void product(const T* a, const T* b, const C* c, C* d, bool rows) {
  fragment<matrix_a, m, n, k, T, LayoutA> fa;
  fragment<matrix_b, m, n, k, T, LayoutB> fb;
  fragment<accumulator, m, n, k, C> fc, fd;
  const layout_t layout = rows ? mem_row_major : mem_col_major;
  load_matrix_sync(fa, a, kLdm);
  load_matrix_sync(fb, b, kLdm);
  load_matrix_sync(fc, c, kLdm, layout);
  mma_sync(fd, fa, fb, fc);
  store_matrix_sync(d, fd, kLdm, layout);
}

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C>
void check_product(bool rows) {
  const int count = 32 * kLdm;
  const auto a = exact_values<T>(count, 1), b = exact_values<T>(count, 2);
  const auto c = exact_values<C>(count, 3);
  Array<T> da(count), db(count);
  Array<C> dc(count), dd(count);
  da.set(a);
  db.set(b);
  dc.set(c);
  dd.set(c);
  run(product<m, n, k, T, LayoutA, LayoutB, C>, {1, 32}, da.data(), db.data(), dc.data(), dd.data(),
      rows);
  std::vector<float> expected = as_floats(c);
  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < n; ++col) {
      float& sum = expected[rows ? row * kLdm + col : col * kLdm + row];
      for (int i = 0; i < k; ++i) {
        sum +=
            at(a, row, i, kLdm, kIsColMajor<LayoutA>) * at(b, i, col, kLdm, kIsColMajor<LayoutB>);
      }
    }
  }
  EXPECT_EQ(as_floats(dd.values()), expected);
}

template <int m, int n, int k, class T, class C>
void check_layouts() {
  for (const bool rows : {true, false}) {
    SCOPED_TRACE(rows);
    check_product<m, n, k, T, row_major, row_major, C>(rows);
    check_product<m, n, k, T, row_major, col_major, C>(rows);
    check_product<m, n, k, T, col_major, row_major, C>(rows);
    check_product<m, n, k, T, col_major, col_major, C>(rows);
  }
}

template <class T, class C>
void check_shapes() {
  check_layouts<16, 16, 16, T, C>();
  check_layouts<32, 8, 16, T, C>();
  check_layouts<8, 32, 16, T, C>();
}

class Wmma : public MachineTest {};

TEST_F(Wmma, Half) { check_shapes<__half, float>(); }
TEST_F(Wmma, Bfloat16) { check_shapes<__nv_bfloat16, float>(); }
TEST_F(Wmma, HalfAccumulator) { check_shapes<__half, __half>(); }

}  // namespace
}  // namespace cuflash::simt
