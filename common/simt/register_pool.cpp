// setmaxnreg: the warpgroups of a block share its registers. A warpgroup that requests more than
// are left waits until others have released some.
#include <device/ptx/setmaxnreg.h>

#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {

// A kernel may be compiled for fewer, so that several blocks fit on an SM; that is not modelled.
int Warpgroups::registers_at_launch() {
  constexpr int kOfMultiprocessor = 65536, kMost = 256, kUnit = 8;
  return std::min(kOfMultiprocessor / core.num_threads() / kUnit * kUnit, kMost);
}

// Gives the warpgroup that many registers per thread, if the others leave them. The PTX manual does
// not say that exiting warps release theirs.
bool Warpgroups::take_registers(Warpgroup& group, int registers) {
  const int warps = core.num_warps();
  int others = -group.registers * kWarps;  // summed over the warps, per thread
  for (int warp = 0; warp < warps; ++warp) others += list_[warp / kWarps].registers;
  if (others + registers * kWarps > registers_at_launch() * warps) return false;
  group.registers = registers;
  return true;
}

bool Warpgroups::let_some_have_registers() {
  bool any = false;
  for (Warpgroup& group : list_) {
    if (group.asked == 0 || !take_registers(group, group.asked)) continue;
    group.asked = 0;
    let_go(group);
    any = true;
  }
  return any;
}

bool Warpgroups::report_lack_of_registers() const {
  const auto group =
      std::find_if(list_.begin(), list_.end(), [](const Warpgroup& g) { return g.asked != 0; });
  if (group == list_.end()) return false;
  std::string held;
  for (const Warpgroup& other : list_) {
    held += (held.empty() ? "" : ", ") + std::to_string(other.registers);
  }
  const Thread& waiting = core.thread(group->first_thread);
  const SourcePlace& here = source_place(waiting.wait_address);
  report_block(Report::kTooFewRegisters, waiting.wait_address,
               "  Warp " + std::to_string(waiting.warp()) + " waits at " + short_location(here) +
                   "   " + source_text(here) + "\n  for " + std::to_string(group->asked) +
                   " registers per thread. The warpgroups hold " + held + ", and all began with " +
                   std::to_string(registers_at_launch()) +
                   ". No thread can go on. The launch ends here.\n");
  return true;
}

void set_max_registers(int registers) {
  WarpgroupCall call{WarpgroupCall::Kind::kSetRegisters};
  call.registers = registers;
  core.warpgroups.call(*running_thread(), call, as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
