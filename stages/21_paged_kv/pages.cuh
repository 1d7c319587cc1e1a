// 21_paged_kv: where the keys of a sequence are.
#pragma once

#include "device/cache.h"
#include "device/missing_page.h"
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

}  // namespace cuflash::paged_kv
