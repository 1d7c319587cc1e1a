// Compares device memory without copying it back.
#ifndef CUFLASH_TESTS_GPU_DIFFERENCES_H_
#define CUFLASH_TESTS_GPU_DIFFERENCES_H_

#include <cuda_runtime.h>

#include <cstddef>

namespace cuflash {

// Queues a kernel that adds to *count, in device memory, how many of the words of 4 bytes differ.
void count_differences(const void* a, const void* b, std::size_t bytes, unsigned* count,
                       cudaStream_t stream);

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_DIFFERENCES_H_
