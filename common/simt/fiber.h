// Fibers: one stack for each CUDA thread of the running block, and the switch between them.
#ifndef CUFLASH_SIMT_FIBER_H_
#define CUFLASH_SIMT_FIBER_H_

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

namespace cuflash::simt {

// The stacks of a block's threads, allocated once and reused for every block. Each ends in a guard
// page, so that a kernel that overflows its stack stops at once. There is one pool per process.
class StackPool {
 public:
  static constexpr std::size_t kStackBytes = 256 * 1024;
  static constexpr std::size_t kMaxStacks = 1024;
  static constexpr std::size_t kGuardBytes = 4096;
  static constexpr std::size_t kUsableBytes = kStackBytes - kGuardBytes;

  StackPool();
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Lowest usable address of stack i; the stack is kUsableBytes long.
  static std::uintptr_t base(std::size_t i) { return begin_ + i * kStackBytes + kGuardBytes; }
  // The stack that holds the address; kMaxStacks or more if none does.
  static std::size_t index_of(std::uintptr_t address) { return (address - begin_) / kStackBytes; }

 private:
  static std::uintptr_t begin_;  // 0 until there is a pool: then no address belongs to a stack
};

// A fiber. One that is never resumed needs no cleanup, because its stack belongs to the pool.
class Fiber {
 public:
  // Prepares `entry` to run on stack `index`. Each stack starts at a different offset, so that the
  // frames of the threads do not fall into the same cache sets.
  void prepare(std::size_t index, void (*entry)(void* argument));
  // Runs the fiber until it calls suspend(). `argument` reaches entry() the first time.
  void resume(void* argument);
  // Returns to the caller of resume().
  void suspend();

 private:
  static void start(boost::context::detail::transfer_t transfer);
  boost::context::detail::fcontext_t inside_ = nullptr;   // where the fiber goes on
  boost::context::detail::fcontext_t outside_ = nullptr;  // where its resumer goes on
  void (*entry_)(void*) = nullptr;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FIBER_H_
