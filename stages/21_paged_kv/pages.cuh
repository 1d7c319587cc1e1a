// 21_paged_kv: where the keys of a sequence are, and copies of them.
#pragma once

#include "device/cache.h"
#include "device/missing_page.h"
#include "device/ptx/cp_async.h"
#include "device/tensor.h"

namespace cuflash::paged_kv {

// The pages of a sequence, one behind the other. A cache without pages is one page for each
// sequence.
struct Pages {
  const int* table;  // null: no pages
  int size;          // rows of a page
  int entries;       // of the table
  int count;         // pages of K and V
  int cache;         // the page, if there is no table

  // The page of key j, which need not exist.
  __device__ __forceinline__ int of_key(int j) const {
    if (table == nullptr) return cache;
    const int entry = j / size;
    return entry < entries ? __ldg(table + entry) : -1;
  }
  __device__ __forceinline__ int row(int j) const { return table == nullptr ? j : j % size; }
  __device__ __forceinline__ bool exists(int page) const {
    return table == nullptr || (0 <= page && page < count);
  }
};

__device__ __forceinline__ Pages pages_of(const ForwardParams& p, const CachedSequence& seq,
                                          int batch) {
  const int* table = p.block_table;
  if (table != nullptr) table += std::int64_t{batch} * p.pages_per_seq;
  return {table, p.page_size, p.pages_per_seq, p.num_pages, seq.cache};
}

// The rows of a tile that a thread copies: every kStep-th from its first one on, a chunk of each
// panel.
template <class C, class Tile>
struct CopiedRows {
  static constexpr int kStep = C::kThreads / Tile::kChunks;  // rows that all threads copy at a time
  static constexpr int kCount = Tile::kTileRows / kStep;
  using PageNumbers = int[kCount];
  int row, col;
  __device__ __forceinline__ explicit CopiedRows(unsigned thread)
      : row(thread / Tile::kChunks), col(thread % Tile::kChunks * Tile::kChunk) {}
};

// Loads the numbers of the pages in which the keys of a tile are, from key j0 on. The tile's copies
// need them, so they are loaded one tile earlier.
template <class Copied>
__device__ __forceinline__ void load_page_numbers(typename Copied::PageNumbers& numbers,
                                                  const Pages& pages, int j0, Range keys,
                                                  const Copied& rows) {
#pragma unroll
  for (int n = 0; n < Copied::kCount; ++n) {
    const int j = j0 + rows.row + n * Copied::kStep;
    numbers[n] = keys.begin <= j && j < keys.end ? pages.of_key(j) : 0;
  }
}

// Begins to copy the keys from j0 on to a tile of K and one of V. Rows outside `keys` become zeros
// and are not read. A key whose page does not exist becomes NaN, so that its scores do, and its
// value 0.
template <class T, class Tile, class Copied>
__device__ __forceinline__ void request_tiles(Tile& sK, Tile& sV, const Rows<const T>& gK,
                                              const Rows<const T>& gV, const ForwardParams& p,
                                              const Pages& pages,
                                              const typename Copied::PageNumbers& numbers, int j0,
                                              Range keys, const Copied& rows) {
#pragma unroll
  for (int n = 0; n < Copied::kCount; ++n) {
    const int r = rows.row + n * Copied::kStep, j = j0 + r;
    const bool wanted = keys.begin <= j && j < keys.end, exists = pages.exists(numbers[n]);
    const std::int64_t page = wanted && exists ? numbers[n] : 0;
    const int row = wanted && exists ? pages.row(j) : 0;
    const T* from_k = &gK(row, rows.col) + page * p.k.batch_stride;
    const T* from_v = &gV(row, rows.col) + page * p.v.batch_stride;
    if (wanted && !exists) note_missing_page(j, numbers[n]);
#pragma unroll
    for (int c = 0; c < Tile::kPanels * Tile::kPanelCols; c += Tile::kPanelCols) {
      if (wanted && !exists) {
        *reinterpret_cast<uint4*>(&sK(r, rows.col + c)) = {~0u, ~0u, ~0u, ~0u};
      } else {
        ptx::cp_async_16(&sK(r, rows.col + c), from_k + c, wanted);
      }
      ptx::cp_async_16(&sV(r, rows.col + c), from_v + c, wanted && exists);
    }
  }
}

}  // namespace cuflash::paged_kv
