// The stores of cp.async.bulk.tensor and the reductions of cp.reduce.async.bulk of the running
// block that have begun and not ended, and when they have read shared memory.
#ifndef CUFLASH_SIMT_TENSOR_STORE_H_
#define CUFLASH_SIMT_TENSOR_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "simt/memory.h"
#include "simt/tensor_box.h"

namespace cuflash::simt {

struct TensorStore {
  using Data = std::array<unsigned char, BoxChunk::kBytes>;
  std::vector<BoxChunk> chunks;  // those with elements in the tensor
  std::vector<Data> data;        // of the chunks, once they have been read
  std::size_t group = 0;         // of its thread, counted from 0
  std::uint16_t write_site = 0;
  Stamp begun = 0;  // when, by which thread, at which site that reads
  bool reads = true;
  bool adds = false;  // floats; it is a reduction
};

// Adds the floats of a chunk to those in memory.
void add_floats(std::uintptr_t sums, const TensorStore::Data& terms);

struct TensorStores {
  std::list<TensorStore> list;      // of all threads, oldest first
  std::vector<std::size_t> groups;  // by thread: that it has committed
  // By chunk of shared memory: the last store that read it, and when. That is its begin or, once
  // its reading has been waited for, the wait.
  std::vector<Stamp> reads;
  // By chunk of global memory: the store that is to write it.
  std::unordered_map<std::uintptr_t, const TensorStore*> to;

  void use(std::size_t threads, std::size_t shared_bytes) {
    groups.resize(threads);
    reads.resize(shared_bytes / BoxChunk::kBytes + 2);
  }
  bool in_use() const { return !groups.empty(); }
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TENSOR_STORE_H_
