// Warp-wide operations: shuffles, votes, reductions and __syncwarp().
#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

// The recorded event of an operation; none for an access to a matrix, which makes requests.
std::optional<WarpEvent::Kind> event_of(WarpCall::Kind kind) {
  using Kind = WarpCall::Kind;
  switch (kind) {
    case Kind::kSync:
      return WarpEvent::Kind::kSyncWarp;
    case Kind::kShuffle:
    case Kind::kCombine:
      return WarpEvent::Kind::kShuffle;
    case Kind::kProduct:
    case Kind::kMma:
      return WarpEvent::Kind::kProduct;
    case Kind::kMatrixAccess:
    case Kind::kLdMatrix:
      return std::nullopt;
    default:
      return WarpEvent::Kind::kVote;
  }
}

bool is_matrix_call(WarpCall::Kind kind) {
  using Kind = WarpCall::Kind;
  return kind == Kind::kMatrixAccess || kind == Kind::kProduct || kind == Kind::kMma ||
         kind == Kind::kLdMatrix;
}

// True if the lane does not exist or has exited.
bool is_absent(int warp, int lane) {
  const int t = warp * 32 + lane;
  return t >= core.num_threads() || core.thread(t).state == Thread::State::kExited;
}

// True if this lane of the same warp has not arrived at the place where `waiting` waits.
bool is_missing(const Thread& waiting, int lane) {
  if (is_absent(waiting.warp(), lane)) return true;
  const Thread& other = core.thread(waiting.warp() * 32 + lane);
  if (other.state != Thread::State::kInWarpCall || other.call.kind != waiting.call.kind ||
      other.call.mask != waiting.call.mask || other.call.combine != waiting.call.combine) {
    return true;
  }
  // Lanes may shuffle from different lines, but a matrix operation is one instruction. The
  // compiler's copies of it count as the same.
  return is_matrix_call(waiting.call.kind) && other.wait_address != waiting.wait_address &&
         source_place(other.wait_address).chain != source_place(waiting.wait_address).chain;
}

// Called by the last lane to arrive. It does not order the lanes' memory accesses: in CUDA only
// __syncwarp() does.
void finish_matrix_call(const Thread& caller) {
  const int warp = caller.warp();
  core.flush_warp(warp);
  Thread* const lanes = &core.thread(warp * 32);
  switch (caller.call.kind) {
    case WarpCall::Kind::kProduct:
      finish_product(lanes);
      break;
    case WarpCall::Kind::kMma:
      finish_mma(lanes);
      break;
    case WarpCall::Kind::kLdMatrix:
      finish_ldmatrix(lanes);
      break;
    default:
      finish_matrix_access(caller);
  }
  for (int lane = 0; lane < 32; ++lane) lanes[lane].state = Thread::State::kReady;
}

void report_missing_lane(const Thread& waiting) {
  const bool matrix = is_matrix_call(waiting.call.kind);
  int lane = 0;
  while (lane < 31 && ((waiting.call.mask >> lane & 1) == 0 || !is_missing(waiting, lane))) ++lane;
  const int t = waiting.warp() * 32 + lane;
  const std::string advice = matrix ? "A matrix operation needs all 32 lanes. The launch ends here."
                                    : "The mask must contain only lanes that reach the operation.";
  std::string why;
  if (t >= core.num_threads()) {
    why = "does not exist: the block has fewer threads. " + advice;
  } else if (core.thread(t).state == Thread::State::kExited) {
    why = "has exited. " + advice;
  } else {
    const bool at_barrier = core.thread(t).state == Thread::State::kAtBarrier;
    why = std::string("waits in ") +
          (at_barrier ? "__syncthreads()"
           : matrix   ? "another warp-wide operation"
                      : "another warp-wide operation, or one with another mask,") +
          " at " + short_location(source_place(core.thread(t).wait_address)) +
          ". The launch ends here.";
  }
  report_block(matrix ? Report::kMatrixWithoutAllLanes : Report::kMaskNamesAbsentLane,
               waiting.wait_address,
               line_of(waiting, "waits at") + "\n  for lane " + std::to_string(lane) + ", which " +
                   why + '\n');
}

void finish(const Thread& caller) {
  const WarpCall::Kind kind = caller.call.kind;
  const int warp = caller.warp();
  if (is_matrix_call(kind)) return finish_matrix_call(caller);
  // All lanes are together. Only __syncwarp() also orders their memory accesses.
  if ((~caller.call.mask & core.order.existing_lanes(warp)) == 0) core.flush_warp(warp);
  if (kind == WarpCall::Kind::kSync) {
    ++core.events.warp_syncs;
    core.order.meet_in_warp(warp, caller.call.mask);
  }
  if (kind == WarpCall::Kind::kShuffle) ++core.events.exchanges;
  unsigned mask = caller.call.mask;  // of the lanes that have arrived
  for (int lane = 0; lane < 32; ++lane) {
    if (is_absent(warp, lane)) mask &= ~(1u << lane);
  }

  Thread* const lanes = &core.thread(warp * 32);
  unsigned ballot = 0;
  std::uint64_t values[32] = {};
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    values[lane] = lanes[lane].call.value;
    if (values[lane] != 0) ballot |= 1u << lane;
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    Thread& thread = lanes[lane];
    thread.state = Thread::State::kReady;
    thread.result = kind == WarpCall::Kind::kAll ? ballot == mask : ballot;
    if (kind == WarpCall::Kind::kCombine) thread.result = thread.call.combine(values, mask, lane);
    if (kind != WarpCall::Kind::kShuffle) continue;
    const int source = thread.call.source;
    if (core.recorder.on()) core.recorder.note_shuffle(lane ^ source);
    const bool named = (thread.call.mask >> source & 1) != 0;
    thread.result = values[source];
    if (named) continue;
    report_block(Report::kShuffleFromOutside, thread.wait_address,
                 line_of(thread, "reads lane " + std::to_string(source) + " at") +
                     "\n  but the mask does not contain that lane: the value is undefined.\n");
  }
}

}  // namespace

std::uint64_t WarpCalls::call(Thread& self, const WarpCall& call, std::uintptr_t return_address) {
  if (call.kind == WarpCall::Kind::kSync && core.waits.pass(return_address, true)) return 0;
  self.call = call;
  self.wait_address = return_address;
  if (const auto event = event_of(call.kind)) {
    core.block_recorder.mark(self, *event, return_address);
  }
  if ((call.mask >> self.lane() & 1) == 0) {
    report_block(Report::kWrongMask, return_address,
                 line_of(self, "calls") +
                     "\n  but the mask does not contain this lane. The launch ends here.\n");
    core.kill_launch();
  }
  self.state = Thread::State::kInWarpCall;
  if (is_complete(self, call.kind == WarpCall::Kind::kSync)) {
    finish(self);
  } else {
    core.suspend(self, Thread::State::kInWarpCall, return_address);
  }
  return self.result;
}

// True if every lane of the mask has arrived at the operation in which `caller` waits. The search
// begins where the last one ended, so that 32 lanes that arrive one after the other look 64 times,
// not 512.
bool WarpCalls::is_complete(const Thread& caller, bool ignore_absent) {
  int& first = last_missing_[caller.warp()];
  for (int i = 0; i < 32; ++i) {
    const int lane = (first + i) % 32;
    if ((caller.call.mask >> lane & 1) == 0) continue;
    if (ignore_absent && is_absent(caller.warp(), lane)) continue;
    if (!is_missing(caller, lane)) continue;
    first = lane;
    return false;
  }
  return true;
}

bool WarpCalls::begin_without_absent() {
  bool progress = false;
  for (int t = 0; t < core.num_threads(); ++t) {
    const Thread& waiting = core.thread(t);
    if (waiting.state != Thread::State::kInWarpCall) continue;
    if (!is_complete(waiting, !is_matrix_call(waiting.call.kind))) continue;
    if (waiting.call.kind != WarpCall::Kind::kSync) report_missing_lane(waiting);
    finish(waiting);
    progress = true;
  }
  return progress;
}

void WarpCalls::report_stuck() const {
  int t = 0;
  while (core.thread(t).state != Thread::State::kInWarpCall) ++t;
  report_missing_lane(core.thread(t));
}

}  // namespace cuflash::simt
