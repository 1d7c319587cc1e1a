// Warp-wide operations: shuffles, votes, reductions and __syncwarp().
#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

// The event that such an operation is; none for an access to a matrix, which makes requests.
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

}  // namespace

std::uint64_t Core::warp_call(Thread& self, const WarpCall& call, std::uintptr_t return_address) {
  if (call.kind == WarpCall::Kind::kSync && waits.pass(return_address, true)) return 0;
  self.call = call;
  if (const auto event = event_of(call.kind)) block_recorder.mark(self, *event, return_address);
  if ((call.mask >> self.lane() & 1) == 0) {
    const SourcePlace& here = source_place(return_address);
    report_block(Report::kWrongMask, return_address,
                 "  Warp " + std::to_string(self.warp()) + " lane " + std::to_string(self.lane()) +
                     " calls " + short_location(here) + "   " + source_text(here) +
                     "\n  but the mask does not name this lane. The launch ends here.\n");
    kill_launch();
  }
  self.state = Thread::State::kInWarpCall;
  self.wait_address = return_address;
  if (warp_call_complete(self, call.kind == WarpCall::Kind::kSync)) {
    finish_warp_call(self);
  } else {
    suspend(self, Thread::State::kInWarpCall, return_address);
  }
  return self.result;
}

// True if the lane does not exist or has exited.
bool Core::is_absent(int warp, int lane) const {
  const int t = warp * 32 + lane;
  return t >= num_threads_ || threads_[t].state == Thread::State::kExited;
}

// True if this lane of the same warp has not arrived where `waiting` waits.
bool Core::is_missing(const Thread& waiting, int lane) const {
  if (is_absent(waiting.warp(), lane)) return true;
  const Thread& other = threads_[waiting.warp() * 32 + lane];
  if (other.state != Thread::State::kInWarpCall || other.call.kind != waiting.call.kind ||
      other.call.mask != waiting.call.mask || other.call.combine != waiting.call.combine) {
    return true;
  }
  // Lanes may shuffle from different lines, but a matrix operation is one instruction. Copies that
  // the compiler made of it are that instruction.
  return is_matrix_call(waiting.call.kind) && other.wait_address != waiting.wait_address &&
         source_place(other.wait_address).chain != source_place(waiting.wait_address).chain;
}

// True if every lane of the mask has arrived at the operation in which `caller` waits. The search
// begins where the last one ended, so that 32 lanes that arrive one after the other look 64 times,
// not 512.
bool Core::warp_call_complete(const Thread& caller, bool ignore_absent) {
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

// The lanes of the warp that the block has, whether they have exited or not.
unsigned Core::existing_lanes(int warp) const {
  return ~0u >> (32 - std::min(32, num_threads_ - warp * 32));
}

// What each lane of the mask did before happens before what any of them does next. An operation is
// one of the whole warp if its mask names all of the warp's lanes in the block. Which lanes have
// exited by then must not matter, because that depends on the schedule.
void Core::order_lanes(int warp, unsigned mask) {
  const Stamp now = next_moment();
  Thread* const lanes = &threads_[warp * 32];
  mask &= existing_lanes(warp);
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    lanes[__builtin_ctz(rest)].last_event = now;
  }
  if (fences_.in_use()) {
    std::vector<ThreadFences*> fences;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      fences.push_back(&lanes[__builtin_ctz(rest)].fences);
    }
    fences_.meet(fences);
  }
  if (knowledge_in_use_) {
    std::vector<Thread*> met;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      met.push_back(&lanes[__builtin_ctz(rest)]);
    }
    share_knowledge(met);
  }
  if (mask == existing_lanes(warp)) {
    last_warp_event_[warp] = now;
    return;
  }
  Stamp joined[32] = {};
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const Stamp* synced = lanes[__builtin_ctz(rest)].synced;
    for (int k = 0; k < 32; ++k) joined[k] = std::max(joined[k], synced[k]);
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) joined[__builtin_ctz(rest)] = now;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    std::copy_n(joined, 32, lanes[__builtin_ctz(rest)].synced);
  }
}

void Core::finish_warp_call(const Thread& caller) {
  const WarpCall::Kind kind = caller.call.kind;
  const int warp = caller.warp();
  if (is_matrix_call(kind)) return finish_matrix_call(caller);
  // All lanes are together. Only __syncwarp() also orders their memory accesses.
  if ((~caller.call.mask & existing_lanes(warp)) == 0) flush_warp(warp);
  if (kind == WarpCall::Kind::kSync) {
    ++events_.warp_syncs;
    order_lanes(warp, caller.call.mask);
  }
  if (kind == WarpCall::Kind::kShuffle) ++events_.exchanges;
  unsigned mask = caller.call.mask;  // of the lanes that are here
  for (int lane = 0; lane < 32; ++lane) {
    if (is_absent(warp, lane)) mask &= ~(1u << lane);
  }

  Thread* const lanes = &threads_[warp * 32];
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
    if (recorder.on()) recorder.note_shuffle(lane ^ source);
    const bool named = (thread.call.mask >> source & 1) != 0;
    thread.result = values[source];
    if (named) continue;
    const SourcePlace& here = source_place(thread.wait_address);
    report_block(Report::kShuffleFromOutside, thread.wait_address,
                 "  Warp " + std::to_string(warp) + " lane " + std::to_string(lane) +
                     " reads lane " + std::to_string(source) + " at " + short_location(here) +
                     "   " + source_text(here) +
                     "\n  but the mask does not name that lane: the value is undefined.\n");
  }
}

// Called by the last lane to arrive. It does not order the lanes' memory accesses: in CUDA only
// __syncwarp() does.
void Core::finish_matrix_call(const Thread& caller) {
  const int warp = caller.warp();
  flush_warp(warp);
  switch (caller.call.kind) {
    case WarpCall::Kind::kProduct:
      finish_product(warp);
      break;
    case WarpCall::Kind::kMma:
      finish_mma(warp);
      break;
    case WarpCall::Kind::kLdMatrix:
      finish_ldmatrix(warp);
      break;
    default:
      finish_matrix_access(caller);
  }
  for (int lane = 0; lane < 32; ++lane) threads_[warp * 32 + lane].state = Thread::State::kReady;
}

// No thread can go on, and some wait in warp-wide operations. CUDA lets an operation begin without
// the lanes that have exited; any other missing lane will never arrive.
void Core::end_warp_calls() {
  const Thread* stuck = nullptr;
  bool progress = false, waits_for_some = false;
  for (int t = 0; t < num_threads_; ++t) {
    const Thread& waiting = threads_[t];
    waits_for_some |= waiting.waits_for_some();
    if (waiting.state != Thread::State::kInWarpCall) continue;
    if (!warp_call_complete(waiting, !is_matrix_call(waiting.call.kind))) {
      stuck = stuck == nullptr ? &waiting : stuck;
      continue;
    }
    if (waiting.call.kind != WarpCall::Kind::kSync) report_stuck(waiting);
    finish_warp_call(waiting);
    progress = true;
  }
  if (progress) return;
  if (waits_for_some) return report_deadlock();
  report_stuck(*stuck);
  killed_ = true;
}

void Core::report_stuck(const Thread& waiting) {
  const bool matrix = is_matrix_call(waiting.call.kind);
  int lane = 0;
  while (lane < 31 && ((waiting.call.mask >> lane & 1) == 0 || !is_missing(waiting, lane))) ++lane;
  const int t = waiting.warp() * 32 + lane;
  const std::string advice = matrix ? "A matrix operation needs all 32 lanes. The launch ends here."
                                    : "The mask must name only lanes that reach the operation.";
  std::string why;
  if (t >= num_threads_) {
    why = "does not exist: the block has fewer threads. " + advice;
  } else if (threads_[t].state == Thread::State::kExited) {
    why = "has exited. " + advice;
  } else {
    const bool at_barrier = threads_[t].state == Thread::State::kAtBarrier;
    why = std::string("waits in ") +
          (at_barrier ? "__syncthreads()"
           : matrix   ? "another warp-wide operation"
                      : "another warp-wide operation, or one with another mask,") +
          " at " + short_location(source_place(threads_[t].wait_address)) +
          ". The launch ends here.";
  }
  const SourcePlace& here = source_place(waiting.wait_address);
  report_block(
      matrix ? Report::kMatrixWithoutAllLanes : Report::kMaskNamesAbsentLane, waiting.wait_address,
      "  Warp " + std::to_string(waiting.warp()) + " lane " + std::to_string(waiting.lane()) +
          " waits at " + short_location(here) + "   " + source_text(here) + "\n  for lane " +
          std::to_string(lane) + ", which " + why + '\n');
}

}  // namespace cuflash::simt
