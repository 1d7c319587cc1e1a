// Checks a program's output.
#ifndef CUFLASH_HARNESS_PRINTED_H_
#define CUFLASH_HARNESS_PRINTED_H_

#include <cstdio>
#include <stdexcept>

namespace cuflash::harness {

// Throws unless everything printed so far has been written.
inline void check_printed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw std::runtime_error("The output cannot be written. Is the disk full?");
}

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_PRINTED_H_
