// Memory with a guard on either side, which reveals an access outside it.
#ifndef CUFLASH_TESTS_UNIT_GUARDED_MEMORY_H_
#define CUFLASH_TESTS_UNIT_GUARDED_MEMORY_H_

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "harness/owners.h"

namespace cuflash {

using Bytes = std::vector<std::byte>;

inline constexpr std::byte kGuardByte{0xB7};

// Which end of the memory lies exactly at a guard.
enum class Flush { kEnd, kStart };

// Host memory between two protected pages: a read or a write outside it faults. If its size is not
// a multiple of a page, one end has a gap; a write into the gap is detected afterwards.
class GuardedHost {
 public:
  GuardedHost(Bytes content, std::size_t alignment, Flush flush) : before_(std::move(content)) {
    static const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (before_.size() + page - 1) / page * page;
    mapped_ = inside_ + 2 * page;
    void* map = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    map_ = static_cast<std::byte*>(map);
    begin_ = map_ + page;
    const std::size_t gap = inside_ - before_.size();
    data_ = begin_ + (flush == Flush::kEnd ? gap / alignment * alignment : 0);
    if (inside_ == 0) return;
    if (mprotect(begin_, inside_, PROT_READ | PROT_WRITE) != 0) {
      munmap(map_, mapped_);
      throw std::bad_alloc();
    }
    std::memset(begin_, static_cast<int>(kGuardByte), inside_);
    std::copy(before_.begin(), before_.end(), data_);
  }
  GuardedHost(const GuardedHost&) = delete;
  GuardedHost& operator=(const GuardedHost&) = delete;
  ~GuardedHost() { munmap(map_, mapped_); }

  std::byte* data() const { return data_; }
  const Bytes& before() const { return before_; }
  Bytes now() const { return Bytes(data_, data_ + before_.size()); }
  bool guards_intact() const {
    const auto intact = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(begin_, data_, intact) &&
           std::all_of(data_ + before_.size(), begin_ + inside_, intact);
  }

 private:
  Bytes before_;
  std::size_t inside_ = 0, mapped_ = 0;  // bytes between the two pages, and including them
  std::byte *map_ = nullptr, *begin_ = nullptr, *data_ = nullptr;
};

// Device memory with guard bytes on both sides: a write into them is detected afterwards.
class GuardedOnGpu {
 public:
  GuardedOnGpu(Bytes content, std::size_t, Flush)
      : before_(std::move(content)), buffer_(before_.size() + 2 * kGuard) {
    Bytes all(buffer_.bytes(), kGuardByte);
    std::copy(before_.begin(), before_.end(), all.begin() + kGuard);
    harness::check(cudaMemcpy(buffer_.data(), all.data(), all.size(), cudaMemcpyHostToDevice),
                   "cudaMemcpy to the device");
  }

  std::byte* data() const { return buffer_.data() + kGuard; }
  const Bytes& before() const { return before_; }
  Bytes now() const {
    const Bytes all = everything();
    return Bytes(all.begin() + kGuard, all.end() - kGuard);
  }
  bool guards_intact() const {
    const Bytes all = everything();
    const auto intact = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(all.begin(), all.begin() + kGuard, intact) &&
           std::all_of(all.end() - kGuard, all.end(), intact);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 256;  // preserves cudaMalloc's alignment

  Bytes everything() const {
    Bytes all(buffer_.bytes());
    harness::check(cudaMemcpy(all.data(), buffer_.data(), all.size(), cudaMemcpyDeviceToHost),
                   "cudaMemcpy to the host");
    return all;
  }

  Bytes before_;
  harness::DeviceBuffer buffer_;
};

// The CPU simulator's device memory may be any host memory.
using GuardedDevice = std::conditional_t<simt::kSimulated, GuardedHost, GuardedOnGpu>;

}  // namespace cuflash

#endif  // CUFLASH_TESTS_UNIT_GUARDED_MEMORY_H_
