// Where dynamic shared memory begins: tiles that are swizzled over rows of 128 bytes, and their
// descriptors, rely on a multiple of 1,024.
#include <cstdint>

#include "../support.h"
#include "device/registers.h"
#include "device/shared_memory.h"

namespace cuflash {
namespace {

class SharedMemory : public DeviceTest {
 protected:
  SharedMemory() : DeviceTest(9) {}
};

// The compiler must not take the declared alignment for granted.
__global__ void write_misalignment(unsigned* misalignment) {
  const auto address = opaque(reinterpret_cast<std::uintptr_t>(shared_memory));
  misalignment[blockIdx.x] = static_cast<unsigned>(address % kSharedAlignment);
}

TEST_F(SharedMemory, BeginsAtAMultipleOf1024) {
  constexpr unsigned kBlocks = 2000;  // several on each SM
  for (const std::size_t bytes : {16, 1000, 5 * 1024 + 16, 100 * 1024}) {
    SCOPED_TRACE(bytes);
    const Array<unsigned> misalignment(std::vector<unsigned>(kBlocks, 99));
    run(write_misalignment, {kBlocks, 1, bytes}, misalignment.data());
    EXPECT_EQ(misalignment.values(), std::vector<unsigned>(kBlocks, 0));
  }
}

}  // namespace
}  // namespace cuflash
