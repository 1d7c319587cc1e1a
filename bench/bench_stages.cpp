// Benchmarks every stage over the usual matrix of shapes with Google Benchmark, whose options and
// compare.py it takes (docs/google_benchmark.md). A name has the parts of a problem from left to
// right: 14_persistent/fwd/f16/d64/causal/b4h32s4096.
//
// On a GPU an iteration is a call, timed by CUDA events. The CPU simulator measures no time: there
// the shapes are small, every time is 0, and the counters hold the simulator's counts.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cuflash/workload.h"
#include "harness/stage_call.h"
#include "harness/traffic.h"
#include "measure.h"
#include "provenance.h"
#include "simt/simulator.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

// The shapes: about this hidden size (heads · head_dim), B · S tokens, and a range of S.
struct Matrix {
  int tokens, hidden, shortest, longest;
};

constexpr Matrix kMatrix =
    simt::kSimulated ? Matrix{128, 128, 32, 128} : Matrix{16384, 2048, 512, 16384};

struct Cell {
  const Stage* stage;
  Pass pass;
  Problem problem;

  std::string name() const {
    return fmt::format("{}/{}/{}/d{}/{}/b{}h{}s{}", stage->name,
                       pass == CUFLASH_FORWARD ? "fwd" : "bwd", dtype_name(problem.dtype),
                       problem.head_dim, problem.causal ? "causal" : "full", problem.batch,
                       problem.heads_q, problem.seq_q);
  }
};

// A warm call of the current cell. Google Benchmark runs a cell several times, with more and more
// iterations.
class WarmCall {
 public:
  // Queues the call once.
  double ms(const Cell& cell) {
    if (cell.name() != name_) prepare(cell);
    return time_once(queue_, stream_);
  }

 private:
  void prepare(const Cell& cell) {
    harness::CallOptions options;
    options.guards = false;
    name_.clear();
    call_.reset();  // Before the next one needs its memory.
    call_ = std::make_unique<harness::StageCall>(
        *cell.stage, cell.pass, cell.problem, unchecked_inputs(cell.pass, {cell.problem, {}, {}}),
        options);
    warm_up(queue_, stream_);
    name_ = cell.name();
  }

  harness::Stream stream_;
  std::unique_ptr<harness::StageCall> call_;
  std::string name_;
  const Queue queue_ = [this](const harness::Stream& stream) { call_->queue(stream); };
};

void time(benchmark::State& state, const Cell& cell, WarmCall& call) {
  double ms = 0.;
  for (auto iteration : state) {
    (void)iteration;
    const double once = call.ms(cell);
    state.SetIterationTime(once * 1e-3);
    ms += once;
  }
  state.counters["TFLOP/s"] = tflops(cell.pass, cell.problem, ms / double(state.iterations()));
}

void count(benchmark::State& state, const Cell& cell) {
  for (auto iteration : state) {
    (void)iteration;
    simt::reset_counts();
    harness::run(*cell.stage, cell.pass, cell.problem,
                 unchecked_inputs(cell.pass, {cell.problem, {}, {}}));
    state.SetIterationTime(0.);
  }
  const simt::Counts counts = simt::counts();
  state.counters["read_bytes"] = double(counts.global_read_bytes);
  state.counters["write_bytes"] = double(counts.global_write_bytes);
  state.counters["bank_conflicts"] = double(counts.bank_conflicts);
  if (const auto formula = harness::predicted_traffic(*cell.stage, cell.pass, cell.problem)) {
    state.counters["predicted_bytes"] = double(formula->read_bytes + formula->write_bytes);
  }
  for (const simt::Finding& finding : simt::take_findings()) {
    state.SkipWithError(finding.message().c_str());
  }
}

// The cells that this device supports.
std::vector<Cell> cells() {
  const Device device = current_device();
  std::vector<Cell> list;
  for (const Stage* stage : stages()) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : kDTypes) {
        for (const int head_dim : {64, 96, 128, 256}) {
          for (const bool causal : {false, true}) {
            for (int seq = kMatrix.shortest; seq <= kMatrix.longest; seq *= 2) {
              const int heads = (kMatrix.hidden + head_dim / 2) / head_dim;  // rounded
              const Problem problem = {
                  kMatrix.tokens / seq,   heads, heads, seq, seq, head_dim, dtype, causal,
                  default_scale(head_dim)};
              if (seq > kLongestOfQuadratic && stage->facts(pass).keeps_scores) continue;
              if (supports(*stage, pass, problem, device)) {
                list.push_back({stage, pass, problem});
              }
            }
          }
        }
      }
    }
  }
  return list;
}

// Adds a cell. It is timed for so many seconds; 0: for as long as the command line says.
void add(const Cell& cell, WarmCall& call, double min_time) {
  auto* added = benchmark::RegisterBenchmark(cell.name().c_str(), [cell, &call](auto& state) {
    try {
      simt::kSimulated ? count(state, cell) : time(state, cell, call);
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  });
  added->UseManualTime()->Unit(benchmark::kMillisecond);
  if (simt::kSimulated) {
    added->Iterations(1);  // Another has the same counts.
  } else if (min_time > 0.) {
    added->MinTime(min_time);
  }
}

// Leaves Google Benchmark's suffixes out of the names.
template <class Reporter>
class PlainNames : public Reporter {
 public:
  using Reporter::Reporter;
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>& runs) override {
    auto plain = runs;
    for (auto& run : plain) {
      run.run_name.iterations.clear();
      run.run_name.min_time.clear();
      run.run_name.time_type.clear();
    }
    Reporter::ReportRuns(plain);
  }
};

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const Provenance& p) {
  Facts facts;
  auto json = to_json(p);
  json.erase("date");  // Google Benchmark adds it.
  for (const auto& [key, value] : json.items()) facts.emplace_back(key, value);
  facts.emplace_back("time", simt::kSimulated
                                 ? "none: the CPU simulator counts accesses and measures no time"
                                 : "CUDA events around each call, L2 warm; the mean of the "
                                   "iterations after a warm-up");
  return facts;
}

// Prints the facts instead of the host's CPU, and of the columns those with a meaning.
class Console : public benchmark::ConsoleReporter {
 public:
  Console(Facts facts, std::size_t width)
      : ConsoleReporter(OO_None), facts_(std::move(facts)), width_(int(width)) {}

  bool ReportContext(const Context&) override {
    for (const auto& [key, value] : facts_) GetErrorStream() << key << ": " << value << '\n';
    return true;
  }

 protected:
  void PrintHeader(const Run& run) override {
    std::string line = fmt::format("{:<{}}", "Benchmark", width_);
    if (!simt::kSimulated) line += fmt::format("{:>16}{:>12}", "Time", "Iterations");
    for (const auto& [name, value] : run.counters) line += fmt::format("{:>17}", name);
    GetOutputStream() << line << '\n' << std::string(line.size(), '-') << '\n';
  }

  void PrintRunData(const Run& run) override {
    if (run.counters.empty()) return ConsoleReporter::PrintRunData(run);  // An error.
    std::string line = fmt::format("{:<{}}", run.benchmark_name(), width_);
    if (!simt::kSimulated) {
      line += fmt::format("{:>13.4g} ms{:>12}", run.GetAdjustedRealTime(), run.iterations);
    }
    for (const auto& [name, value] : run.counters) {
      line += simt::kSimulated ? fmt::format("{:>17.0f}", value.value)
                               : fmt::format("{:>17.4g}", value.value);
    }
    GetOutputStream() << line << '\n';
  }

 private:
  const Facts facts_;
  const int width_;
};

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  using namespace cuflash;
  const bench::Facts facts = bench::facts_of(bench::provenance(argc, argv));
  for (const auto& [key, value] : facts) benchmark::AddCustomContext(key, value);
  const auto given = [&](const char* option) {
    return std::any_of(argv, argv + argc, [&](const char* argument) {
      return std::string_view(argument).rfind(option, 0) == 0;
    });
  };
  const bool to_file = given("--benchmark_out=");
  const double min_time = given("--benchmark_min_time=") ? 0. : 0.1;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (current_device().compute_capability == 0) {
    std::fprintf(
        stderr, "bench_stages: There is no CUDA device. build/simt/bin/bench_stages needs none.\n");
    return 1;
  }
  bench::WarmCall call;
  std::size_t width = 0;
  for (const bench::Cell& cell : bench::cells()) {
    bench::add(cell, call, min_time);
    width = std::max(width, cell.name().size());
  }
  bench::PlainNames<bench::Console> console(facts, width);
  bench::PlainNames<benchmark::JSONReporter> json;
  benchmark::RunSpecifiedBenchmarks(&console, to_file ? &json : nullptr);
  return 0;
}
