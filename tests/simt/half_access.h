// The cases of half_access_test.cpp: pieces of kernel code and the accesses they must make.
#ifndef CUFLASH_TESTS_SIMT_HALF_ACCESS_H_
#define CUFLASH_TESTS_SIMT_HALF_ACCESS_H_

#include <cstddef>

struct AccessCase {
  const char* name;
  const char* accesses;                    // sorted: R4 is a read of 4 bytes, W16 a write of 16
  void (*run)(void* out, const void* in);  // 64 bytes each, aligned to 16
};

/// Compiled with the flags of a kernel, in half_access_kernels.cpp.
const AccessCase* access_cases(std::size_t* count);

#endif  // CUFLASH_TESTS_SIMT_HALF_ACCESS_H_
