// The unfinished stores of cp.async.bulk.tensor and reductions of cp.reduce.async.bulk of the
// running block, and their reads of shared memory.
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
  Stamp begun = 0;  // moment, thread, and the site that reads
  bool reads = true;
  bool adds = false;  // true for a reduction, which adds floats
};

// Adds the floats of a chunk to those in memory.
void add_floats(std::uintptr_t sums, const TensorStore::Data& terms);

class TensorStores {
 public:
  void begin_block() {
    if (in_use()) *this = {};
  }
  void issue(const Thread& self, const TensorMapArguments& map, const int (&first)[4],
             std::uintptr_t from, std::uintptr_t return_address);
  // bulk_reduce.cpp
  void issue_reduction(const Thread& self, std::uintptr_t to, std::uintptr_t from, int bytes,
                       std::uintptr_t return_address);
  void commit(const Thread& self);
  void wait(const Thread& self, std::size_t pending, bool only_read);
  // False if the access touches the target of a store in flight, which is then reported.
  bool on_access(const Thread& self, const Region& region, std::uintptr_t address,
                 std::uint16_t site);
  // Before a write by the thread or by a copy that it begins: returns a read by a store that
  // nothing orders before the write, or 0. Reports a store that still reads.
  Stamp unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site);
  // The thread has exited.
  void end_thread(const Thread& self);
  // All threads of the block have exited.
  void end_block();

  bool in_use() const { return !groups_.empty(); }
  // The oldest store of the thread that has not ended; null if there is none.
  const TensorStore* unfinished_of(const Thread& self) const;

 private:
  void use();
  void begin(const Thread& self, TensorStore&& begins, std::uint16_t site);
  void check_source(const Thread& self, const TensorStore& store);
  void take_target(const Thread& self, TensorStore& store);
  Stamp& read_at(std::uintptr_t address);
  void end_reading(TensorStore& store);
  void end(std::list<TensorStore>::iterator store);

  std::list<TensorStore> list_;      // of all threads, oldest first
  std::vector<std::size_t> groups_;  // by thread: number of committed groups
  // By chunk of shared memory: the last store that read it, with the moment of its begin or, once
  // its reading has been waited for, of the wait.
  std::vector<Stamp> reads_;
  // By chunk of global memory: the store that will write it.
  std::unordered_map<std::uintptr_t, const TensorStore*> to_;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TENSOR_STORE_H_
