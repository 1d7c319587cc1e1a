// The warpgroups of the running block: operations that all 128 threads must reach, and the
// distribution of registers (setmaxnreg).
#ifndef CUFLASH_SIMT_WARPGROUP_H_
#define CUFLASH_SIMT_WARPGROUP_H_

#include <device/ptx/wgmma.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simt/memory.h"
#include "simt/wgmma.h"

namespace cuflash::simt {

// A thread's arguments of an operation of its warpgroup.
struct WarpgroupCall {
  enum class Kind { kFence, kProduct, kCommit, kWait, kSetRegisters };
  Kind kind;
  std::size_t pending = 0;        // of a wait
  ProductOperands operands = {};  // of a product
  int registers = 0;              // of setmaxnreg, per thread
};

struct Warpgroup {
  int first_thread;
  Products products;
  int registers;    // per thread
  int arrived = 0;  // threads, at the next operation
  int asked = 0;    // registers per thread that it waits for; 0: none
};

class Warpgroups {
 public:
  void begin_block() {
    list_.clear();
    products_in_use_ = false;
  }
  void call(Thread& self, const WarpgroupCall& call, std::uintptr_t return_address);
  // True if products have been issued in this block: their registers are on the threads' stacks.
  bool products_in_use() const { return products_in_use_; }
  // Before a write by the thread or by a copy that it begins: returns a read by a product that
  // nothing orders before the write, or 0. Reports a product in flight.
  Stamp unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site);
  // All threads of the block have exited.
  void end_block() const;

  // For when no thread can go on. True if a warpgroup that waits for registers has got them.
  bool let_some_have_registers();
  // False if no warpgroup waits for registers.
  bool report_lack_of_registers() const;
  // False if no warpgroup lacks a thread, except those that wait at mbarriers or named barriers.
  bool report_stuck() const;

 private:
  void finish(Warpgroup& group);
  static void let_go(const Warpgroup& group);
  // register_pool.cpp
  static int registers_at_launch();  // per thread
  bool take_registers(Warpgroup& group, int registers);

  std::vector<Warpgroup> list_;  // none before the first operation of one
  bool products_in_use_ = false;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_WARPGROUP_H_
