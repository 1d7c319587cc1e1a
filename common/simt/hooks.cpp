// The calls of a running thread into the simulator: the compiler's hooks before every access, and
// CUDA's barriers, warp-wide operations and atomics. This file is compiled without the hooks.
//
// g++ puts a call of __tsan_readN(address) before every read of N bytes, and likewise for writes
// (-fsanitize=thread). No sanitizer is linked; this file defines the functions.
#include <device/ptx/red.h>

#include "device/missing_page.h"
#include "device/tile_mark.h"
#include "simt/access_check.h"

namespace cuflash::simt {
namespace {

__attribute__((always_inline)) inline void note_access(const volatile void* pointer,
                                                       std::size_t size, AccessKind kind,
                                                       const void* return_address) {
  const std::size_t stack = StackPool::index_of(as_address(__builtin_frame_address(0)));
  if (stack >= StackPool::kMaxStacks) return;  // called by host code
  const std::uintptr_t address = as_address(pointer);
  if (StackPool::index_of(address) == stack) {  // a local variable
    if (core.warpgroups.products_in_use()) {
      on_register_access(core.thread(stack), address, size, kind, as_address(return_address));
    }
    return;
  }
  if (core.recorder.on()) core.log_access(stack, address, size, kind, as_address(return_address));
  core.on_access(stack, address, size, kind, as_address(return_address));
}

// Notes a copy of any size as accesses of the largest aligned pieces.
void note_range(const void* pointer, std::size_t size, AccessKind kind, const void* from) {
  const char* const begin = static_cast<const char*>(pointer);
  for (std::size_t done = 0; done < size;) {
    std::size_t piece = 16;
    while ((as_address(begin + done) & (piece - 1)) != 0 || piece > size - done) piece /= 2;
    note_access(begin + done, piece, kind, from);
    done += piece;
  }
}

int barrier(bool vote, const void* return_address) {
  return core.barrier(*running_thread(), vote, as_address(return_address));
}

}  // namespace

std::uint64_t warp_call(const WarpCall& call) {
  return core.warp_calls.call(*running_thread(), call, as_address(__builtin_return_address(0)));
}

unsigned active_lanes() { return core.active_lanes(running_thread()->warp()); }

namespace {
unsigned along(int axis, unsigned x, unsigned y, unsigned z) {
  return axis == 0 ? x : axis == 1 ? y : z;
}
unsigned along(int axis, const uint3& v) { return along(axis, v.x, v.y, v.z); }
unsigned along(int axis, const dim3& v) { return along(axis, v.x, v.y, v.z); }
}  // namespace

unsigned thread_id(int axis) noexcept { return along(axis, running_thread()->id); }
unsigned block_id(int axis) noexcept { return along(axis, core.block_index()); }
unsigned block_extent(int axis) noexcept { return along(axis, core.launch()->block); }
unsigned grid_extent(int axis) noexcept { return along(axis, core.launch()->grid); }
int lane_id() noexcept { return running_thread()->lane(); }

void add_four(float* address, const float (&x)[4]) {
  note_access(address, sizeof(x), AccessKind::kAtomic, __builtin_return_address(0));
  for (int e = 0; e < 4; ++e) address[e] += x[e];
}

}  // namespace cuflash::simt

void cuflash::mark_tile(const char* name, int number) {
  simt::Thread* const self = simt::running_thread();
  if (self != nullptr) simt::core.mark_tile(*self, name, number);
}

void cuflash::note_missing_page(int key, int page) {
  simt::report_block(simt::Report::kMissingPage,
                     reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)),
                     "  Key " + std::to_string(key) + " lies in page " + std::to_string(page) +
                         ", which does not exist. The rows that see it become NaN.\n");
}

using cuflash::simt::AccessKind;
using cuflash::simt::barrier;
using cuflash::simt::core;
using cuflash::simt::note_access;
using cuflash::simt::note_range;
using cuflash::simt::running_thread;

void __syncthreads() { (void)barrier(false, __builtin_return_address(0)); }
int __syncthreads_count(int yes) { return barrier(yes != 0, __builtin_return_address(0)); }
int __syncthreads_or(int yes) { return barrier(yes != 0, __builtin_return_address(0)) != 0; }
int __syncthreads_and(int yes) { return barrier(yes == 0, __builtin_return_address(0)) == 0; }

void __threadfence() { core.order.fence(*running_thread(), false); }
void __threadfence_block() { core.order.fence(*running_thread(), true); }

#define CUFLASH_ATOMIC(name, type, update)                                                \
  type name(type* address, type value) {                                                  \
    note_access(address, sizeof(type), AccessKind::kAtomic, __builtin_return_address(0)); \
    const type old = *address;                                                            \
    *address = update;                                                                    \
    return old;                                                                           \
  }
CUFLASH_ATOMIC(atomicAdd, int, old + value)
CUFLASH_ATOMIC(atomicAdd, unsigned, old + value)
CUFLASH_ATOMIC(atomicAdd, unsigned long long, old + value)
CUFLASH_ATOMIC(atomicAdd, float, old + value)
CUFLASH_ATOMIC(atomicAdd, double, old + value)
CUFLASH_ATOMIC(atomicSub, int, old - value)
CUFLASH_ATOMIC(atomicSub, unsigned, old - value)
CUFLASH_ATOMIC(atomicMax, int, old < value ? value : old)
CUFLASH_ATOMIC(atomicMax, unsigned, old < value ? value : old)
CUFLASH_ATOMIC(atomicMax, long long, old < value ? value : old)
CUFLASH_ATOMIC(atomicMax, unsigned long long, old < value ? value : old)
CUFLASH_ATOMIC(atomicMin, int, value < old ? value : old)
CUFLASH_ATOMIC(atomicMin, unsigned, value < old ? value : old)
CUFLASH_ATOMIC(atomicMin, long long, value < old ? value : old)
CUFLASH_ATOMIC(atomicMin, unsigned long long, value < old ? value : old)
CUFLASH_ATOMIC(atomicExch, int, value)
CUFLASH_ATOMIC(atomicExch, unsigned, value)
CUFLASH_ATOMIC(atomicExch, unsigned long long, value)
CUFLASH_ATOMIC(atomicExch, float, value)
CUFLASH_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUFLASH_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
CUFLASH_ATOMIC(atomicAnd, int, (old & value))
CUFLASH_ATOMIC(atomicAnd, unsigned, (old & value))
CUFLASH_ATOMIC(atomicAnd, unsigned long long, (old & value))
CUFLASH_ATOMIC(atomicOr, int, old | value)
CUFLASH_ATOMIC(atomicOr, unsigned, old | value)
CUFLASH_ATOMIC(atomicOr, unsigned long long, old | value)
CUFLASH_ATOMIC(atomicXor, int, old ^ value)
CUFLASH_ATOMIC(atomicXor, unsigned, old ^ value)
CUFLASH_ATOMIC(atomicXor, unsigned long long, old ^ value)
#undef CUFLASH_ATOMIC

#define CUFLASH_ATOMIC_CAS(type)                                                          \
  type atomicCAS(type* address, type expected, type value) {                              \
    note_access(address, sizeof(type), AccessKind::kAtomic, __builtin_return_address(0)); \
    const type old = *address;                                                            \
    if (old == expected) *address = value;                                                \
    return old;                                                                           \
  }
CUFLASH_ATOMIC_CAS(int)
CUFLASH_ATOMIC_CAS(unsigned)
CUFLASH_ATOMIC_CAS(unsigned long long)
#undef CUFLASH_ATOMIC_CAS

extern "C" {

void __tsan_init() {}

#define CUFLASH_HOOKS(bytes)                                                      \
  void __tsan_read##bytes(void* address) {                                        \
    note_access(address, bytes, AccessKind::kRead, __builtin_return_address(0));  \
  }                                                                               \
  void __tsan_write##bytes(void* address) {                                       \
    note_access(address, bytes, AccessKind::kWrite, __builtin_return_address(0)); \
  }
CUFLASH_HOOKS(1)
CUFLASH_HOOKS(2)
CUFLASH_HOOKS(4)
CUFLASH_HOOKS(8)
CUFLASH_HOOKS(16)
#undef CUFLASH_HOOKS

void __tsan_read_range(void* address, std::size_t bytes) {
  note_range(address, bytes, AccessKind::kRead, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  note_range(address, bytes, AccessKind::kWrite, __builtin_return_address(0));
}
void __tsan_vptr_update(void** address, void*) {
  note_access(address, 8, AccessKind::kWrite, __builtin_return_address(0));
}
void __tsan_vptr_read(void** address) {
  note_access(address, 8, AccessKind::kRead, __builtin_return_address(0));
}

// Host code in an instrumented file may use std::atomic or a static local, whose operations the
// hook must execute itself.
#define CUFLASH_ATOMIC_HOOKS(bits, type)                                                          \
  type __tsan_atomic##bits##_load(const volatile type* a, int) {                                  \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile type* a, type v, int) {                               \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                               \
  type __tsan_atomic##bits##_exchange(volatile type* a, type v, int) {                            \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                               \
  type __tsan_atomic##bits##_fetch_add(volatile type* a, type v, int) {                           \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                               \
  type __tsan_atomic##bits##_fetch_sub(volatile type* a, type v, int) {                           \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                               \
  type __tsan_atomic##bits##_fetch_and(volatile type* a, type v, int) {                           \
    return __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                               \
  type __tsan_atomic##bits##_fetch_or(volatile type* a, type v, int) {                            \
    return __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                               \
  type __tsan_atomic##bits##_fetch_xor(volatile type* a, type v, int) {                           \
    return __atomic_fetch_xor(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                               \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile type* a, type* e, type v, int,      \
                                                     int) {                                       \
    return __atomic_compare_exchange_n(a, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
  }                                                                                               \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile type* a, type* e, type v, int, int) { \
    return __atomic_compare_exchange_n(a, e, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }
CUFLASH_ATOMIC_HOOKS(8, std::uint8_t)
CUFLASH_ATOMIC_HOOKS(16, std::uint16_t)
CUFLASH_ATOMIC_HOOKS(32, std::uint32_t)
CUFLASH_ATOMIC_HOOKS(64, std::uint64_t)
#undef CUFLASH_ATOMIC_HOOKS
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
