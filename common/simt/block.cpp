// Scheduling: the blocks of a launch run one after the other, the threads of a block in turns.
#include <algorithm>
#include <numeric>

#include "simt/core.h"

namespace cuflash::simt {

Core& core = *new Core;

std::vector<int> Core::ordered(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (schedule.order == Schedule::Order::kReversed) std::reverse(order.begin(), order.end());
  if (schedule.order == Schedule::Order::kRandom || schedule.order == Schedule::Order::kLagging) {
    std::shuffle(order.begin(), order.end(), random_);
  }
  return order;
}

cudaError_t Core::check_limits(const Launch& launch) {
  const auto too_large = [&](const std::string& what) {
    launch_ = &launch;
    report_block(Report::kLaunchRefused, launch.kernel, "  " + what + "\n");
    launch_ = nullptr;
    return cudaErrorInvalidConfiguration;
  };
  const dim3 grid = launch.grid, block = launch.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreadsPerBlock || block.x > 1024 || block.y > 1024 ||
      block.z > 64) {
    return too_large("A block of " + std::to_string(block.x) + " x " + std::to_string(block.y) +
                     " x " + std::to_string(block.z) +
                     " threads; the limits are 1024 threads in all and 1024 x 1024 x 64.");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535) {
    return too_large("A grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) +
                     " x " + std::to_string(grid.z) +
                     " blocks; each extent is at least 1 and the limits are 2147483647, 65535 and "
                     "65535.");
  }
  const dim3 cluster = launch.cluster;
  if (cluster.x != 1 || cluster.y != 1 || cluster.z != 1) {
    return too_large("A cluster of " + std::to_string(cluster.x) + " x " +
                     std::to_string(cluster.y) + " x " + std::to_string(cluster.z) +
                     " blocks; the simulator runs one block at a time, so the limit is 1.");
  }
  if (launch.shared.bytes > kMaxSharedBytes) {
    return too_large(std::to_string(launch.shared.bytes) +
                     " bytes of dynamic shared memory; the limit is " +
                     std::to_string(kMaxSharedBytes) + ".");
  }
  return cudaSuccess;
}

void Core::note_launch(const Launch& launch) {
  ++events.launches;
  if (launch.shared.storage_type == nullptr) return;
  const auto known = std::find_if(layouts_.begin(), layouts_.end(),
                                  [&](const auto& l) { return l.first == launch.kernel; });
  if (known == layouts_.end()) {
    layouts_.emplace_back(launch.kernel, launch.shared);
  } else {
    known->second = launch.shared;
  }
}

cudaError_t Core::run(const Launch& launch) {
  const std::lock_guard<std::mutex> lock(mutex);
  const cudaError_t refused = check_limits(launch);
  if (refused != cudaSuccess) return refused;
  if (!stacks_) stacks_.emplace();
  launch_ = &launch;
  note_launch(launch);
  order.begin_launch();
  copies.begin_launch();
  mapped_pages_.clear();
  killed_ = false;
  exception_ = nullptr;
  shared_.begin_launch(launch.shared);
  recorder.begin_launch();
  random_.seed(schedule.seed);

  num_threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (threads_.size() < static_cast<std::size_t>(num_threads_)) threads_.resize(num_threads_);
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  // A permutation of a very large grid would take too much memory: shuffle within windows.
  constexpr std::uint64_t kWindow = 1 << 16;
  const bool reversed = schedule.order == Schedule::Order::kReversed;
  for (std::uint64_t begin = 0; begin < blocks && !killed_; begin += kWindow) {
    const std::uint64_t count = std::min(kWindow, blocks - begin);
    const std::uint64_t first = reversed ? blocks - begin - count : begin;
    for (const int i : ordered(count)) {
      in_block_ = true;
      begin_block(first + i);
      run_block();
      block_recorder.end_block();
      in_block_ = false;
      if (killed_) break;
    }
  }
  if (recorder.on()) recorder.end_launch();
  launch_ = nullptr;
  if (exception_ != nullptr) std::rethrow_exception(std::exchange(exception_, nullptr));
  return killed_ ? cudaErrorLaunchFailure : cudaSuccess;
}

void Core::begin_block(std::uint64_t linear_block) {
  const Launch& launch = *launch_;
  linear_block_ = linear_block;
  barriers_before_block_ = events.barriers;
  block_index_ = {static_cast<unsigned>(linear_block % launch.grid.x),
                  static_cast<unsigned>(linear_block / launch.grid.x % launch.grid.y),
                  static_cast<unsigned>(linear_block / launch.grid.x / launch.grid.y)};
  order.begin_block(linear_block, threads_.data(), num_threads_);
  warp_calls.begin_block(num_warps());
  copies.begin_block(num_threads_);
  mbarriers.begin_block();
  named_barriers.begin_block();
  tensor_copies.begin_block();
  tensor_stores.begin_block();
  warpgroups.begin_block();
  lanes_left_.assign(num_warps(), 0);
  for (int t = 0; t < num_threads_; ++t) {
    Thread& thread = threads_[t];
    ++lanes_left_[t / 32];
    const unsigned n = static_cast<unsigned>(t);
    thread.index = t;
    thread.id = {n % launch.block.x, n / launch.block.x % launch.block.y,
                 n / launch.block.x / launch.block.y};
    thread.state = Thread::State::kReady;
    thread.lags = schedule.order == Schedule::Order::kLagging && t % 32 == 31;
    thread.trace.clear();
    thread.tiles.clear();
    thread.registers.clear();
    thread.fiber.prepare(t, &Core::thread_entry);
  }
  block_recorder.begin_block();
}

// Each thread runs until it waits for others; when all wait, the barrier opens.
void Core::run_block() {
  std::vector<int> turns = ordered(num_threads_);
  std::stable_partition(turns.begin(), turns.end(), [&](int t) { return !threads_[t].lags; });
  for (;;) {
    bool progress = false, alive = false, in_warp_call = false, waits_for_some = false;
    for (const int t : turns) {
      Thread& thread = threads_[t];
      const bool may_run = !progress || !thread.lags;
      if (may_run && (thread.state == Thread::State::kReady || thread.counted())) {
        thread.state = Thread::State::kReady;
        thread.fiber.resume(&thread);
        progress = true;
        if (killed_) return;
      }
      alive |= thread.state != Thread::State::kExited;
      in_warp_call |= thread.state == Thread::State::kInWarpCall;
      waits_for_some |= thread.waits_for_some();
    }
    if (!alive) {
      tensor_copies.end_block();
      tensor_stores.end_block();
      warpgroups.end_block();
      return;
    }
    if (progress || warpgroups.let_some_have_registers()) continue;
    if (in_warp_call && warp_calls.begin_without_absent()) continue;
    killed_ = report_stuck(in_warp_call, waits_for_some);
    if (killed_) return;
    release_barrier();
  }
}

// For when no thread can go on. False if all remaining threads wait at barriers; otherwise reports
// why none can go on.
bool Core::report_stuck(bool in_warp_call, bool waits_for_some) {
  if (in_warp_call && !waits_for_some) {
    warp_calls.report_stuck();
    return true;
  }
  if (!in_warp_call && (warpgroups.report_stuck() || warpgroups.report_lack_of_registers() ||
                        report_block_count())) {
    return true;
  }
  if (waits_for_some) report_deadlock();
  return waits_for_some;
}

void Core::thread_entry(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  try {
    core.launch_->invoke(core.launch_->args);
    core.copies.end_thread(thread);
    core.tensor_stores.end_thread(thread);
  } catch (...) {
    core.exception_ = std::current_exception();
    core.killed_ = true;
  }
  thread.state = Thread::State::kExited;
  core.recorder.settle(thread.index);
  // The last lane of a warp counts the warp's remaining accesses.
  if (--core.lanes_left_[thread.warp()] == 0) core.flush_warp(thread.warp());
}

void Core::suspend(Thread& thread, Thread::State state, std::uintptr_t return_address) {
  thread.state = state;
  thread.wait_address = return_address;
  recorder.settle(thread.index);
  thread.fiber.suspend();
}

void Core::kill_launch() {
  killed_ = true;
  Thread& running = *running_thread();
  for (;;) running.fiber.suspend();
}

unsigned Core::active_lanes(int warp) const {
  unsigned mask = 0;
  for (int t = warp * 32; t < std::min(warp * 32 + 32, num_threads_); ++t) {
    if (threads_[t].state != Thread::State::kExited) mask |= 1u << (t % 32);
  }
  return mask;
}

void Core::flush_warp(int warp) {
  LaneTrace* lanes[32] = {};
  for (int t = warp * 32; t < std::min(warp * 32 + 32, num_threads_); ++t) {
    lanes[t % 32] = &threads_[t].trace;
  }
  block_recorder.begin_flush(warp);
  requests.flush(lanes);
  if (block_recorder.on()) block_recorder.end_flush();
}

// Called when the trace of a thread is full. The other lanes of its warp run first; then the
// accesses that all of them have recorded in step can be counted and dropped.
void Core::make_room(Thread& self) {
  recorder.settle(self.index);
  if (self.trace.size() != 0) self.fiber.suspend();
  if (self.trace.full()) {
    LaneTrace* lanes[32] = {};
    std::uint32_t open = 0;
    for (int t = self.warp() * 32; t < std::min(self.warp() * 32 + 32, num_threads_); ++t) {
      const Thread::State state = threads_[t].state;
      lanes[t % 32] = &threads_[t].trace;
      if (state != Thread::State::kAtBarrier && state != Thread::State::kExited) {
        open |= 1u << (t % 32);
      }
    }
    block_recorder.begin_flush(self.warp());
    requests.flush_in_step(lanes, open);
  }
  if (self.trace.full()) self.trace.grow();
}

int Core::barrier(Thread& self, bool vote, std::uintptr_t return_address) {
  if (waits.pass(return_address, false)) return 0;
  block_recorder.mark(self, WarpEvent::Kind::kBarrier, return_address);
  self.vote = vote;
  suspend(self, Thread::State::kAtBarrier, return_address);
  return static_cast<int>(self.result);
}

// Every thread waits at a barrier or has exited.
void Core::release_barrier() {
  check_barrier();
  for (int warp = 0; warp < num_warps(); ++warp) flush_warp(warp);
  ++events.barriers;
  order.meet();
  const auto votes =
      std::count_if(threads_.begin(), threads_.begin() + num_threads_,
                    [](const Thread& t) { return t.state == Thread::State::kAtBarrier && t.vote; });
  for (int t = 0; t < num_threads_; ++t) {
    Thread& thread = threads_[t];
    if (thread.state == Thread::State::kAtBarrier) thread.state = Thread::State::kReady;
    thread.result = votes;
  }
}

// Checks that all remaining threads wait at the same barrier. A barrier does not wait for threads
// that have exited.
void Core::check_barrier() {
  const Thread* first = nullptr;
  std::uintptr_t copy = 0;  // the compiler's copy of the first thread's barrier
  for (int t = 0; t < num_threads_; ++t) {
    const Thread& thread = threads_[t];
    if (thread.state == Thread::State::kExited) continue;
    if (first == nullptr) first = &thread;
    if (thread.wait_address == first->wait_address || thread.wait_address == copy) continue;
    const SourcePlace& here = source_place(first->wait_address);
    const SourcePlace& there = source_place(thread.wait_address);
    if (there.chain == here.chain) {
      copy = thread.wait_address;
      continue;
    }
    const auto waits = [](const Thread& who, const SourcePlace& place) {
      return "  thread " + std::to_string(who.index) + " waits at " + short_location(place) +
             "   " + source_text(place) + '\n';
    };
    report_block(Report::kDivergentBarrier, first->wait_address,
                 waits(*first, here) + waits(thread, there) +
                     "  A __syncthreads() inside a branch must be reached by all threads of the "
                     "block or by none.\n");
    return;
  }
}

}  // namespace cuflash::simt
