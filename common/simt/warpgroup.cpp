// Operations of a warpgroup: all 128 threads must come to the same one.
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

}  // namespace

void Core::warpgroup_call(Thread& self, const WarpgroupCall& call, std::uintptr_t return_address) {
  if (warpgroups_.empty()) {
    warpgroups_.resize((num_threads_ + kWarpgroupThreads - 1) / kWarpgroupThreads);
    for (Warpgroup& group : warpgroups_) group.registers = registers_at_launch();
  }
  Warpgroup& group = warpgroups_[self.index / kWarpgroupThreads];
  group.first_thread = self.index / kWarpgroupThreads * kWarpgroupThreads;
  self.warpgroup_call = &call;
  self.wait_address = return_address;
  if (const auto event = event_of(call.kind)) {
    block_recorder.mark(self, *event, return_address, static_cast<int>(call.pending));
  }
  if (++group.arrived < kWarpgroupThreads) {
    suspend(self, Thread::State::kInWarpgroupCall, return_address);
    return;
  }
  group.arrived = 0;
  check_same_call(group);
  for (int w = 0; w < kWarpgroupThreads / 32; ++w) flush_warp(group.first_thread / 32 + w);
  finish_warpgroup_call(group);
  if (group.asked != 0) {
    suspend(self, Thread::State::kInWarpgroupCall, return_address);
  } else {
    let_go(group);
  }
}

void Core::let_go(const Warpgroup& group) {
  for (int t = 0; t < kWarpgroupThreads; ++t) {
    threads_[group.first_thread + t].state = Thread::State::kReady;
  }
}

// Called by the last thread to arrive. The operations wait for threads and order no memory.
void Core::finish_warpgroup_call(Warpgroup& group) {
  const WarpgroupCall& call = *threads_[group.first_thread].warpgroup_call;
  switch (call.kind) {
    case WarpgroupCall::Kind::kFence:
      group.last_fence = next_moment();
      break;
    case WarpgroupCall::Kind::kProduct:
      begin_product(group);
      break;
    case WarpgroupCall::Kind::kCommit:
      ++group.groups;
      break;
    case WarpgroupCall::Kind::kWait:
      end_products(group, call.pending);
      break;
    case WarpgroupCall::Kind::kSetRegisters:
      if (!take_block_registers(group, call.registers)) group.asked = call.registers;
      break;
  }
}

// All threads of the warpgroup must have come to one instruction. Copies that the compiler made of
// it are that instruction.
void Core::check_same_call(const Warpgroup& group) {
  const Thread& first = threads_[group.first_thread];
  for (int t = 1; t < kWarpgroupThreads; ++t) {
    const Thread& other = threads_[group.first_thread + t];
    if (other.wait_address == first.wait_address) continue;
    const SourcePlace& here = source_place(first.wait_address);
    const SourcePlace& there = source_place(other.wait_address);
    if (there.chain == here.chain) continue;
    report_absent(first, other.index,
                  "waits at " + short_location(there) + "   " + source_text(there) + '.');
    kill_launch();
  }
}

void Core::report_absent(const Thread& waiting, int absent, const std::string& why) {
  const SourcePlace& here = source_place(waiting.wait_address);
  report_block(Report::kWarpgroupWithoutAllThreads, waiting.wait_address,
               "  Warp " + std::to_string(waiting.warp()) + " lane " +
                   std::to_string(waiting.lane()) + " waits at " + short_location(here) + "   " +
                   source_text(here) + "\n  for warp " + std::to_string(absent / 32) + " lane " +
                   std::to_string(absent % 32) + ", which " + why +
                   "\n  All 128 threads of a warpgroup, four warps whose first is a multiple of "
                   "four, must come to it. The launch ends here.\n");
}

// No thread can go on. False if no warpgroup lacks a thread, except those that wait at mbarriers or
// named barriers.
bool Core::report_stuck_warpgroup() {
  const auto is_stuck = [](const Warpgroup& group) { return group.arrived != 0; };
  const auto group = std::find_if(warpgroups_.begin(), warpgroups_.end(), is_stuck);
  if (group == warpgroups_.end()) return false;
  const Thread* waiting = nullptr;
  for (int t = group->first_thread; t < num_threads_ && waiting == nullptr; ++t) {
    if (threads_[t].state == Thread::State::kInWarpgroupCall) waiting = &threads_[t];
  }
  for (int t = group->first_thread; t < group->first_thread + kWarpgroupThreads; ++t) {
    if (t >= num_threads_) {
      report_absent(*waiting, t, "does not exist: the block has fewer threads.");
    } else if (threads_[t].state == Thread::State::kExited) {
      report_absent(*waiting, t, "has exited.");
    } else if (threads_[t].state == Thread::State::kAtBarrier) {
      report_absent(*waiting, t,
                    "waits in __syncthreads() at " +
                        short_location(source_place(threads_[t].wait_address)) + '.');
    } else {
      continue;
    }
    killed_ = true;
    return true;
  }
  return false;
}

}  // namespace cuflash::simt
