// What an exercise is compiled for, in the place of common/device/instances.h: bf16 behaves like
// f16, and an exercise is about one pass, CUFLASH_EXERCISE_PASS.
#ifndef CUFLASH_DEVICE_INSTANCES_H_
#define CUFLASH_DEVICE_INSTANCES_H_

#include <type_traits>

#include "device/tensor.h"
#include "device/types.h"

namespace cuflash {

using EveryType = TypeList<float, __half>;
using TensorCoreTypes = TypeList<__half>;

template <Pass kPass, class Types>
using InstancesOfPass = std::conditional_t<kPass == CUFLASH_EXERCISE_PASS, Types, TypeList<>>;

// How many keys the parameters count beyond those of a sequence; grade.cpp has it.
int added_keys();

inline Sequence sequence(const ForwardParams& p, int /*batch*/) {
  Problem own = p;
  own.seq_kv -= added_keys();
  return {own.seq_q, own.seq_kv, Band(own)};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INSTANCES_H_
