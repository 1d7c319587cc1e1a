// Matrices of nvcuda::wmma: which lane and slot of a fragment holds which element, and which
// addresses the hardware's instructions touch.
#ifndef CUFLASH_SIMT_MATRIX_H_
#define CUFLASH_SIMT_MATRIX_H_

#include <mma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuflash::simt {

constexpr int rows_of(FragmentType type) { return type.use == MatrixUse::kB ? type.k : type.m; }
constexpr int cols_of(FragmentType type) { return type.use == MatrixUse::kA ? type.k : type.n; }
constexpr std::size_t element_bytes(FragmentType type) {
  return type.element == MatrixElement::kFloat ? 4 : 2;
}

// The order of a fragment type: a fixed shuffle. An element that is held twice lies in two
// unrelated slots.
struct FragmentOrder {
  struct Element {
    std::uint8_t row, col;
  };
  struct Holder {
    std::uint8_t lane, slot;
  };
  std::vector<Element> element;  // by lane * slots + slot
  std::vector<Holder> holder;    // by row * cols + col; of two, the one that a product reads
};
const FragmentOrder& order_of(FragmentType type);

// The hardware's instructions for one load or store of a matrix.
struct MatrixInstructions {
  int count;
  int lanes;          // number of participating lanes, from lane 0
  std::size_t bytes;  // per lane
  int exchanges = 0;  // MOVM: each transposes a block in registers
};
MatrixInstructions instructions_for(FragmentType type, bool col_major, bool shared);
// Where a lane's piece of the i-th instruction begins, in elements from the first of the matrix.
std::size_t offset_of_piece(FragmentType type, const MatrixInstructions& instructions,
                            const MatrixInMemory& matrix, int i, int lane);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MATRIX_H_
