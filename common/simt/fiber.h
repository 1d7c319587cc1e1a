// Fibers: one stack for each CUDA thread of the running block, and the switch between them.
#ifndef CUFLASH_SIMT_FIBER_H_
#define CUFLASH_SIMT_FIBER_H_

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

namespace cuflash::simt {

// The stacks of a block's threads, made once and used again for every block. Each ends in a guard
// page, so that a kernel which overflows its stack stops at once.
class StackPool {
 public:
  static constexpr std::size_t kStackBytes = 256 * 1024;
  static constexpr int kMaxStacks = 1024;

  StackPool();
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Lowest usable address of stack i; the stack is kUsableBytes long.
  std::uintptr_t base(int i) const;
  static constexpr std::size_t kGuardBytes = 4096;
  static constexpr std::size_t kUsableBytes = kStackBytes - kGuardBytes;

 private:
  char* memory_;
};

// One side of a switch. A fiber that is never resumed again is simply forgotten: its stack is the
// pool's.
class Fiber {
 public:
  // Prepares `entry` to run on the given stack. Stacks are entered 64 bytes apart, so that the
  // frames of neighbouring threads do not fall into the same cache sets.
  void prepare(std::uintptr_t stack_base, int index, void (*entry)(void* argument));
  // Runs the fiber until it calls suspend(). `argument` reaches entry() the first time.
  void resume(void* argument);
  // Goes back to the caller of resume().
  void suspend();

 private:
  static void start(boost::context::detail::transfer_t transfer);
  boost::context::detail::fcontext_t inside_ = nullptr;   // where the fiber goes on
  boost::context::detail::fcontext_t outside_ = nullptr;  // where its resumer goes on
  void (*entry_)(void*) = nullptr;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FIBER_H_
