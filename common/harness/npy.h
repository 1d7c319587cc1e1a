// Reads arrays that numpy.save wrote: float32, C order.
#ifndef CUFLASH_HARNESS_NPY_H_
#define CUFLASH_HARNESS_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cuflash::harness {

struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};

// Throws std::runtime_error with the file's name and the reason if the file is not such an array.
NpyArray read_npy(const std::string& path);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_NPY_H_
