// The places in the source that access memory, numbered.
#ifndef CUFLASH_SIMT_ACCESS_SITES_H_
#define CUFLASH_SIMT_ACCESS_SITES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "simt/debug_info.h"
#include "simt/finding.h"

namespace cuflash::simt {

// One place in the source that accesses memory. The compiler's copies of it, in an unrolled loop
// for instance, are one site.
struct Site {
  SourcePlace place;
  AccessKind kind;
  std::uint8_t size;        // bytes
  std::uint8_t element;     // bytes of an element; 0 where only the vector of several is known
  bool of_tma = false;      // an access by the copy unit to global memory
  bool of_product = false;  // a read by a product of a warpgroup
};

// Numbers the sites. Site 0 stands for all that do not fit into 16 bits.
class Sites {
 public:
  // The site of accesses in the standard library. The simulator uses std::vector on the threads'
  // stacks, and the linker may keep the copy of its functions that was compiled with hooks, in a
  // kernel's file.
  static constexpr std::uint16_t kForeign = 1;

  std::uint16_t id(std::uintptr_t return_address, AccessKind kind, std::size_t size) {
    return id(return_address, kind, size, size <= 4 ? size : 0);
  }
  std::uint16_t id(std::uintptr_t return_address, AccessKind kind, std::size_t size,
                   std::size_t element) {
    const std::uint16_t known = known_id(return_address, kind, size);
    return known != 0 ? known : look_up(return_address, kind, size, element);
  }
  // The site's number if it is found without a search; otherwise 0.
  std::uint16_t known_id(std::uintptr_t return_address, AccessKind kind, std::size_t size) const {
    const Cached& cached = cache_[slot(return_address, kind, size)];
    return cached.address == return_address && cached.access == access(kind, size) ? cached.id : 0;
  }
  const Site& operator[](int id) const { return sites_[id]; }
  void mark_as_tma(std::uint16_t id) { sites_[id].of_tma = true; }
  void mark_as_product(std::uint16_t id) { sites_[id].of_product = true; }
  std::size_t count() const { return sites_.size(); }
  // The place of each site in the order of the source.
  const std::vector<std::uint32_t>& ranks() const;

 private:
  static constexpr std::size_t kCacheSize = 16384;
  struct Cached {
    std::uintptr_t address = 0;
    std::uint16_t access = 0;  // kind and size
    std::uint16_t id = 0;
  };
  // One instruction may make accesses of two kinds: an asynchronous copy reads and writes.
  static constexpr std::uint16_t access(AccessKind kind, std::size_t size) {
    return static_cast<std::uint16_t>(size | static_cast<std::size_t>(kind) << 5);
  }
  static constexpr std::size_t slot(std::uintptr_t return_address, AccessKind kind,
                                    std::size_t size) {
    return (return_address ^ std::uintptr_t{access(kind, size)} << 7) % kCacheSize;
  }
  std::uint16_t look_up(std::uintptr_t return_address, AccessKind kind, std::size_t size,
                        std::size_t element);
  Cached cache_[kCacheSize];
  std::vector<Site> sites_ = std::vector<Site>(2, Site{{}, AccessKind::kRead, 0, 0});
  std::unordered_map<std::string, std::uint16_t> ids_;  // by chain, kind and size
  mutable std::vector<std::uint32_t> ranks_;            // recomputed when there are more sites
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ACCESS_SITES_H_
