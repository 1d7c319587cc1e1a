// Floats to and from the bytes of a dtype. Rounding is to nearest, ties to even.
#ifndef CUFLASH_HARNESS_CONVERT_H_
#define CUFLASH_HARNESS_CONVERT_H_

#include <cstddef>
#include <vector>

#include "cuflash/problem.h"

namespace cuflash::harness {

// Writes `count` floats as elements of `dtype`.
void encode(DType dtype, const float* values, std::size_t count, std::byte* bytes);

// Reads `count` elements of `dtype` as floats.
void decode(DType dtype, const std::byte* bytes, std::size_t count, float* values);

// Rounds every value to the nearest one of `dtype`.
void round_to(DType dtype, std::vector<float>& values);

// Half the distance between two neighbours of `dtype` at this magnitude: the rounding of a result.
double half_ulp(DType dtype, double magnitude);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_CONVERT_H_
