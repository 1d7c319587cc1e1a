#include "simt/fiber.h"

#include <sys/mman.h>

#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes)
#endif

namespace cuflash::simt {

namespace context = boost::context::detail;

namespace {
// The arguments of the first switch into a fiber.
struct Start {
  Fiber* fiber;
  void* argument;
};
}  // namespace

std::uintptr_t StackPool::begin_ = 0;

StackPool::StackPool() {
  void* memory = mmap(nullptr, kStackBytes * kMaxStacks, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  begin_ = reinterpret_cast<std::uintptr_t>(memory);
  for (std::size_t i = 0; i < kMaxStacks; ++i) {
    mprotect(static_cast<char*>(memory) + i * kStackBytes, kGuardBytes, PROT_NONE);
  }
}

StackPool::~StackPool() {
  munmap(reinterpret_cast<void*>(begin_), kStackBytes * kMaxStacks);
  begin_ = 0;
}

void Fiber::prepare(std::size_t index, void (*entry)(void*)) {
  // Stacks start 17 cache lines apart, so that they use all sets of the L1 and L2 caches.
  const std::size_t room = StackPool::kUsableBytes - 64 * (17 * index % 512);
  entry_ = entry;
  // An aborted launch leaves AddressSanitizer's marks of its frames.
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void*>(StackPool::base(index)), room);
  inside_ = context::make_fcontext(reinterpret_cast<void*>(StackPool::base(index) + room), room,
                                   &Fiber::start);
}

void Fiber::resume(void* argument) {
  Start start{this, argument};
  inside_ = context::jump_fcontext(inside_, &start).fctx;
}

void Fiber::suspend() { outside_ = context::jump_fcontext(outside_, nullptr).fctx; }

void Fiber::start(context::transfer_t transfer) {
  const Start start = *static_cast<Start*>(transfer.data);
  start.fiber->outside_ = transfer.fctx;
  start.fiber->entry_(start.argument);
  for (;;) start.fiber->suspend();
}

}  // namespace cuflash::simt
