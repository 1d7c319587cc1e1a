// The boxes of cp.async.bulk.tensor: the places of their elements in both memories.
#ifndef CUFLASH_SIMT_TENSOR_BOX_H_
#define CUFLASH_SIMT_TENSOR_BOX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/host/tensor_map_arguments.h"

namespace cuflash::simt {

struct Thread;

// The hardware swizzles addresses: bits of the row permute the chunks within it. The patterns equal
// those of Swizzle (device/swizzle.h) in a tile that begins at the pattern's start.
inline std::uintptr_t swizzled(std::uintptr_t address, TensorSwizzle swizzle) {
  const std::uintptr_t mask = swizzle == TensorSwizzle::k128Bytes  ? 7
                              : swizzle == TensorSwizzle::k64Bytes ? 3
                                                                   : 0;
  return address ^ (address / 128 & mask) * TensorMapArguments::kChunkBytes;
}

// 16 bytes of a box in shared memory, of which [begin, end) lie in the tensor, in global memory.
struct BoxChunk {
  static constexpr std::size_t kBytes = TensorMapArguments::kChunkBytes;
  std::uintptr_t shared, global;
  std::size_t begin, end;
};

// The chunks, in the order of its elements, of the box that begins at `first` in the tensor and at
// this address in shared memory.
std::vector<BoxChunk> box_chunks(std::uintptr_t shared, const TensorMapArguments& map,
                                 const int (&first)[4]);

// Reports a box in shared memory with a wrong alignment or extent, for copies and stores. The
// launch then ends.
void check_box(const Thread& self, std::uintptr_t shared, std::size_t bytes, int innermost,
               std::uint16_t site, const std::string& verb);
// Reports bytes that do not all lie in one array. The launch then ends.
void check_span(const Thread& self, std::uintptr_t shared, std::size_t bytes, std::uint16_t site);

// Calls use() for the largest aligned pieces of [begin, end), in which global memory is accessed.
template <class Use>
void for_each_piece(std::uintptr_t begin, std::uintptr_t end, const Use& use) {
  for (std::uintptr_t at = begin; at < end;) {
    std::size_t piece = BoxChunk::kBytes;
    while ((at & (piece - 1)) != 0 || piece > end - at) piece /= 2;
    use(at, piece);
    at += piece;
  }
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TENSOR_BOX_H_
