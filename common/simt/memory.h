// The memory that kernels can access, and the simulator's records of it.
//
// Global memory lies in one range of addresses, handed out in chunks with red zones around every
// allocation. Shared memory is the thread-local storage of the module that holds the kernel. Both
// are regions, and every region has shadow cells: the last write and the last reads of each
// granule.
#ifndef CUFLASH_SIMT_MEMORY_H_
#define CUFLASH_SIMT_MEMORY_H_

#include <host_defines.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/shared_memory.h"
#include "simt/storage_layout.h"

namespace cuflash::simt {

inline std::uintptr_t as_address(const volatile void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Dynamic shared memory of a block of the modelled device. cuflash::shared_memory has this size; a
// launch may use as much of it as it requested.
constexpr std::size_t kMaxSharedBytes = 227 * 1024;

// When, by which thread and at which site a granule was accessed: epoch:38 | thread:10 | site:16.
// Epochs count every barrier and __syncwarp() of the process, so a later one is larger. 0 means
// never.
using Stamp = std::uint64_t;
constexpr int kSiteBits = 16;
constexpr int kThreadBits = 10;
constexpr Stamp kOneEpoch = Stamp{1} << (kSiteBits + kThreadBits);
constexpr int stamp_thread(Stamp s) { return static_cast<int>(s >> kSiteBits) & 1023; }
constexpr int stamp_site(Stamp s) { return static_cast<int>(s & 0xffff); }
// The stamp's moment, without its thread and site.
constexpr Stamp moment_of(Stamp s) { return s & ~(kOneEpoch - 1); }
constexpr bool same_thread(Stamp a, Stamp b) {
  return ((a ^ b) & (kOneEpoch - (Stamp{1} << kSiteBits))) == 0;
}
constexpr bool same_warp(Stamp a, Stamp b) {
  return ((a ^ b) & (kOneEpoch - (Stamp{32} << kSiteBits))) == 0;
}
// A write by the host: before every launch.
constexpr Stamp kHostStamp = kOneEpoch;

// True if the address is a null pointer's, or that of a field or element behind one.
constexpr bool is_null(std::uintptr_t address) { return address < 65536; }

// The record of one granule. Two reads are kept, of different warps if possible, so that a later
// writer finds a reader other than itself if there was one.
struct Cell {
  Stamp write;
  Stamp read;
  Stamp other_read;
};

// The cells of neighbouring granules.
struct CellRange {
  Cell* first;
  std::size_t count;
  Cell* begin() const { return first; }
  Cell* end() const { return first + count; }
};

// A contiguous piece of global or shared memory.
struct Region {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool shared = false;
  bool freed = false;
  bool initialised = false;  // the host has written all of it
  bool stored_to = false;    // stores of boxes have written here: accesses are looked at closely
  bool copied_from = false;  // copies of boxes have read here: writes are looked at closely
  std::string name;

  // The cells of [address, address + size), made if there are none. The granule is the size of the
  // smallest access so far; a smaller access splits every cell, which loses no information.
  CellRange cells(std::uintptr_t address, std::size_t size) {
    const std::size_t offset = address - begin;
    if (((offset | size) & granule_mask_) != 0) prepare_cells(offset | size);
    return {&cells_[offset >> granule_log2_], size >> granule_log2_};
  }
  // The cells of [address, address + size), or null if there are none.
  Cell* existing_cells(std::uintptr_t address, std::size_t size, std::size_t& count) {
    const std::size_t offset = address - begin;
    if (((offset | size) & granule_mask_) != 0) return nullptr;
    count = size >> granule_log2_;
    return &cells_[offset >> granule_log2_];
  }
  // Notes a write by the host.
  void host_write(std::uintptr_t address, std::size_t size);
  void drop_cells() {
    cells_.reset();
    granule_log2_ = kCoarsest;
    granule_mask_ = ~std::size_t{0};
  }
  bool has_fine_cells() const { return granule_log2_ < kCoarsest; }
  // Bytes from the region to an address outside it; 0 inside it.
  std::size_t distance(std::uintptr_t address) const {
    return address < begin           ? begin - address
           : address < begin + bytes ? 0
                                     : address - begin - bytes;
  }
  bool has(std::uintptr_t address, std::size_t size) const {
    return address - begin < bytes && size <= bytes - (address - begin);
  }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(Cell* cells) const;
  };
  using Cells = std::unique_ptr<Cell[], Unmap>;
  void prepare_cells(std::size_t offset_or_size);
  Cells make_cells(int granule_log2) const;
  Cells cells_;                        // zero pages until touched
  static constexpr int kCoarsest = 2;  // granules of 4 bytes
  int granule_log2_ = kCoarsest;
  std::size_t granule_mask_ = ~std::size_t{0};  // all ones until there are cells
};

// Global memory. All of it lies in one range of addresses, the arena, which holds nothing else.
// Only the allocations in the arena are mapped.
class GlobalMemory {
 public:
  // Null when the limit is reached or the host has no memory left.
  void* allocate(std::size_t bytes);
  // False when `pointer` is not the start of a live allocation.
  bool free(void* pointer);
  // Releases freed allocations if nothing is allocated.
  void release_if_idle();

  // True if the address is in the arena.
  bool owns(std::uintptr_t address) const { return address - arena_ < kArenaBytes; }
  // The allocation, live or freed lately, whose chunk of the arena holds the address, red zones
  // included; null if there is none.
  Region* find(std::uintptr_t address) { return chunk_owner_[(address - arena_) / kChunkBytes]; }
  // The allocation that holds [pointer, pointer + bytes), or null.
  Region* find_range(const void* pointer, std::size_t bytes);
  // The live allocation that is nearest to the address; null if there is none.
  const Region* nearest(std::uintptr_t address) const;

  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t in_use() const { return in_use_; }

 private:
  static constexpr std::size_t kArenaBytes = std::size_t{1} << 38;
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
  static constexpr std::size_t kChunks = kArenaBytes / kChunkBytes;
  static constexpr std::size_t kRedZoneBytes = 4096;
  static constexpr std::size_t kRememberedAfterFree = 4096;  // allocations
  // Until there is an arena no address is in it.
  static constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 63;
  using Regions = std::map<std::size_t, Region>;  // by their first chunk

  static std::size_t chunks_of(const Region& region);
  bool make_arena();
  bool map_chunks(std::size_t chunks, std::size_t& first);
  void set_owner(const Regions::value_type& region, Region* owner);
  void forget(Regions::iterator freed);

  std::uintptr_t arena_ = kNowhere;
  Region** chunk_owner_ = nullptr;  // the region of each chunk, null for none
  std::size_t next_chunk_ = 0;      // the search for room begins here
  Regions regions_;
  std::deque<std::size_t> freed_;  // first chunks, in the order of their end
  std::size_t limit_ = std::size_t{16} << 30;
  std::size_t in_use_ = 0;
};

// The shared memory of the block that runs: the thread-local memory that the module of the
// simulator and its kernels has on the host thread that launches.
class SharedMemory {
 public:
  // A launch with this dynamic shared memory begins on the calling host thread.
  void begin_launch(const SharedLayout& dynamic);
  Region& region() { return region_; }
  const Region& region() const { return region_; }

  // True if all bytes are inside one variable. explain_outside() says why they are not.
  bool inside_variable(std::uintptr_t address, std::size_t size) const;
  std::string explain_outside(std::uintptr_t address, std::size_t size) const;
  bool is_dynamic(std::uintptr_t address) const {
    return address - dynamic_begin_ < kMaxSharedBytes;
  }
  // True if the access lies wholly in the padding of the launch's storage.
  bool is_padding(std::uintptr_t address, std::size_t size) const;
  // The array at the address, or the nearest one before it: in the launch's storage, or a variable.
  struct Array {
    std::string name;
    std::uintptr_t begin;
  };
  Array array(std::uintptr_t address) const;
  // The layout with the names of the elements at the address. Null for a variable, for dynamic
  // memory whose launch passed only a size, and if lacks_layout().
  const StorageLayout* layout(std::uintptr_t address) const {
    if (!is_dynamic(address)) return nullptr;
    if (!layout_) layout_ = storage_layout(dynamic_);
    return *layout_;
  }
  // True if the address is in a storage that the debug information does not describe.
  bool lacks_layout(std::uintptr_t address) const {
    return is_dynamic(address) && dynamic_.storage_type != nullptr && layout(address) == nullptr;
  }
  std::size_t dynamic_offset(std::uintptr_t address) const { return address - dynamic_begin_; }

 private:
  struct Variable {
    std::string name;
    std::size_t offset;  // within the region
    std::size_t bytes;
    bool holds(std::size_t byte) const { return byte - offset < bytes; }
  };
  void find_region();
  void find_variables() const;
  // The variable that holds the byte of the region, or the nearest one; null if none is known.
  const Variable* variable_near(std::size_t offset) const;

  Region region_;
  std::uintptr_t code_ = 0;                                 // an address inside the module
  mutable std::optional<std::vector<Variable>> variables_;  // by offset; read on first use
  std::uintptr_t dynamic_begin_ = 0;
  SharedLayout dynamic_;
  mutable std::optional<const StorageLayout*> layout_;  // of dynamic_, once it was requested
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MEMORY_H_
