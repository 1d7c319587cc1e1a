// nvcuda::wmma: its results, and where its fragments hold the elements.
#include <mma.h>

#include <array>
#include <cmath>
#include <random>
#include <type_traits>

#include "support.h"

namespace cuflash::simt {
namespace {

using namespace nvcuda::wmma;

// Small integers and halves: their products and sums are exact, in any order.
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

class Wmma : public SimulatorTest {};

TEST_F(Wmma, Half) { check_shapes<__half, float>(); }
TEST_F(Wmma, Bfloat16) { check_shapes<__nv_bfloat16, float>(); }
TEST_F(Wmma, HalfAccumulator) { check_shapes<__half, __half>(); }

// 1 + 2^-12 + 2^-12 ... : sums are rounded to float, not to half, and a half accumulator only at
// the end of each product.
template <class C>
__global__ void small_steps(const __half* a, const __half* b, C* d) {
  fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
  fragment<accumulator, 16, 16, 16, C> sum;
  fill_fragment(sum, C(1.f));
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, b, 16);
  mma_sync(sum, fa, fb, sum);
  store_matrix_sync(d, sum, 16, mem_row_major);
}

TEST_F(Wmma, SumsAreFloats) {
  const float step = 1.f / 64.f;
  const Array<__half> a(256, __half(step)), b(256, __half(step));
  const Array<float> floats(256);
  const Array<__half> halves(256);
  run(small_steps<float>, {1, 32}, a.data(), b.data(), floats.data());
  run(small_steps<__half>, {1, 32}, a.data(), b.data(), halves.data());
  EXPECT_EQ(floats.values()[17], 1.f + 16.f * step * step);
  EXPECT_EQ(static_cast<float>(halves.values()[17]), 1.f + 16.f * step * step);
  EXPECT_EQ(counts().products, 2u);
  EXPECT_EQ(counts().multiply_adds, 2u * 16 * 16 * 16);
}

__global__ void accumulate_unfilled(const __half* a, float* d) {
  fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> sum;
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, a, 16);
  mma_sync(sum, fa, fb, sum);
  store_matrix_sync(d, sum, 16, mem_row_major);
}

TEST_F(Wmma, AnAccumulatorThatIsNeverFilledIsNotZero) {
  const Array<__half> a(256, __half(1.f));
  const Array<float> out(256);
  run(accumulate_unfilled, {1, 32}, a.data(), out.data());
  for (const float value : out.values()) EXPECT_TRUE(std::isnan(value));
}

// ---- ldm ---------------------------------------------------------------------------------------

// The identity times b shows how b was loaded.
template <class Layout>
__global__ void show_b(const __half* identity, const __half* b, float* d, unsigned ldm) {
  fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __half, Layout> fb;
  fragment<accumulator, 16, 16, 16, float> sum;
  fill_fragment(sum, 0.f);
  load_matrix_sync(fa, identity, 16);
  load_matrix_sync(fb, b, ldm);
  mma_sync(sum, fa, fb, sum);
  store_matrix_sync(d, sum, 16, mem_row_major);
}

__global__ void show_accumulator(const float* in, float* d, unsigned ldm, bool rows) {
  fragment<accumulator, 16, 16, 16, float> sum;
  load_matrix_sync(sum, in, ldm, rows ? mem_row_major : mem_col_major);
  store_matrix_sync(d, sum, 16, mem_row_major);
}

TEST_F(Wmma, AnLdmOfZeroRepeatsOneRowOrColumn) {
  std::vector<__half> identity(256, __half(0.f));
  for (int i = 0; i < 16; ++i) identity[17 * i] = __half(1.f);
  Array<__half> di(256), db(16);
  Array<float> bias(16), out(256);
  di.set(identity);
  const auto line = exact_values<__half>(16, 6);
  db.set(line);
  bias.set(as_floats(line));
  const auto check = [&](bool repeats_rows) {
    for (int e = 0; e < 256; ++e) {
      ASSERT_EQ(out.values()[e], static_cast<float>(line[repeats_rows ? e % 16 : e / 16])) << e;
    }
  };
  run(show_b<row_major>, {1, 32}, di.data(), db.data(), out.data(), 0u);
  check(true);
  run(show_b<col_major>, {1, 32}, di.data(), db.data(), out.data(), 0u);
  check(false);
  run(show_accumulator, {1, 32}, bias.data(), out.data(), 0u, true);
  check(true);
  run(show_accumulator, {1, 32}, bias.data(), out.data(), 0u, false);
  check(false);
}

// ---- Orders of fragments -----------------------------------------------------------------------

// The elements of x[], lane by lane, of a matrix whose element number e is e.
template <class Fragment>
__global__ void show_order(const typename Fragment::element_type* in, int* out, bool rows) {
  using Element = typename Fragment::element_type;
  Fragment f;
  if constexpr (Fragment::num_elements == 8 && std::is_same_v<Element, float>) {
    load_matrix_sync(f, in, 16, rows ? mem_row_major : mem_col_major);
  } else {
    load_matrix_sync(f, in, 16);
  }
  for (int i = 0; i < f.num_elements; ++i) {
    out[threadIdx.x * f.num_elements + i] = static_cast<int>(static_cast<float>(f.x[i]));
  }
}

template <class Fragment>
std::vector<int> order_in_memory(bool rows = true) {
  using Element = typename Fragment::element_type;
  std::vector<Element> numbers;
  for (int e = 0; e < 256; ++e) numbers.push_back(Element(static_cast<float>(e)));
  Array<Element> in(256);
  in.set(numbers);
  const Array<int> out(32 * Fragment::num_elements);
  run(show_order<Fragment>, {1, 32}, in.data(), out.data(), rows);
  return out.values();
}

template <class Layout>
using A = fragment<matrix_a, 16, 16, 16, __half, Layout>;
template <class Layout>
using B = fragment<matrix_b, 16, 16, 16, __half, Layout>;
template <class Layout>
using A16 = fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Layout>;
template <class Layout>
using B16 = fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Layout>;
using Sum = fragment<accumulator, 16, 16, 16, float>;

TEST_F(Wmma, EachElementIsHeldAsOftenAsCudaHoldsIt) {
  const auto counts_of = [](const std::vector<int>& order) {
    std::array<int, 256> count{};
    for (const int element : order) ++count.at(element);
    return count;
  };
  std::array<int, 256> once, twice;
  once.fill(1);
  twice.fill(2);
  EXPECT_EQ(counts_of(order_in_memory<A<row_major>>()), twice);
  EXPECT_EQ(counts_of(order_in_memory<B<col_major>>()), twice);
  EXPECT_EQ(counts_of(order_in_memory<A16<row_major>>()), once);
  EXPECT_EQ(counts_of(order_in_memory<Sum>()), once);
}

TEST_F(Wmma, EachTypeHasAnOrderOfItsOwn) {
  const std::vector<std::vector<int>> orders = {order_in_memory<A<row_major>>(),
                                                order_in_memory<A<col_major>>(),
                                                order_in_memory<B<row_major>>(),
                                                order_in_memory<B<col_major>>(),
                                                order_in_memory<A16<row_major>>(),
                                                order_in_memory<A16<col_major>>(),
                                                order_in_memory<B16<row_major>>(),
                                                order_in_memory<B16<col_major>>(),
                                                order_in_memory<Sum>()};
  for (std::size_t i = 0; i < orders.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(orders[i], orders[j]) << i << " and " << j;
  }
  EXPECT_EQ(order_in_memory<Sum>(), orders.back());
  // The same elements, though they lie elsewhere in memory.
  std::vector<int> turned = order_in_memory<Sum>(false);
  for (int& element : turned) element = element % 16 * 16 + element / 16;
  EXPECT_EQ(turned, orders.back());
}

// On today's GPUs lane l's x[0] to x[7] are these elements. A kernel must not rely on it.
__global__ void scale_rows_by_hardware_layout(const float* in, const float* factor, float* out) {
  Sum f;
  load_matrix_sync(f, in, 16, mem_row_major);
  const int lane = threadIdx.x;
  for (int i = 0; i < f.num_elements; ++i) f.x[i] *= factor[lane / 4 + 8 * (i / 2 % 2)];
  store_matrix_sync(out, f, 16, mem_row_major);
}

// What CUDA allows: the same operation on each element, or element by element on equal types.
__global__ void squares(const float* in, const float* other, float* out) {
  Sum a, b, c;
  load_matrix_sync(a, in, 16, mem_row_major);
  load_matrix_sync(b, other, 16, mem_row_major);
  for (int i = 0; i < c.num_elements; ++i) c.x[i] = a.x[i] * b.x[i] + 1.f;
  store_matrix_sync(out, c, 16, mem_row_major);
}

TEST_F(Wmma, AKernelThatKnowsTheLayoutIsWrongHere) {
  Array<float> in(256, 1.f), factor(16), out(256);
  std::vector<float> factors, expected;
  for (int i = 0; i < 16; ++i) factors.push_back(static_cast<float>(i));
  for (int e = 0; e < 256; ++e) expected.push_back(factors[e / 16]);
  factor.set(factors);
  run(scale_rows_by_hardware_layout, {1, 32}, in.data(), factor.data(), out.data());
  EXPECT_NE(out.values(), expected);
}

TEST_F(Wmma, ElementByElement) {
  const auto a = exact_values<float>(256, 7), b = exact_values<float>(256, 8);
  Array<float> da(256), db(256), out(256);
  da.set(a);
  db.set(b);
  run(squares, {1, 32}, da.data(), db.data(), out.data());
  for (int e = 0; e < 256; ++e) ASSERT_EQ(out.values()[e], a[e] * b[e] + 1.f);
}

// ---- Types -------------------------------------------------------------------------------------

template <class T, class = void>
constexpr bool kIsComplete = false;
template <class T>
constexpr bool kIsComplete<T, std::void_t<decltype(sizeof(T))>> = true;

TEST_F(Wmma, OnlyTheTypesOfCuda) {
  EXPECT_TRUE((kIsComplete<fragment<matrix_a, 32, 8, 16, __half, row_major>>));
  EXPECT_FALSE((kIsComplete<fragment<matrix_a, 16, 16, 32, __half, row_major>>));
  EXPECT_FALSE((kIsComplete<fragment<matrix_a, 16, 16, 16, __half>>));
  EXPECT_FALSE((kIsComplete<fragment<matrix_a, 16, 16, 16, float, row_major>>));
  EXPECT_FALSE((kIsComplete<fragment<accumulator, 16, 16, 16, __nv_bfloat16>>));
  EXPECT_TRUE((std::is_same_v<Sum::element_type, float>));
  EXPECT_TRUE((std::is_same_v<A<row_major>::storage_element_type, __half>));
  EXPECT_EQ(int{A<row_major>::num_elements}, 16);
  EXPECT_EQ(int{A16<row_major>::num_elements}, 8);
  EXPECT_EQ((int{fragment<matrix_b, 32, 8, 16, __nv_bfloat16, row_major>::num_elements}), 4);
  EXPECT_EQ(int{Sum::num_elements}, 8);
}

}  // namespace
}  // namespace cuflash::simt
