// Dynamic shared memory. Every kernel's has one name, and a launch says how much of it there is.
#ifndef CUFLASH_DEVICE_SHARED_MEMORY_H_
#define CUFLASH_DEVICE_SHARED_MEMORY_H_

#include <cuda_runtime.h>

namespace cuflash {

extern __shared__ __align__(128) unsigned char shared_memory[];

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SHARED_MEMORY_H_
