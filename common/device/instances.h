// What stages are compiled for. The grader of exercises has a file of its own in the place of this
// one: it needs fewer instances.
#ifndef CUFLASH_DEVICE_INSTANCES_H_
#define CUFLASH_DEVICE_INSTANCES_H_

#include "device/types.h"

namespace cuflash {

// Every dtype, or those of the tensor cores.
using EveryType = TypeList<float, __half, __nv_bfloat16>;
using TensorCoreTypes = TypeList<__half, __nv_bfloat16>;

// The types that a pass is instantiated for, of those that the stage lists: all of them.
template <Pass kPass, class Types>
using InstancesOfPass = Types;

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INSTANCES_H_
