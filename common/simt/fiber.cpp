#include "simt/fiber.h"

#include <sys/mman.h>

#include <new>

namespace cuflash::simt {

namespace context = boost::context::detail;

namespace {
// What the first switch into a fiber carries.
struct Start {
  Fiber* fiber;
  void* argument;
};
}  // namespace

StackPool::StackPool() {
  void* memory = mmap(nullptr, kStackBytes * kMaxStacks, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  for (int i = 0; i < kMaxStacks; ++i) mprotect(memory_ + i * kStackBytes, kGuardBytes, PROT_NONE);
}

StackPool::~StackPool() { munmap(memory_, kStackBytes * kMaxStacks); }

std::uintptr_t StackPool::base(int i) const {
  return reinterpret_cast<std::uintptr_t>(memory_) + i * kStackBytes + kGuardBytes;
}

void Fiber::prepare(std::uintptr_t stack_base, int index, void (*entry)(void*)) {
  const std::size_t shift = 64 * static_cast<std::size_t>(index % 64);
  const std::uintptr_t top = stack_base + StackPool::kUsableBytes - shift;
  entry_ = entry;
  inside_ = context::make_fcontext(reinterpret_cast<void*>(top), StackPool::kUsableBytes - shift,
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
