// The dtypes and head dimensions of a stage, as types: one list both declares what a stage supports
// and instantiates its templates.
#ifndef CUFLASH_DEVICE_TYPES_H_
#define CUFLASH_DEVICE_TYPES_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <iterator>
#include <utility>

#include "cuflash/stage.h"

namespace cuflash {

template <class T>
inline constexpr DType kDTypeOf = CUFLASH_F32;
template <>
inline constexpr DType kDTypeOf<__half> = CUFLASH_F16;
template <>
inline constexpr DType kDTypeOf<__nv_bfloat16> = CUFLASH_BF16;

template <class T>
struct TypeTag {
  using Type = T;
};

template <class... Ts>
struct TypeList {
  static constexpr DTypes kSet{(0u | ... | (1u << static_cast<int>(kDTypeOf<Ts>)))};
};

template <int... Ns>
struct IntList {
  static constexpr HeadDims kSet{(0u | ... | (1u << (Ns / 16 - 1)))};
};

// The head dimensions of most stages, and all valid ones.
using UsualHeadDims = IntList<32, 64, 128>;
template <std::size_t... Is>
IntList<kHeadDims[Is]...> every_head_dim(std::index_sequence<Is...>);
using EveryHeadDim = decltype(every_head_dim(std::make_index_sequence<std::size(kHeadDims)>{}));

// Calls f(TypeTag<T>{}) for the type of `dtype`, if the list has it.
template <class... Ts, class F>
void with_type(TypeList<Ts...>, DType dtype, F&& f) {
  (void)((dtype == kDTypeOf<Ts> && (f(TypeTag<Ts>{}), true)) || ...);
}

// Returns f(TypeTag<T>{}, std::integral_constant<int, head_dim>{}) for the problem's dtype and
// head_dim, or `otherwise` if they are not in the lists.
template <class... Ts, int... Ns, class Result, class F>
Result dispatch(TypeList<Ts...>, IntList<Ns...>, const Problem& p, Result otherwise, F&& f) {
  Result result = otherwise;
  with_type(TypeList<Ts...>{}, p.dtype, [&](auto type) {
    (void)((p.head_dim == Ns && (result = f(type, std::integral_constant<int, Ns>{}), true)) ||
           ...);
  });
  return result;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TYPES_H_
