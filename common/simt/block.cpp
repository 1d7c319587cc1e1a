// Scheduling: the blocks of a launch one after the other, the threads of a block by turns.
#include <algorithm>
#include <numeric>

#include "simt/core.h"

namespace cuflash::simt {

thread_local Thread* current_thread = nullptr;

Core& core = *new Core;

std::vector<int> Core::ordered(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (schedule.order == Schedule::Order::kReversed) std::reverse(order.begin(), order.end());
  if (schedule.order == Schedule::Order::kRandom) {
    std::shuffle(order.begin(), order.end(), random_);
  }
  return order;
}

cudaError_t Core::check_limits(const Launch& launch) {
  const auto too_large = [&](const std::string& what) {
    launch_ = &launch;
    report_block(FindingKind::kLaunchLimit, launch.kernel, "LAUNCH REFUSED", "  " + what + "\n");
    launch_ = nullptr;
    return cudaErrorInvalidConfiguration;
  };
  const dim3 grid = launch.grid, block = launch.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreadsPerBlock || block.x > 1024 || block.y > 1024 ||
      block.z > 64) {
    return too_large("A block of " + std::to_string(block.x) + " x " + std::to_string(block.y) +
                     " x " + std::to_string(block.z) +
                     " threads; the limit is 1024 in all, and 1024 x 1024 x 64.");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535) {
    return too_large("A grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) +
                     " x " + std::to_string(grid.z) +
                     " blocks; each extent is at least 1 and the limits are 2147483647, 65535 and "
                     "65535.");
  }
  const auto raised = shared_limit_.find(launch.kernel);
  const std::size_t limit = raised == shared_limit_.end() ? kDefaultSharedBytes : raised->second;
  if (launch.dynamic_shared_bytes > limit) {
    return too_large(std::to_string(launch.dynamic_shared_bytes) +
                     " bytes of dynamic shared memory; the limit is " + std::to_string(limit) +
                     " (cudaFuncSetAttribute raises it to at most " +
                     std::to_string(kMaxSharedBytes) + ").");
  }
  return cudaSuccess;
}

cudaError_t Core::run(const Launch& launch) {
  const std::lock_guard<std::mutex> lock(mutex);
  const cudaError_t refused = check_limits(launch);
  if (refused != cudaSuccess) return refused;
  ++trace.totals.launches;
  launch_ = &launch;
  launch_epoch_ = ++epoch_;
  blocks_run_.clear();
  killed_ = false;
  exception_ = nullptr;
  shared_.begin_launch();
  random_.seed(schedule.seed);

  const std::size_t threads = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
  if (threads_.size() < threads) threads_.resize(threads);
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  // A permutation of a very large grid is not worth its memory: shuffle within windows.
  constexpr std::uint64_t kWindow = 1 << 16;
  const bool reversed = schedule.order == Schedule::Order::kReversed;
  for (std::uint64_t begin = 0; begin < blocks && !killed_; begin += kWindow) {
    const std::uint64_t count = std::min(kWindow, blocks - begin);
    const std::uint64_t first = reversed ? blocks - begin - count : begin;
    for (const int i : ordered(count)) {
      run_block(first + i);
      if (killed_) break;
    }
  }
  launch_ = nullptr;
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return killed_ ? cudaErrorLaunchFailure : cudaSuccess;
}

void Core::run_block(std::uint64_t linear_block) {
  const Launch& launch = *launch_;
  linear_block_ = linear_block;
  block_index_ = {static_cast<unsigned>(linear_block % launch.grid.x),
                  static_cast<unsigned>(linear_block / launch.grid.x % launch.grid.y),
                  static_cast<unsigned>(linear_block / launch.grid.x / launch.grid.y)};
  block_epoch_ = barrier_epoch_ = ++epoch_;
  blocks_run_.emplace_back(block_epoch_, linear_block);
  const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  warp_epoch_.assign((threads + 31) / 32, 0);
  for (int t = 0; t < threads; ++t) {
    Thread& thread = threads_[t];
    const unsigned n = static_cast<unsigned>(t);
    thread.index = t;
    thread.id = {n % launch.block.x, n / launch.block.x % launch.block.y,
                 n / launch.block.x / launch.block.y};
    thread.state = Thread::State::kReady;
    thread.stack = stacks_.base(t);
    thread.trace.clear();
    std::fill_n(thread.synced, 32, std::uint64_t{0});
    thread.fiber.prepare(thread.stack, t, &Core::thread_entry);
  }

  const std::vector<int> order = ordered(threads);
  for (;;) {
    bool progress = false, alive = false;
    for (const int t : order) {
      if (threads_[t].state == Thread::State::kReady) {
        resume(threads_[t]);
        progress = true;
        if (killed_) return;
      }
      alive |= threads_[t].state != Thread::State::kExited;
    }
    if (!alive) break;
    if (!progress) release_barrier();
    if (killed_) return;
  }
}

void Core::thread_entry(void* self) {
  Core& core = *static_cast<Core*>(self);
  Thread& thread = *current_thread;
  try {
    core.launch_->invoke(core.launch_->args);
  } catch (...) {
    core.exception_ = std::current_exception();
    core.killed_ = true;
  }
  thread.state = Thread::State::kExited;
  // The last lane to end closes its warp's account.
  const int begin = thread.warp() * 32;
  const auto num_threads =
      static_cast<int>(core.launch_->block.x * core.launch_->block.y * core.launch_->block.z);
  for (int t = begin; t < std::min(begin + 32, num_threads); ++t) {
    if (core.threads_[t].state != Thread::State::kExited) return;
  }
  core.flush_warp(thread.warp(), ~0u);
}

void Core::resume(Thread& thread) {
  current_thread = &thread;
  thread.fiber.resume(this);
  current_thread = nullptr;
}

void Core::suspend(Thread& thread, Thread::State state, std::uintptr_t return_address) {
  thread.state = state;
  thread.wait_address = return_address;
  thread.fiber.suspend();
}

void Core::kill_launch() {
  killed_ = true;
  for (;;) current_thread->fiber.suspend();
}

void Core::flush_warp(int warp, unsigned lane_mask) {
  LaneTrace* lanes[32] = {};
  const auto num_threads = static_cast<int>(launch_->block.x * launch_->block.y * launch_->block.z);
  for (int lane = 0; lane < 32; ++lane) {
    if ((lane_mask >> lane & 1) == 0 || warp * 32 + lane >= num_threads) continue;
    lanes[lane] = &threads_[warp * 32 + lane].trace;
  }
  trace.flush(lanes);
}

void Core::barrier(std::uintptr_t return_address) {
  suspend(*current_thread, Thread::State::kAtBarrier, return_address);
}

// No thread can go on: either all wait at one barrier, which then opens, or something is wrong.
void Core::release_barrier() {
  const auto begin = threads_.begin();
  const auto end = begin + launch_->block.x * launch_->block.y * launch_->block.z;
  const auto waits = [](const Thread& t) { return t.state == Thread::State::kAtBarrier; };
  const auto exited = [](const Thread& t) { return t.state == Thread::State::kExited; };
  if (!std::all_of(begin, end, [&](const Thread& t) { return waits(t) || exited(t); })) {
    report_stuck();
    return;
  }
  const auto first = std::find_if(begin, end, waits);
  const std::string here = source_text(find_source(first->wait_address));
  const auto who = [](const Thread& t) { return "thread " + std::to_string(t.index); };
  const auto where = [](const Thread& t) { return short_location(find_source(t.wait_address)); };
  const auto gone = std::find_if(begin, end, exited);
  if (gone != end) {
    report_block(FindingKind::kDivergentBarrier, first->wait_address, "DIVERGENT BARRIER",
                 "  " + who(*first) + " waits at " + where(*first) + "   " + here + "\n  " +
                     who(*gone) +
                     " has exited and will never come: every thread of the block must reach each "
                     "__syncthreads().\n");
  }
  const std::string chain = find_source(first->wait_address).chain;
  const auto elsewhere = std::find_if(begin, end, [&](const Thread& t) {
    return waits(t) && t.wait_address != first->wait_address &&
           find_source(t.wait_address).chain != chain;
  });
  if (elsewhere != end) {
    report_block(FindingKind::kDivergentBarrier, first->wait_address, "DIVERGENT BARRIER",
                 "  " + who(*first) + " waits at " + where(*first) + ", " + who(*elsewhere) +
                     " at " + where(*elsewhere) +
                     ": a __syncthreads() inside a branch must be reached by all threads of the "
                     "block or by none.\n");
  }
  for (std::size_t warp = 0; warp < warp_epoch_.size(); ++warp) {
    flush_warp(static_cast<int>(warp), ~0u);
  }
  barrier_epoch_ = ++epoch_;
  for (auto t = begin; t != end; ++t) {
    if (waits(*t)) t->state = Thread::State::kReady;
  }
}

unsigned Core::active_lanes() const {
  const auto num_threads = static_cast<int>(launch_->block.x * launch_->block.y * launch_->block.z);
  const int begin = current_thread->warp() * 32;
  unsigned mask = 0;
  for (int t = begin; t < std::min(begin + 32, num_threads); ++t) {
    if (threads_[t].state != Thread::State::kExited) mask |= 1u << (t - begin);
  }
  return mask;
}

std::uint64_t Core::warp_call(const WarpCall& call, std::uintptr_t return_address) {
  Thread& self = *current_thread;
  self.call = call;
  self.wait_address = return_address;
  if ((call.mask >> self.lane() & 1) == 0) {
    report_block(FindingKind::kWarpMask, return_address, "WRONG WARP MASK",
                 "  Lane " + std::to_string(self.lane()) + " calls " +
                     short_location(find_source(return_address)) + "   " +
                     source_text(find_source(return_address)) +
                     "\n  but the mask does not name this lane.\n");
    kill_launch();
  }
  self.state = Thread::State::kInWarpCall;
  const auto num_threads = launch_->block.x * launch_->block.y * launch_->block.z;
  bool complete = true;
  for (unsigned lane = 0; lane < 32 && complete; ++lane) {
    if ((call.mask >> lane & 1) == 0) continue;
    const unsigned t = self.warp() * 32 + lane;
    complete = t < num_threads && threads_[t].state == Thread::State::kInWarpCall &&
               threads_[t].call.kind == call.kind && threads_[t].call.mask == call.mask;
  }
  if (complete) {
    finish_warp_call(self);
  } else {
    suspend(self, Thread::State::kInWarpCall, return_address);
  }
  return self.result;
}

void Core::finish_warp_call(Thread& last) {
  Thread* const lanes = &threads_[last.warp() * 32];
  const unsigned mask = last.call.mask;
  flush_warp(last.warp(), mask);

  // What each lane did before happens before what any of them does next.
  const std::uint64_t now = ++epoch_;
  if (mask == active_lanes()) {
    warp_epoch_[last.warp()] = now;
  } else {
    std::uint64_t joined[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      for (int k = 0; k < 32; ++k) joined[k] = std::max(joined[k], lanes[lane].synced[k]);
    }
    for (int lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) != 0) joined[lane] = now;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) != 0) std::copy_n(joined, 32, lanes[lane].synced);
    }
  }

  std::uint64_t ballot = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && lanes[lane].call.value != 0) ballot |= 1u << lane;
  }
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Thread& thread = lanes[lane];
    thread.state = Thread::State::kReady;
    if (thread.call.kind != WarpCall::Kind::kShuffle) {
      thread.result = ballot;
      continue;
    }
    const int source = thread.call.source;
    if ((mask >> source & 1) == 0) {
      report_block(FindingKind::kWarpMask, thread.wait_address, "SHUFFLE FROM A LANE OUTSIDE",
                   "  Lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
                       " at " + short_location(find_source(thread.wait_address)) + "   " +
                       source_text(find_source(thread.wait_address)) +
                       "\n  but the mask does not name that lane: the value is undefined.\n");
      thread.result = 0;
    } else {
      thread.result = lanes[source].call.value;
    }
  }
}

// Some lanes wait in a warp-wide operation for lanes that cannot come.
void Core::report_stuck() {
  const auto num_threads = launch_->block.x * launch_->block.y * launch_->block.z;
  for (unsigned t = 0; t < num_threads; ++t) {
    const Thread& waiting = threads_[t];
    if (waiting.state != Thread::State::kInWarpCall) continue;
    for (int lane = 0; lane < 32; ++lane) {
      if ((waiting.call.mask >> lane & 1) == 0) continue;
      const unsigned other_index = waiting.warp() * 32 + lane;
      const bool exists = other_index < num_threads;
      const Thread& other = threads_[exists ? other_index : t];
      if (exists && other.state == Thread::State::kInWarpCall &&
          other.call.kind == waiting.call.kind && other.call.mask == waiting.call.mask) {
        continue;
      }
      const SourcePlace other_place = find_source(other.wait_address);
      std::string why = "does not exist: the block is not that large";
      if (exists && other.state == Thread::State::kExited) why = "has exited";
      if (exists && other.state == Thread::State::kAtBarrier) {
        why = "waits in __syncthreads() at " + short_location(other_place);
      }
      if (exists && other.state == Thread::State::kInWarpCall) {
        why = "waits in another warp-wide operation, at " + short_location(other_place);
      }
      report_block(FindingKind::kWarpMask, waiting.wait_address, "WARP MASK NAMES AN ABSENT LANE",
                   "  Warp " + std::to_string(waiting.warp()) + " lane " +
                       std::to_string(waiting.lane()) + " waits at " +
                       short_location(find_source(waiting.wait_address)) + "   " +
                       source_text(find_source(waiting.wait_address)) + "\n  for lane " +
                       std::to_string(lane) + ", which " + why + ".\n");
      killed_ = true;
      return;
    }
  }
}

}  // namespace cuflash::simt
