// Additions of four neighbouring f32 per lane, in one instruction.
#include "ceilings/loops.h"
#include "ceilings/memory.h"

namespace cuflash::bench {
namespace {

struct AddFour {
  static constexpr int kFloats = 4;
  __device__ __forceinline__ void operator()(float* at) const {
    atomicAdd(reinterpret_cast<float4*>(at), float4{1.f, 1.f, 1.f, 1.f});
  }
};

}  // namespace

Loop vector_additions(const Chip& chip, std::size_t target_bytes) {
  return addition_loop<AddFour>(chip, target_bytes);
}

}  // namespace cuflash::bench
