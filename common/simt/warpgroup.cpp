// Operations of a warpgroup: all 128 threads must reach the same one.
#include "simt/core.h"

namespace cuflash::simt {
namespace {

std::optional<WarpEvent::Kind> event_of(WarpgroupCall::Kind kind) {
  switch (kind) {
    case WarpgroupCall::Kind::kProduct:
      return WarpEvent::Kind::kProduct;
    case WarpgroupCall::Kind::kCommit:
      return WarpEvent::Kind::kCommitProducts;
    case WarpgroupCall::Kind::kWait:
      return WarpEvent::Kind::kWaitProducts;
    default:
      return std::nullopt;
  }
}

void report_absent(const Thread& waiting, int absent, const std::string& why) {
  report_block(Report::kWarpgroupWithoutAllThreads, waiting.wait_address,
               line_of(waiting, "waits at") + "\n  for warp " + std::to_string(absent / 32) +
                   " lane " + std::to_string(absent % 32) + ", which " + why +
                   "\n  All 128 threads of a warpgroup, four warps whose first is a multiple of "
                   "four, must reach it. The launch ends here.\n");
}

// All threads of the warpgroup must have reached one instruction. The compiler's copies of it count
// as the same.
void check_same_call(const Warpgroup& group) {
  const Thread& first = core.thread(group.first_thread);
  for (int t = 1; t < kWarpgroupThreads; ++t) {
    const Thread& other = core.thread(group.first_thread + t);
    if (other.wait_address == first.wait_address) continue;
    const SourcePlace& here = source_place(first.wait_address);
    const SourcePlace& there = source_place(other.wait_address);
    if (there.chain == here.chain) continue;
    report_absent(first, other.index,
                  "waits at " + short_location(there) + "   " + source_text(there) + '.');
    core.kill_launch();
  }
}

}  // namespace

void Warpgroups::call(Thread& self, const WarpgroupCall& call, std::uintptr_t return_address) {
  const bool first_call = list_.empty();
  for (int t = 0; first_call && t < core.num_threads(); t += kWarpgroupThreads) {
    list_.push_back({t, Products(t), registers_at_launch()});
  }
  Warpgroup& group = list_[self.index / kWarpgroupThreads];
  self.warpgroup_call = &call;
  self.wait_address = return_address;
  if (const auto event = event_of(call.kind)) {
    core.block_recorder.mark(self, *event, return_address, static_cast<int>(call.pending));
  }
  if (++group.arrived < kWarpgroupThreads) {
    core.suspend(self, Thread::State::kInWarpgroupCall, return_address);
    return;
  }
  group.arrived = 0;
  check_same_call(group);
  for (int w = 0; w < kWarps; ++w) core.flush_warp(group.first_thread / 32 + w);
  finish(group);
  if (group.asked != 0) {
    core.suspend(self, Thread::State::kInWarpgroupCall, return_address);
  } else {
    let_go(group);
  }
}

void Warpgroups::let_go(const Warpgroup& group) {
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    core.thread(group.first_thread + t).state = Thread::State::kReady;
  }
}

// Called by the last thread to arrive. The operations wait for threads but do not order memory.
void Warpgroups::finish(Warpgroup& group) {
  const WarpgroupCall& call = *core.thread(group.first_thread).warpgroup_call;
  switch (call.kind) {
    case WarpgroupCall::Kind::kFence:
      group.products.fence();
      break;
    case WarpgroupCall::Kind::kProduct:
      products_in_use_ = true;
      group.products.begin();
      break;
    case WarpgroupCall::Kind::kCommit:
      group.products.commit();
      break;
    case WarpgroupCall::Kind::kWait:
      group.products.wait(call.pending);
      break;
    case WarpgroupCall::Kind::kSetRegisters:
      if (!take_registers(group, call.registers)) group.asked = call.registers;
      break;
  }
}

Stamp Warpgroups::unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  for (Warpgroup& group : list_) {
    if (const Stamp read = group.products.unordered_read(self, address, site)) return read;
  }
  return 0;
}

void Warpgroups::end_block() const {
  for (const Warpgroup& group : list_) group.products.end_block();
}

bool Warpgroups::report_stuck() const {
  const auto is_stuck = [](const Warpgroup& group) { return group.arrived != 0; };
  const auto group = std::find_if(list_.begin(), list_.end(), is_stuck);
  if (group == list_.end()) return false;
  const Thread* waiting = nullptr;
  for (int t = group->first_thread; t < core.num_threads() && waiting == nullptr; ++t) {
    if (core.thread(t).state == Thread::State::kInWarpgroupCall) waiting = &core.thread(t);
  }
  for (int t = group->first_thread; t < group->first_thread + kWarpgroupThreads; ++t) {
    if (t >= core.num_threads()) {
      report_absent(*waiting, t, "does not exist: the block has fewer threads.");
    } else if (core.thread(t).state == Thread::State::kExited) {
      report_absent(*waiting, t, "has exited.");
    } else if (core.thread(t).state == Thread::State::kAtBarrier) {
      report_absent(*waiting, t,
                    "waits in __syncthreads() at " +
                        short_location(source_place(core.thread(t).wait_address)) + '.');
    } else {
      continue;
    }
    return true;
  }
  return false;
}

}  // namespace cuflash::simt
