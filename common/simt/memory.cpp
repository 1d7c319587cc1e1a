#include "simt/memory.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "simt/debug_info.h"

namespace cuflash {

__shared__ __align__(kSharedAlignment) unsigned char shared_memory[simt::kMaxSharedBytes];

}  // namespace cuflash

namespace cuflash::simt {
namespace {

// Zeroed pages, allocated on first touch; null if the host has no memory.
void* map_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

void Region::Unmap::operator()(Cell* cells) const { munmap(cells, bytes); }

Region::Cells Region::make_cells(int granule_log2) const {
  const std::size_t cell_bytes = ((bytes >> granule_log2) + 2) * sizeof(Cell);
  void* const memory = map_pages(cell_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return Cells(static_cast<Cell*>(memory), Unmap{cell_bytes});
}

// Makes cells if there are none, or splits existing ones so that an access at this offset and of
// this size covers whole granules.
void Region::prepare_cells(std::size_t offset_or_size) {
  const int granule_log2 = std::min(granule_log2_, __builtin_ctzll(offset_or_size));
  Cells fine = make_cells(granule_log2);
  const std::size_t coarse_count = cells_ == nullptr ? 0 : (bytes >> granule_log2_) + 1;
  const int ratio_log2 = granule_log2_ - granule_log2;
  for (std::size_t i = 0; i < coarse_count; ++i) {
    const Cell& cell = cells_[i];
    if (cell.write == 0 && cell.read == 0) continue;
    for (std::size_t k = i << ratio_log2; k < (i + 1) << ratio_log2; ++k) {
      if (k << granule_log2 < bytes) fine[k] = cell;
    }
  }
  cells_ = std::move(fine);
  granule_log2_ = granule_log2;
  granule_mask_ = (std::size_t{1} << granule_log2) - 1;
}

void Region::host_write(std::uintptr_t address, std::size_t size) {
  if (size == 0 || initialised) return;
  if (address == begin && size == bytes) {
    initialised = true;
    return;
  }
  for (Cell& cell : cells(address, size)) cell = {kHostStamp, 0, 0};
}

std::size_t GlobalMemory::chunks_of(const Region& region) {
  return (region.bytes + 2 * kRedZoneBytes + kChunkBytes - 1) / kChunkBytes;
}

// A second simulator in the process, in another library, most likely has another arena. All arenas
// lie at addresses that the operating system does not choose itself.
bool GlobalMemory::make_arena() {
  if (arena_ != kNowhere) return true;
  chunk_owner_ = static_cast<Region**>(map_pages(kChunks * sizeof(Region*)));
  if (chunk_owner_ == nullptr) return false;
  constexpr std::uintptr_t kFirstArena = 0x2000'0000'0000, kArenas = 64;
  arena_ = kFirstArena + as_address(this) / 4096 % kArenas * kArenaBytes;
  return true;
}

// Maps the first free chunks after next_chunk_, then from the beginning of the arena. Addresses are
// thus reused as late as possible, so that an access after free is detected.
bool GlobalMemory::map_chunks(std::size_t chunks, std::size_t& first) {
  bool wrapped = false;
  for (first = next_chunk_;;) {
    if (first + chunks > kChunks) {
      if (wrapped || chunks > kChunks) return false;
      wrapped = true;
      first = 0;
    }
    // Release freed allocations here, and skip live ones.
    auto at = regions_.upper_bound(first);
    if (at != regions_.begin()) --at;
    std::size_t occupied = 0;  // up to this chunk
    while (at != regions_.end() && at->first < first + chunks) {
      const auto region = at++;
      const std::size_t end = region->first + chunks_of(region->second);
      if (end <= first) continue;
      if (region->second.freed) {
        forget(region);
      } else {
        occupied = end;
      }
    }
    if (occupied != 0) {
      first = occupied;
      continue;
    }
    void* const wanted = reinterpret_cast<void*>(arena_ + first * kChunkBytes);
    const std::size_t bytes = chunks * kChunkBytes;
    void* const got =
        mmap(wanted, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) return true;
    if (got == MAP_FAILED && errno != EEXIST) return false;
    if (got != MAP_FAILED) munmap(got, bytes);  // an older Linux ignored the flag
    first += chunks;
  }
}

void GlobalMemory::set_owner(const Regions::value_type& region, Region* owner) {
  std::fill_n(chunk_owner_ + region.first, chunks_of(region.second), owner);
}

void GlobalMemory::forget(Regions::iterator freed) {
  set_owner(*freed, nullptr);
  regions_.erase(freed);
}

void* GlobalMemory::allocate(std::size_t bytes) {
  if (bytes > limit_ - std::min(limit_, in_use_) || !make_arena()) return nullptr;
  Region region;
  region.bytes = bytes;
  const std::size_t chunks = chunks_of(region);
  std::size_t first = 0;
  if (!map_chunks(chunks, first)) return nullptr;
  region.begin = arena_ + first * kChunkBytes + kRedZoneBytes;
  const auto entry = regions_.emplace(first, std::move(region)).first;
  set_owner(*entry, &entry->second);
  next_chunk_ = first + chunks;
  in_use_ += bytes;
  return reinterpret_cast<void*>(entry->second.begin);
}

bool GlobalMemory::free(void* pointer) {
  Region* region = find_range(pointer, 0);
  if (region == nullptr || region->begin != as_address(pointer)) return false;
  region->freed = true;
  region->drop_cells();
  in_use_ -= region->bytes;
  munmap(reinterpret_cast<void*>(region->begin - kRedZoneBytes), chunks_of(*region) * kChunkBytes);
  freed_.push_back((region->begin - arena_) / kChunkBytes);
  if (freed_.size() > kRememberedAfterFree) {
    const auto oldest = regions_.find(freed_.front());
    if (oldest != regions_.end() && oldest->second.freed) forget(oldest);
    freed_.pop_front();
  }
  return true;
}

void GlobalMemory::release_if_idle() {
  if (arena_ == kNowhere || in_use_ != 0) return;
  munmap(chunk_owner_, kChunks * sizeof(Region*));
  arena_ = kNowhere;
  next_chunk_ = 0;
  regions_.clear();
  freed_.clear();
}

Region* GlobalMemory::find_range(const void* pointer, std::size_t bytes) {
  const auto address = as_address(pointer);
  if (!owns(address)) return nullptr;
  Region* region = find(address);
  if (region == nullptr || region->freed) return nullptr;
  if (address < region->begin || address - region->begin > region->bytes) return nullptr;
  return bytes <= region->bytes - (address - region->begin) ? region : nullptr;
}

const Region* GlobalMemory::nearest(std::uintptr_t address) const {
  const Region* nearest = nullptr;
  for (const auto& [first_chunk, region] : regions_) {
    if (region.freed) continue;
    if (nearest == nullptr || region.distance(address) < nearest->distance(address)) {
      nearest = &region;
    }
  }
  return nearest;
}

void SharedMemory::begin_launch(const SharedLayout& dynamic) {
  dynamic_ = dynamic;
  layout_.reset();
  // Each host thread has its own.
  if (const auto begin = as_address(shared_memory); begin != dynamic_begin_) {
    dynamic_begin_ = begin;
    region_.drop_cells();
    find_region();
  }
  // Fine cells of one kernel would slow down the next.
  if (region_.has_fine_cells()) region_.drop_cells();
}

// Finds the module whose thread-local memory holds shared_memory.
void SharedMemory::find_region() {
  const auto visit = [](dl_phdr_info* info, std::size_t, void* shared_memory_object) {
    auto& self = *static_cast<SharedMemory*>(shared_memory_object);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info->dlpi_phdr[i];
      const auto begin = as_address(info->dlpi_tls_data);
      if (header.p_type != PT_TLS || self.dynamic_begin_ - begin >= header.p_memsz) continue;
      self.region_.begin = begin;
      self.region_.bytes = header.p_memsz;
      self.region_.shared = true;
      self.code_ = as_address(info->dlpi_phdr);
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, this);
}

void SharedMemory::find_variables() const {
  if (variables_) return;
  variables_.emplace();
  for (const SharedSymbol& symbol : shared_symbols(code_)) {
    variables_->push_back({symbol.name, symbol.offset, symbol.bytes});
  }
  std::sort(variables_->begin(), variables_->end(),
            [](const Variable& a, const Variable& b) { return a.offset < b.offset; });
}

const SharedMemory::Variable* SharedMemory::variable_near(std::size_t offset) const {
  find_variables();
  if (variables_->empty()) return nullptr;
  const auto after =
      std::upper_bound(variables_->begin(), variables_->end(), offset,
                       [](std::size_t wanted, const Variable& v) { return wanted < v.offset; });
  const auto before = after == variables_->begin() ? after : after - 1;
  const bool take_next = after != variables_->end() && offset >= before->offset + before->bytes &&
                         after->offset - offset < offset - before->offset - before->bytes;
  return take_next ? &*after : &*before;
}

bool SharedMemory::is_padding(std::uintptr_t address, std::size_t size) const {
  const StorageLayout* const storage = layout(address);
  return storage != nullptr && storage->is_padding(dynamic_offset(address), size);
}

bool SharedMemory::inside_variable(std::uintptr_t address, std::size_t size) const {
  if (is_dynamic(address)) {
    return address + size <= dynamic_begin_ + dynamic_.bytes && !is_padding(address, size);
  }
  const std::size_t offset = address - region_.begin;
  const Variable* const variable = variable_near(offset);
  // A stripped module has no symbols; then every address counts as inside.
  return variable == nullptr || (variable->holds(offset) && variable->holds(offset + size - 1));
}

std::string SharedMemory::explain_outside(std::uintptr_t address, std::size_t size) const {
  if (!is_dynamic(address)) {
    const std::size_t offset = address - region_.begin;
    const Variable& variable = *variable_near(offset);
    if (!variable.holds(offset)) {
      return "It lies between two __shared__ variables.";
    }
    return "It reaches " + std::to_string(offset + size - variable.offset - variable.bytes) +
           " bytes past the end of " + variable.name + ", which has " +
           std::to_string(variable.bytes) + " bytes.";
  }
  if (is_padding(address, size)) {
    return "It lies in the padding between the arrays of dynamic shared memory.";
  }
  return "It reaches " + std::to_string(address + size - dynamic_begin_ - dynamic_.bytes) +
         " bytes past the end of the " + std::to_string(dynamic_.bytes) +
         " bytes of dynamic shared memory that the launch requested.";
}

SharedMemory::Array SharedMemory::array(std::uintptr_t address) const {
  if (const StorageLayout* const storage = layout(address); storage != nullptr) {
    const std::size_t offset = dynamic_offset(address);
    return {storage->array_name(offset), dynamic_begin_ + storage->array_begin(offset)};
  }
  if (is_dynamic(address)) return {"shared_memory", dynamic_begin_};
  const Variable* const variable = variable_near(address - region_.begin);
  if (variable == nullptr) return {"shared memory", region_.begin};
  return {variable->name, region_.begin + variable->offset};
}

}  // namespace cuflash::simt
