// The CPU simulator's tensor map, the twin of common/device/host/tensor_map.h: the arguments
// themselves.
#ifndef CUFLASH_DEVICE_TENSOR_MAP_H_
#define CUFLASH_DEVICE_TENSOR_MAP_H_

#include <string>

#include "device/host/tensor_map_arguments.h"

namespace cuflash {

struct TensorMap {
  TensorMapArguments arguments;
};

// Makes the map. Returns why it could not, in a sentence with all arguments; empty if it could.
inline std::string make_tensor_map(TensorMap& map, const TensorMapArguments& arguments) {
  map.arguments = arguments;
  return tensor_map_fault(arguments);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TENSOR_MAP_H_
