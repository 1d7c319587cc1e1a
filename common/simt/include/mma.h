// The CPU simulator's mma.h: nvcuda::wmma, CUDA's warp matrix functions, for the types and shapes
// that CUDA has of __half and __nv_bfloat16. What CUDA does not declare does not compile here
// either.
//
// CUDA does not specify which lane and which x[i] holds an element. Here each fragment type has its
// own shuffled order, unlike any GPU's: see the simulator's README.
#ifndef CUFLASH_SIMT_MMA_H_
#define CUFLASH_SIMT_MMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

namespace cuflash::simt {

enum class MatrixUse : std::uint8_t { kA, kB, kAccumulator };
enum class MatrixElement : std::uint8_t { kHalf, kBfloat16, kFloat };

// What distinguishes one type of fragment from another. m, n and k are those of the product.
struct FragmentType {
  MatrixUse use;
  MatrixElement element;
  bool col_major;  // of a and b
  std::uint8_t m, n, k;
  std::uint8_t slots;  // elements of x[]
};

// A matrix in memory: element (r, c) is number r * ldm + c, or c * ldm + r where it is col_major.
struct MatrixInMemory {
  const void* data;
  unsigned ldm;
  bool col_major;
};

// These functions wait for all 32 lanes. They do not order accesses to memory.
void load_matrix(FragmentType type, void* x, MatrixInMemory matrix);
void store_matrix(FragmentType type, const void* x, MatrixInMemory matrix);
// d = a · b + c; d may be c.
void multiply_matrices(FragmentType type_d, void* d, FragmentType type_a, const void* a,
                       FragmentType type_b, const void* b, FragmentType type_c, const void* c);

template <class T>
constexpr MatrixElement kMatrixElement = MatrixElement::kFloat;
template <>
inline constexpr MatrixElement kMatrixElement<__half> = MatrixElement::kHalf;
template <>
inline constexpr MatrixElement kMatrixElement<__nv_bfloat16> = MatrixElement::kBfloat16;

template <class T, int kSlots>
struct alignas(8) FragmentBase {
  using element_type = T;
  using storage_element_type = T;
  enum { num_elements = kSlots, num_storage_elements = kSlots };

  // NaNs, so that a fragment that is never filled cannot be taken for zeros.
  __forceinline__ FragmentBase() { __builtin_memset(static_cast<void*>(x), 0xff, sizeof x); }

  T x[kSlots];
};

template <MatrixUse kUse, int m, int n, int k, class T, bool kColMajor, int kSlots>
struct FragmentOf : FragmentBase<T, kSlots> {
  static constexpr FragmentType kType{kUse, kMatrixElement<T>, kColMajor, m, n, k, kSlots};
};

}  // namespace cuflash::simt

namespace nvcuda::wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;

enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
class fragment;

#define CUFLASH_OPERAND(Use, kUse, m, n, k, T, slots)                                       \
  template <>                                                                               \
  class fragment<Use, m, n, k, T, row_major>                                                \
      : public cuflash::simt::FragmentOf<cuflash::simt::MatrixUse::kUse, m, n, k, T, false, \
                                         slots> {};                                         \
  template <>                                                                               \
  class fragment<Use, m, n, k, T, col_major>                                                \
      : public cuflash::simt::FragmentOf<cuflash::simt::MatrixUse::kUse, m, n, k, T, true,  \
                                         slots> {};
#define CUFLASH_ACCUMULATOR(m, n, k, T)                                                      \
  template <>                                                                                \
  class fragment<accumulator, m, n, k, T>                                                    \
      : public cuflash::simt::FragmentOf<cuflash::simt::MatrixUse::kAccumulator, m, n, k, T, \
                                         false, 8> {};
// The lengths of x[] are CUDA's: a and b of __half hold each element twice.
#define CUFLASH_SHAPE(m, n, k)                                          \
  CUFLASH_OPERAND(matrix_a, kA, m, n, k, __half, 16)                    \
  CUFLASH_OPERAND(matrix_b, kB, m, n, k, __half, 16)                    \
  CUFLASH_OPERAND(matrix_a, kA, m, n, k, __nv_bfloat16, (m) * (k) / 32) \
  CUFLASH_OPERAND(matrix_b, kB, m, n, k, __nv_bfloat16, (k) * (n) / 32) \
  CUFLASH_ACCUMULATOR(m, n, k, __half)                                  \
  CUFLASH_ACCUMULATOR(m, n, k, float)
CUFLASH_SHAPE(16, 16, 16)
CUFLASH_SHAPE(32, 8, 16)
CUFLASH_SHAPE(8, 32, 16)
#undef CUFLASH_SHAPE
#undef CUFLASH_ACCUMULATOR
#undef CUFLASH_OPERAND

template <class T, int kSlots>
__forceinline__ void fill_fragment(
    cuflash::simt::FragmentBase<T, kSlots>& f,
    const typename cuflash::simt::FragmentBase<T, kSlots>::element_type& value) {
  for (int i = 0; i < kSlots; ++i) f.x[i] = value;
}

// `p` is a multiple of 32 bytes, `ldm` of 16 bytes, both the same in all lanes. With an ldm of 0
// all rows (columns, of a col_major matrix) are the first.
template <class Use, int m, int n, int k, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const T* p,
                                      unsigned ldm) {
  static_assert(!std::is_same_v<Use, accumulator>, "an accumulator is loaded with a layout_t");
  cuflash::simt::load_matrix(f.kType, f.x, {p, ldm, f.kType.col_major});
}
template <int m, int n, int k, class T>
__forceinline__ void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* p,
                                      unsigned ldm, layout_t layout) {
  cuflash::simt::load_matrix(f.kType, f.x, {p, ldm, layout == mem_col_major});
}
template <int m, int n, int k, class T>
__forceinline__ void store_matrix_sync(T* p, const fragment<accumulator, m, n, k, T>& f,
                                       unsigned ldm, layout_t layout) {
  cuflash::simt::store_matrix(f.kType, f.x, {p, ldm, layout == mem_col_major});
}

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class D, class C>
__forceinline__ void mma_sync(fragment<accumulator, m, n, k, D>& d,
                              const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                              const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                              const fragment<accumulator, m, n, k, C>& c) {
  static_assert(std::is_same_v<T, __half> || (std::is_same_v<C, float> && std::is_same_v<D, float>),
                "products of __nv_bfloat16 are added up in float");
  cuflash::simt::multiply_matrices(d.kType, d.x, a.kType, a.x, b.kType, b.x, c.kType, c.x);
}

}  // namespace nvcuda::wmma

#endif  // CUFLASH_SIMT_MMA_H_
