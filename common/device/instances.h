// The types for which stages are instantiated. The grader of exercises replaces this file with one
// that has fewer.
#ifndef CUFLASH_DEVICE_INSTANCES_H_
#define CUFLASH_DEVICE_INSTANCES_H_

#include "device/types.h"

namespace cuflash {

// All dtypes, and those that tensor cores support.
using EveryType = TypeList<float, __half, __nv_bfloat16>;
using TensorCoreTypes = TypeList<__half, __nv_bfloat16>;

// The types for which a pass is instantiated: all that the stage lists.
template <Pass kPass, class Types>
using InstancesOfPass = Types;

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INSTANCES_H_
