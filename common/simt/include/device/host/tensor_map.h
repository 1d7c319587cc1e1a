// The CPU simulator's version of common/device/host/tensor_map.h: a tensor map is its arguments.
#ifndef CUFLASH_DEVICE_TENSOR_MAP_H_
#define CUFLASH_DEVICE_TENSOR_MAP_H_

#include <string>

#include "device/host/tensor_map_arguments.h"

namespace cuflash {

struct TensorMap {
  TensorMapArguments arguments;
};

// Makes the map. Returns an empty string, or the reason for a failure as a sentence with all
// arguments.
inline std::string make_tensor_map(TensorMap& map, const TensorMapArguments& arguments) {
  map.arguments = arguments;
  return tensor_map_fault(arguments);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TENSOR_MAP_H_
