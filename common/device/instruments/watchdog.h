// A watchdog for waits at barriers, in builds with CUFLASH_WATCHDOG: a thread that has waited for
// two seconds describes its wait in host memory and ends the kernel with an error. The program
// prints the description when it exits.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_WATCHDOG_H_
#define CUFLASH_DEVICE_INSTRUMENTS_WATCHDOG_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace cuflash::watchdog {

constexpr std::uint64_t kPatience = 2'000'000'000;  // nanoseconds

// A wait that took too long.
struct Record {
  unsigned claimed, complete;  // 1 if a thread has begun, and finished, to write the record
  unsigned block[3], thread;   // threadIdx.x
  unsigned barrier, parity;
  // The shared memory around the barrier, likely to hold its neighbours: the first address.
  unsigned first, num_words;
  unsigned long long words[17];
};

// ---- Host code ----------------------------------------------------------------------------------

// The pointers to the record in device memory. Each file with kernels has its own.
inline std::vector<const void*>& pointers() {
  static std::vector<const void*> all;
  return all;
}
inline bool add_pointer(const void* symbol) {
  pointers().push_back(symbol);
  return true;
}

// The one record. It stays readable after a kernel has failed.
inline Record& record() {
  static Record* const pinned = [] {
    Record* made = nullptr;
    if (cudaHostAlloc(&made, sizeof(Record), cudaHostAllocPortable) != cudaSuccess) std::abort();
    *made = {};
    return made;
  }();
  return *pinned;
}

// The text of the record; empty if no wait has taken too long.
inline std::string report() {
  const Record& r = record();
  if (r.complete == 0) return "";
  char line[160];
  std::snprintf(line, sizeof line,
                "WATCHDOG: block (%u,%u,%u), thread %u waited too long for the phase of parity %u "
                "of the barrier at 0x%x.\n",
                r.block[0], r.block[1], r.block[2], r.thread, r.parity, r.barrier);
  std::string text = line;
  for (unsigned n = 0; n < r.num_words; ++n) {
    const unsigned address = r.first + 8 * n;
    std::snprintf(line, sizeof line, "  0x%05x  %016llx%s\n", address, r.words[n],
                  address == r.barrier ? "  the barrier" : "");
    text += line;
  }
  return text;
}

// Gives the kernels of all files the address of the record. Must precede each launch.
inline void arm() {
  static const bool armed = [] {
    Record* const r = &record();
    for (const void* pointer : pointers()) {
      if (cudaMemcpyToSymbol(pointer, &r, sizeof r) != cudaSuccess) std::abort();
    }
    std::atexit([] { std::fputs(report().c_str(), stderr); });
    return true;
  }();
  static_cast<void>(armed);
}

// ---- Kernels ------------------------------------------------------------------------------------

static __device__ Record* record_of_file;
static const bool kPointerIsKnown = add_pointer(&record_of_file);

__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The size of the block's shared memory, from address 0 on.
__device__ __forceinline__ unsigned shared_bytes() {
  unsigned bytes;
  asm("mov.u32 %0, %%aggr_smem_size;" : "=r"(bytes));
  return bytes;
}

// Describes the wait for a barrier and ends the kernel. Only the first thread to call it does so.
__device__ __forceinline__ void give_up(unsigned barrier, unsigned parity) {
  Record& r = *record_of_file;
  if (atomicExch_system(&r.claimed, 1u) != 0) return;
  constexpr unsigned kBefore = 8 * 8;
  r.block[0] = blockIdx.x, r.block[1] = blockIdx.y, r.block[2] = blockIdx.z;
  r.thread = threadIdx.x;
  r.barrier = barrier, r.parity = parity;
  r.first = barrier - kBefore;
  unsigned n = 0;
#pragma unroll 1
  for (unsigned at = r.first; n < sizeof r.words / 8 && at + 8 <= shared_bytes(); at += 8) {
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(r.words[n++]) : "r"(at) : "memory");
  }
  r.num_words = n;
  __threadfence_system();
  *const_cast<volatile unsigned*>(&r.complete) = 1;
  __threadfence_system();
  __trap();
}

// The deadline of a wait, set by its first check.
class Patience {
 public:
  // Called while the wait continues.
  __device__ __forceinline__ void check(unsigned barrier, unsigned parity) {
    const std::uint64_t now = nanoseconds();
    if (end_ == 0) end_ = now + kPatience;
    if (now > end_) give_up(barrier, parity);
  }

 private:
  std::uint64_t end_ = 0;
};

}  // namespace cuflash::watchdog

#endif  // CUFLASH_DEVICE_INSTRUMENTS_WATCHDOG_H_
