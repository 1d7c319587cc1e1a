// Runs the prologue's kernels and prints what each shows: prologue [LESSON...]
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/host/launch.h"
#include "harness/owners.h"
#include "harness/printed.h"
#include "kernels.cuh"
#include "simt/simulator.h"

namespace cuflash::prologue {
namespace {

// An array in device memory.
template <class T>
class Array {
 public:
  Array(const char* name, const std::vector<T>& values)
      : memory_(values.size() * sizeof(T), name), count_(values.size()) {
    harness::check(cudaMemcpy(data(), values.data(), memory_.bytes(), cudaMemcpyHostToDevice),
                   "the copy to the device");
  }
  Array(const char* name, std::size_t count) : Array(name, std::vector<T>(count)) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    harness::check(cudaMemcpy(host.data(), data(), memory_.bytes(), cudaMemcpyDeviceToHost),
                   "the copy from the device");
    return host;
  }

 private:
  harness::DeviceBuffer memory_;
  std::size_t count_;
};

// 0, 1, 2, ...
std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// Launches the kernel, waits for its end, and returns what it counted.
template <class... Params, class... Args>
simt::Counts run(void (*kernel)(Params...), const LaunchConfig& config, const Args&... args) {
  simt::reset_counts();
  if (launch(kernel, config, args...) != FlashAttentionError::SUCCESS) {
    throw std::runtime_error("a kernel was not launched");
  }
  harness::check(cudaDeviceSynchronize(), "a kernel");
  return simt::counts();
}

// What only the simulator counts; elsewhere a dash.
std::string counted(std::uint64_t count) {
  return simt::counts_accesses() ? std::to_string(count) : "-";
}

// One row of numbers behind a title.
template <class T>
void print_row(const char* title, const std::vector<T>& values, const char* format) {
  std::printf("%-8s", title);
  for (const T value : values) std::printf(format, value);
  std::printf("\n");
}

void print_matrix(const char* name, const std::vector<float>& values, std::size_t columns) {
  for (std::size_t begin = 0; begin < values.size(); begin += columns) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(begin);
    print_row(begin == 0 ? name : "",
              std::vector<float>(row, row + static_cast<std::ptrdiff_t>(columns)), " %8.4f");
  }
}

// ---- The lessons
// -----------------------------------------------------------------------------------

void attention_lesson() {
  std::printf("One block of 2 threads. Thread i computes row i.\n\n");
  const Array<float> Q("Q", {1, 0, 1, 1}), K("K", {1, 0, 0, 1, 1, 1}),
      V("V", {10, 0, 0, 10, 20, 30});
  const Array<float> S("S", 2 * kKeys), P("P", 2 * kKeys), O("O", 2 * kHeadDim);
  const float scale = 1.f / std::sqrt(static_cast<float>(kHeadDim));
  run(attention, {1, 2}, Q.data(), K.data(), V.data(), scale, S.data(), P.data(), O.data());
  print_matrix("S", S.values(), kKeys);
  print_matrix("P", P.values(), kKeys);
  print_matrix("O", O.values(), kHeadDim);
}

void threads_lesson() {
  std::printf("A grid of 3 blocks, 4 threads each, for 10 elements.\n\n");
  const Array<int> block("block", 10), thread("thread", 10);
  run(who, {3, 4}, block.data(), thread.data(), std::int64_t{10});
  std::vector<int> element(10);
  for (int n = 0; n < 10; ++n) element[static_cast<std::size_t>(n)] = n;
  print_row("element", element, " %3d");
  print_row("block", block.values(), " %3d");
  print_row("thread", thread.values(), " %3d");
}

void blocks_lesson() {
  std::printf("A grid of 8 blocks. Each draws a number when its turn comes.\n\n");
  print_row("block", std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}, " %3d");
  const std::vector<const char*> orders = {"inorder", "reversed", "random:1", "random:2"};
  for (const char* order : orders) {
    simt::Schedule schedule;
    if (simt::parse_schedule(order, schedule)) simt::set_schedule(schedule);
    const Array<int> next("next", 1), number("number", 8);
    run(draw, {8, 1}, next.data(), number.data());
    print_row(simt::kSimulated ? order : "drawn", number.values(), " %3d");
  }
  simt::set_schedule({});
}

void warps_lesson() {
  std::printf("A block of 64 threads.\n\n");
  const Array<int> warp("warp", 64), lane("lane", 64);
  const Array<float> sum("sum", 64), in("in", numbers(64)), out("out", 64);
  run(lanes, {1, 64}, warp.data(), lane.data(), sum.data());
  const auto warps = warp.values(), numbers_of = lane.values();
  const auto sums = sum.values();
  std::printf("thread  warp  lane  sum over the warp's lanes\n");
  for (const std::size_t t : {0, 1, 31, 32, 33, 63}) {
    std::printf("%6zu %5d %5d %6.0f\n", t, warps[t], numbers_of[t], double(sums[t]));
  }
  std::printf("\nwidth  requests to read  bytes\n");
  for (const int width : {64, 32, 16, 1}) {
    const auto c = run(branch, {1, 64}, in.data(), out.data(), width);
    std::printf("%5d %17s %6s\n", width, counted(c.global_read_requests).c_str(),
                counted(c.global_read_bytes).c_str());
  }
}

void registers_lesson() {
  constexpr int kRows = 100;
  std::printf("A block of 32 threads; each adds up %d numbers.\n\n", kRows);
  const Array<float> in("in", numbers(32 * kRows)), out("out", 32);
  std::printf("running sum in  bytes read  bytes written  sum of thread 0\n");
  const auto show = [&](const char* where, const simt::Counts& c) {
    std::printf("%-14s %11s %14s %16.0f\n", where, counted(c.global_read_bytes).c_str(),
                counted(c.global_write_bytes).c_str(), double(out.values()[0]));
  };
  show("global memory", run(sum_in_memory, {1, 32}, in.data(), out.data(), kRows));
  show("a register", run(sum_in_register, {1, 32}, in.data(), out.data(), kRows));
}

void sectors_lesson() {
  std::printf("One warp. Lane t reads the float in[t * stride].\n\n");
  const Array<float> in("in", numbers(32 * 64)), out("out", 32);
  std::printf("stride  bytes asked for  sectors  bytes moved  cache lines\n");
  for (const int stride : {0, 1, 2, 4, 8, 32, 64}) {
    const auto c = run(read_strided, {1, 32}, in.data(), out.data(), stride);
    const auto moved = 32 * c.global_read_sectors;
    std::set<int> lines;  // in[n] is n, so `out` tells which elements were read: 32 to a line.
    for (const float element : out.values()) lines.insert(static_cast<int>(element) / 32);
    std::printf("%6d %16s %8s %12s %12zu\n", stride, counted(c.global_read_bytes).c_str(),
                counted(c.global_read_sectors).c_str(), counted(moved).c_str(), lines.size());
  }
}

void shared_lesson() {
  std::printf("A block of %d threads reverses 0, 1, 2, ...\n\n", kThreads);
  const Array<float> in("in", numbers(kThreads));
  const auto show = [&](const char* name, void (*kernel)(const float*, float*)) {
    const Array<float> out("out", kThreads);
    run(kernel, {1, kThreads}, in.data(), out.data());
    int correct = 0;
    for (int t = 0; t < kThreads; ++t) {
      correct += out.values()[static_cast<std::size_t>(t)] == float(kThreads - 1 - t) ? 1 : 0;
    }
    std::printf("%-16s %d of %d elements are correct\n", name, correct, kThreads);
  };
  show("reverse", reverse);
  show("reverse_too_soon", reverse_too_soon);
}

void banks_lesson() {
  std::printf("One warp. Lane t reads the float tile[t * pitch] of shared memory.\n\n");
  const Array<float> out("out", 32);
  std::printf("pitch  wavefronts  bank conflicts\n");
  for (const int pitch : {0, 1, 2, 3, 4, 8, 16, 32, 33}) {
    run(read_column, {1, 32}, out.data(), pitch);
    simt::LineCounts read;
    for (const auto& line : simt::line_counts()) {
      if (line.shared && !line.write) read = line;
    }
    std::printf("%5d %11s %15s\n", pitch, counted(read.wavefronts).c_str(),
                counted(read.conflicts).c_str());
  }
}

// What an SM has for its blocks: "Technical Specifications per Compute Capability" in the CUDA C++
// Programming Guide.
struct Multiprocessor {
  const char* device;
  int threads, blocks, registers, shared_kb;
  int block_shared_kb;  // the most for one block
};
constexpr Multiprocessor kMultiprocessors[] = {
    {"H200", 2048, 32, 65536, 228, 227},
    {"RTX 4060 Laptop", 1536, 24, 65536, 100, 99},
};

// How many blocks an SM runs at a time. The system takes 1 KB of shared memory for each block, and
// allocates registers in multiples of eight per thread.
int resident_blocks(const Multiprocessor& sm, int threads, int registers, int shared_kb) {
  if (shared_kb > sm.block_shared_kb) return 0;
  return std::min({sm.threads / threads, sm.blocks, sm.shared_kb / (shared_kb + 1),
                   sm.registers / (threads * ((registers + 7) / 8 * 8))});
}

// One line of a table: a quantity, and what fits into the SM of each device.
void print_resident(int quantity, int threads, int registers, int shared_kb) {
  std::printf("%9d", quantity);
  for (const auto& sm : kMultiprocessors) {
    const int blocks = resident_blocks(sm, threads, registers, shared_kb);
    if (blocks == 0) {
      std::printf("%26s", "the block is too large");
    } else {
      std::printf("%4d block%s %2d of %d warps", blocks, blocks == 1 ? ", " : "s,",
                  blocks * threads / 32, sm.threads / 32);
    }
  }
  std::printf("\n");
}

void occupancy_lesson() {
  constexpr int kRows = 64, kBlockThreads = 128, kFewRegisters = 32;
  using Storage = SharedStorage<kRows>;
  const Array<float> K("K", numbers(kRows * 64)), out("out", kRows);
  run(sum_tile<kRows>, {1, kBlockThreads, shared_layout<Storage>()}, K.data(), out.data());
  std::printf("A block of %d threads with a tile of %zu KB: its row 0 adds up to %.0f.\n",
              kBlockThreads, sizeof(Storage) / 1024, double(out.values()[0]));
  std::printf("How many such blocks an SM runs at a time, with other tiles:\n\n tile, KB");
  for (const auto& sm : kMultiprocessors) std::printf("%26s", sm.device);
  std::printf("\n");
  for (const int kb : {1, 8, 16, 32, 64, 96, 128, 227}) {
    print_resident(kb, kBlockThreads, kFewRegisters, kb);
  }
  std::printf("\nThe same with a tile of 1 KB and more registers for each thread:\n\nregisters\n");
  for (const int registers : {32, 64, 128, 255}) {
    print_resident(registers, kBlockThreads, registers, 1);
  }
}

void instructions_lesson() {
  constexpr int kCount = 64;
  std::printf("A block of %d threads. Thread n computes y[n] = a x[n] + y[n], with a = 0.5.\n\n",
              kCount);
  const Array<float> x("x", numbers(kCount)), y("y", numbers(kCount));
  const auto c = run(scale_and_add, {1, kCount}, 0.5f, x.data(), y.data(), std::int64_t{kCount});
  std::printf("y[0], y[1], y[2]: %g, %g, %g\n", double(y.values()[0]), double(y.values()[1]),
              double(y.values()[2]));
  std::printf("requests to read %s, to write %s\n", counted(c.global_read_requests).c_str(),
              counted(c.global_write_requests).c_str());
}

struct Lesson {
  const char* name;
  void (*run)();
  bool has_race;  // on purpose
};
constexpr Lesson kLessons[] = {
    {"attention", attention_lesson, false}, {"threads", threads_lesson, false},
    {"blocks", blocks_lesson, false},       {"warps", warps_lesson, false},
    {"registers", registers_lesson, false}, {"sectors", sectors_lesson, false},
    {"shared", shared_lesson, true},        {"banks", banks_lesson, false},
    {"occupancy", occupancy_lesson, false}, {"instructions", instructions_lesson, false},
};

// Runs a lesson and prints what the simulator found. False if that is not what it should find.
bool teach(const Lesson& lesson) {
  lesson.run();
  const auto findings = simt::take_findings();
  for (const auto& finding : findings) std::printf("\n%s", finding.message().c_str());
  return !simt::counts_accesses() || lesson.has_race == !findings.empty();
}

}  // namespace
}  // namespace cuflash::prologue

int main(int argc, char** argv) {
  namespace prologue = cuflash::prologue;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--list"}) {
    for (const auto& lesson : prologue::kLessons) std::printf("%s\n", lesson.name);
    return 0;
  }
  std::size_t done = 0;
  try {
    for (const auto& lesson : prologue::kLessons) {
      if (!words.empty() && words.front() != lesson.name) continue;
      if (words.empty()) std::printf("%s---- %s ----\n\n", done == 0 ? "" : "\n", lesson.name);
      if (!prologue::teach(lesson)) {
        std::fprintf(stderr, "cuflash: %s\n",
                     lesson.has_race ? "the simulator missed a race in reverse_too_soon"
                                     : "a kernel of this lesson is wrong; see above");
        return 1;
      }
      ++done;
    }
    cuflash::harness::check_printed();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuflash: %s\n", error.what());
    return 1;
  }
  return done > 0 && words.size() <= 1 ? 0 : 2;
}
