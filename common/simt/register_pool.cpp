// setmaxnreg: the warpgroups of a block share the registers with which it begins. One that asks for
// more than is left waits until others have given some back.
#include <device/ptx/setmaxnreg.h>

#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {

// Of a thread. A kernel may ask for fewer, so that several blocks fit on a multiprocessor; the
// simulator does not know of that.
int Core::registers_at_launch() const {
  constexpr int kOfMultiprocessor = 65536, kMost = 256, kUnit = 8;
  return std::min(kOfMultiprocessor / num_threads_ / kUnit * kUnit, kMost);
}

// Gives the warpgroup so many registers a thread, if the others leave them. Warps that exit are not
// said to give theirs back.
bool Core::take_block_registers(Warpgroup& group, int registers) {
  const int warps = static_cast<int>(lanes_left_.size());
  int others = -group.registers * kWarps;  // of the warps, a thread
  for (int warp = 0; warp < warps; ++warp) others += warpgroups_[warp / kWarps].registers;
  if (others + registers * kWarps > registers_at_launch() * warps) return false;
  group.registers = registers;
  return true;
}

// No thread can go on. True if a warpgroup that waits for registers now has them.
bool Core::let_some_have_registers() {
  bool any = false;
  for (Warpgroup& group : warpgroups_) {
    if (group.asked == 0 || !take_block_registers(group, group.asked)) continue;
    group.asked = 0;
    let_go(group);
    any = true;
  }
  return any;
}

// No thread can go on. False if no warpgroup waits for registers.
bool Core::report_lack_of_registers() {
  const auto group = std::find_if(warpgroups_.begin(), warpgroups_.end(),
                                  [](const Warpgroup& g) { return g.asked != 0; });
  if (group == warpgroups_.end()) return false;
  std::string held;
  for (const Warpgroup& other : warpgroups_) {
    held += (held.empty() ? "" : ", ") + std::to_string(other.registers);
  }
  const Thread& waiting = threads_[group->first_thread];
  const SourcePlace& here = source_place(waiting.wait_address);
  report_block(Report::kTooFewRegisters, waiting.wait_address,
               "  Warp " + std::to_string(waiting.warp()) + " waits at " + short_location(here) +
                   "   " + source_text(here) + "\n  for " + std::to_string(group->asked) +
                   " registers a thread. The warpgroups hold " + held + ", and all began with " +
                   std::to_string(registers_at_launch()) +
                   ". No thread can go on. The launch ends here.\n");
  killed_ = true;
  return true;
}

void set_max_registers(int registers) {
  WarpgroupCall call{WarpgroupCall::Kind::kSetRegisters};
  call.registers = registers;
  core.warpgroup_call(*running_thread(), call, as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
