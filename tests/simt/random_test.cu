// The simulator against independent knowledge: vector clocks say which small random programs race.
// This file computes the clocks for every thread; the simulator, which remembers three accesses of
// each granule, must come to the same answer.
#include <array>
#include <bitset>
#include <random>

#include "device/tile_mark.h"
#include "support.h"

namespace cuflash::simt {
namespace {

constexpr int kThreads = 64;
constexpr int kCells = 4;
constexpr int kSteps = 12;

enum class Kind { kAccess, kBarrier, kSyncWarp, kSyncGroups };

// What each thread does in a step. In kSyncGroups the lanes of each warp meet in groups; `mask` is
// the mask of the thread's group.
struct Step {
  Kind kind;
  struct Action {
    int cell = -1;  // none
    bool write = false;
    unsigned mask = 0;
  } of[kThreads];
};
using Program = std::array<Step, kSteps>;

// Marks of tiles are for reports only: `marks` must not change the verdict.
__global__ void interpret(const Step* program, int* out, bool marks) {
  __shared__ int cells[kCells];
  const int t = threadIdx.x;
  if (t < kCells) cells[t] = 0;
  __syncthreads();
  int sum = 0;
  for (int s = 0; s < kSteps; ++s) {
    const Step::Action action = program[s].of[t];
    if (marks && (s + t) % 3 == 0) mark_tile("step", s);
    switch (program[s].kind) {
      case Kind::kAccess:
        if (action.cell >= 0 && action.write) cells[action.cell] = t;
        if (action.cell >= 0 && !action.write) sum += cells[action.cell];
        break;
      case Kind::kBarrier:
        __syncthreads();
        break;
      case Kind::kSyncWarp:
        __syncwarp();
        break;
      case Kind::kSyncGroups:
        __syncwarp(action.mask);
        break;
    }
  }
  out[t] = sum;
}

Program random_program(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Program program{};
  const int writes_in_ten = 1 + below(5);
  for (Step& step : program) {
    constexpr Kind kKinds[] = {Kind::kAccess,   Kind::kAccess,     Kind::kAccess,    Kind::kBarrier,
                               Kind::kSyncWarp, Kind::kSyncGroups, Kind::kSyncGroups};
    step.kind = kKinds[below(7)];
    if (step.kind == Kind::kAccess) {
      for (int n = 1 + below(3); n > 0; --n) {
        // Few threads, so that their accesses collide.
        const int t = 32 * below(2) + below(4);
        step.of[t] = {below(kCells), below(10) < writes_in_ten, 0};
      }
    }
    if (step.kind == Kind::kSyncGroups) {
      for (int warp = 0; warp < 2; ++warp) {
        unsigned masks[3] = {};
        int group[32];
        for (int lane = 0; lane < 32; ++lane) {
          group[lane] = below(3);
          masks[group[lane]] |= 1u << lane;
        }
        for (int lane = 0; lane < 32; ++lane) step.of[32 * warp + lane].mask = masks[group[lane]];
      }
    }
  }
  return program;
}

// True if some pair of accesses races.
bool races(const Program& program) {
  struct Access {
    int thread, clock;
    bool write;
  };
  using Clock = std::array<int, kThreads>;  // the last step of each thread that it knows of
  std::array<Clock, kThreads> heard{};
  std::vector<Access> accesses[kCells];
  const auto meet = [&](const std::bitset<kThreads>& who) {
    Clock joined{};
    for (int t = 0; t < kThreads; ++t) {
      for (int k = 0; who[t] && k < kThreads; ++k) joined[k] = std::max(joined[k], heard[t][k]);
    }
    for (int t = 0; t < kThreads; ++t) {
      if (who[t]) heard[t] = joined;
    }
  };
  for (int s = 0; s < kSteps; ++s) {
    const Step& step = program[s];
    for (int t = 0; t < kThreads; ++t) {
      heard[t][t] = s + 1;
      const Step::Action& action = step.of[t];
      const int warp = t / 32;
      std::bitset<kThreads> lanes(step.kind == Kind::kSyncWarp ? 0xffffffffu : action.mask);
      lanes <<= 32 * warp;
      const bool first = lanes._Find_first() == static_cast<std::size_t>(t);
      if (step.kind == Kind::kBarrier && t == kThreads - 1) meet(~std::bitset<kThreads>());
      if (step.kind == Kind::kSyncWarp && t % 32 == 31) meet(lanes);
      if (step.kind == Kind::kSyncGroups && first) {
        for (int other = t; other < kThreads; ++other) heard[other][other] = s + 1;
        meet(lanes);
      }
      if (action.cell < 0) continue;
      for (const Access& earlier : accesses[action.cell]) {
        if ((earlier.write || action.write) && earlier.thread != t &&
            heard[t][earlier.thread] < earlier.clock) {
          return true;
        }
      }
      accesses[action.cell].push_back({t, s + 1, action.write});
    }
  }
  return false;
}

TEST_F(AccessTest, RandomProgramsRaceWhereVectorClocksSaySo) {
  std::mt19937 random(1);
  Array<Step> device(kSteps);
  const Array<int> out(kThreads);
  int racy = 0, missed = 0;
  for (int n = 0; n < 400; ++n) {
    const Program program = random_program(random);
    const bool expected = races(program);
    racy += expected;
    device.set({program.begin(), program.end()});
    under_all_schedules([&] {
      run(interpret, {1, kThreads}, device.data(), out.data(), n % 2 == 0);
      const std::vector<Finding> findings = take_findings();
      if (!expected && !findings.empty()) {
        ADD_FAILURE() << "program " << n << ", "
                      << ": no race, but\n"
                      << findings[0].message();
      }
      missed += expected && findings.empty();
    });
  }
  // Both kinds of program must be there for this to be a test.
  EXPECT_GT(racy, 100);
  EXPECT_LT(racy, 300);
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace cuflash::simt
