// The XOR layout of a tile of 16-bit elements in shared memory: no bank conflicts without padding.
// It is the layout that Hopper's tensor copies write (PTX manual, "Swizzling Modes").
#ifndef CUFLASH_DEVICE_SWIZZLE_H_
#define CUFLASH_DEVICE_SWIZZLE_H_

#include <cuda_runtime.h>

#include "device/mma_fragments.h"
#include "device/ptx/shared_address.h"

namespace cuflash {

// A tile of kRows × kCols is stored as consecutive panels of kPanelCols columns: rows of 128 bytes,
// or of 64 if kCols is not a multiple of 64. Within a row, the chunks of 16 bytes are permuted:
// chunk c of row r is stored in place of chunk c ^ twist(r). The tile begins at a multiple of
// kAlignment bytes.
template <int kRows, int kCols>
struct Swizzle {
  static constexpr int kTileRows = kRows;
  static constexpr int kPanelCols = kCols % 64 == 0 ? 64 : 32;
  static constexpr int kPanels = kCols / kPanelCols;
  static constexpr int kChunk = 8;  // elements of 16 bytes
  static constexpr int kChunks = kPanelCols / kChunk;
  static constexpr int kAlignment = kChunks * 128;  // bytes after which the pattern repeats
  static_assert(kCols % kPanelCols == 0, "a tile consists of whole panels");
  static_assert(kRows % 8 == 0, "the pattern repeats after 8 rows");

  // The 128-byte swizzle, or the 64-byte swizzle, in which two rows fill the 32 banks and share a
  // twist.
  __host__ __device__ static constexpr unsigned twist(unsigned row) {
    return kChunks == 8 ? row % 8 : row / 2 % 4;
  }
  // The offset of an element from the start of the tile, in elements.
  __host__ __device__ static constexpr int index(unsigned row, unsigned col) {
    const unsigned panel = col / kPanelCols, chunk = col % kPanelCols / kChunk;
    return (panel * kRows + row) * kPanelCols + (chunk ^ twist(row)) * kChunk + col % kChunk;
  }
  // The index of the element 16 · down rows below and 16 · right columns to the right of the
  // element at `index`, which is in the first 16 columns.
  __host__ __device__ static constexpr int step(int index, int down, int right) {
    constexpr int kSteps = kPanelCols / 16;
    return (index ^ (right % kSteps * 16)) + (right / kSteps * kRows + down * 16) * kPanelCols;
  }
};

// A tile in shared memory, in the layout of Swizzle.
template <class T, int kRows, int kCols>
struct alignas(Swizzle<kRows, kCols>::kAlignment) SwizzledTile : Swizzle<kRows, kCols> {
  using Layout = Swizzle<kRows, kCols>;
  T panels[Layout::kPanels][kRows][Layout::kPanelCols];

  __device__ __forceinline__ T& operator()(int row, int col) {
    return (&panels[0][0][0])[Layout::index(row, col)];
  }
};

// Two neighbours in a row of a tile, as one register.
template <class Tile>
__device__ __forceinline__ std::uint32_t& pair(Tile& tile, int row, int col) {
  return *reinterpret_cast<std::uint32_t*>(&tile(row, col));
}

// The addresses of the chunk at (row, col) of a SwizzledTile, col < 16, and of those that are
// multiples of 16 rows and columns away: each takes one XOR and constant offsets.
template <class Tile>
class Chunks {
 public:
  __device__ __forceinline__ Chunks(Tile& tile, int row, int col)
      : tile_(&tile), index_(Tile::index(row, col)) {}
  __device__ __forceinline__ ptx::SharedAddress operator()(int down, int right) const {
    return tile_ + kBytes * Tile::step(index_, down, right);
  }

 private:
  static constexpr int kBytes = 2;  // of an element
  ptx::SharedAddress tile_;
  int index_;
};

// ---- Proofs ------------------------------------------------------------------------------------

namespace swizzle_proofs {

// True if each element has its own index.
template <class Tile, int kRows, int kCols>
constexpr bool covers_once() {
  bool taken[kRows * kCols] = {};
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) {
      bool& here = taken[Tile::index(row, col)];
      if (here) return false;
      here = true;
    }
  }
  return true;
}

// Checks that 8 chunks of 16 bytes can be served in one pass over the 32 banks, in 8 different
// places.
struct Pass {
  bool taken[8] = {};
  bool conflict = false;
  constexpr void add(int index) {
    bool& here = taken[index / 8 % 8];
    conflict = conflict || here;
    here = true;
  }
};

// True if ldmatrix takes one pass per matrix, wherever in the tile and in whatever order its
// quarters are. .trans reads the same rows.
template <class Tile, int kRows, int kCols>
constexpr bool ldmatrix_has_no_conflicts() {
  for (int row = 0; row < kRows; row += LdMatrix::kRows) {
    for (int col = 0; col < kCols; col += LdMatrix::kCols) {
      Pass pass;
      for (int r = 0; r < LdMatrix::kRows; ++r) pass.add(Tile::index(row + r, col));
      if (pass.conflict) return false;
    }
  }
  return true;
}

// True if 8 lanes that copy neighbouring chunks of a panel, row after row, take one pass.
template <class Tile, int kRows, int kCols>
constexpr bool copies_have_no_conflicts() {
  constexpr int kChunks = kRows * kCols / Tile::kChunk;
  for (int first = 0; first < kChunks; first += 8) {
    Pass pass;
    for (int n = first; n < first + 8; ++n) {
      const int row = n / Tile::kChunks % kRows, panel = n / Tile::kChunks / kRows;
      pass.add(Tile::index(row, panel * Tile::kPanelCols + n % Tile::kChunks * Tile::kChunk));
    }
    if (pass.conflict) return false;
  }
  return true;
}

// True if step() finds every element from one of the first 16 rows and columns.
template <class Tile, int kRows, int kCols>
constexpr bool steps_lead_there() {
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) {
      const int from = Tile::index(row % 16, col % 16);
      if (Tile::step(from, row / 16, col / 16) != Tile::index(row, col)) return false;
    }
  }
  return true;
}

template <int kRows, int kCols>
constexpr bool holds() {
  using Tile = Swizzle<kRows, kCols>;
  return covers_once<Tile, kRows, kCols>() && steps_lead_there<Tile, kRows, kCols>() &&
         ldmatrix_has_no_conflicts<Tile, kRows, kCols>() &&
         copies_have_no_conflicts<Tile, kRows, kCols>();
}
static_assert(holds<32, 32>() && holds<32, 64>() && holds<32, 96>() && holds<32, 128>(),
              "each element has its own index, and 8 chunks of one pass lie in 8 places");

}  // namespace swizzle_proofs

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SWIZZLE_H_
