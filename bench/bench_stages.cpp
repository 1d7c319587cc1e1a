// Benchmarks every stage over the usual matrix of shapes with Google Benchmark. A benchmark's id is
// the id of the test of the same problem, 03_online_softmax.forward_b4_h32_…, and
// --benchmark_filter takes its beginning.
//
// On a GPU the time is the ladder's (timing.h), passed to Google Benchmark as manual time. The CPU
// simulator measures no time: there the shapes are small, every time is 0, and the counters hold
// the simulator's counts.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "cuflash/workload.h"
#include "harness/stage_call.h"
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

void count(benchmark::State& state, const Stage& stage, Pass pass, const Problem& problem) {
  simt::reset_counts();
  harness::run(stage, pass, problem, unchecked_inputs(pass, {problem, {}, {}}));
  const simt::Counts counts = simt::counts();
  state.SetIterationTime(0.);
  state.counters["counted_read_bytes"] = static_cast<double>(counts.global_read_bytes);
  state.counters["counted_write_bytes"] = static_cast<double>(counts.global_write_bytes);
  state.counters["bank_conflicts"] = static_cast<double>(counts.bank_conflicts);
  for (const simt::Finding& finding : simt::take_findings()) {
    state.SkipWithError(finding.message().c_str());
  }
}

void time(benchmark::State& state, const Stage& stage, Pass pass, const Problem& problem) {
  harness::CallOptions options;
  options.guards = false;
  harness::StageCall call(stage, pass, problem, unchecked_inputs(pass, {problem, {}, {}}), options);
  const double ms = median_ms(call);
  state.SetIterationTime(ms * 1e-3);
  state.counters["TFLOP/s"] = tflops(pass, problem, ms);
}

void add_requested(benchmark::State& state, const Stage& stage, Pass pass, const Problem& problem) {
  const auto traffic = harness::predicted_traffic(stage, pass, problem);
  if (!traffic) return;
  state.counters["requested_bytes"] =
      static_cast<double>(traffic->read_bytes + traffic->write_bytes);
}

void benchmark_one(benchmark::State& state, const Stage& stage, Pass pass, const Problem& problem) {
  const Support support = supports(stage, pass, problem, current_device());
  if (!support) {
    state.SkipWithError(support.reason.c_str());
    return;
  }
  try {
    for (auto iteration : state) {
      (void)iteration;
      (simt::kSimulated ? count : time)(state, stage, pass, problem);
    }
    add_requested(state, stage, pass, problem);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void add_cells(const Stage& stage, Pass pass, DType dtype) {
  for (const int head_dim : {64, 96, 128, 256}) {
    if (!stage.facts(pass).head_dims.has(head_dim)) continue;
    for (const bool causal : {false, true}) {
      for (int seq = kMatrix.shortest; seq <= kMatrix.longest; seq *= 2) {
        const int heads = (kMatrix.hidden + head_dim / 2) / head_dim;  // rounded
        const Problem problem = {
            kMatrix.tokens / seq,   heads, heads, seq, seq, head_dim, dtype, causal,
            default_scale(head_dim)};
        if (seq > kLongestOfQuadratic && stage.facts(pass).keeps_scores) continue;
        const std::string id =
            std::string(stage.name) + '.' + pass_name(pass) + '_' + problem_name(problem);
        benchmark::RegisterBenchmark(id.c_str(),
                                     [&stage, pass, problem](benchmark::State& state) {
                                       benchmark_one(state, stage, pass, problem);
                                     })
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

// Prints the names without Google Benchmark's suffixes, so that they equal the tests' ids.
template <class Reporter>
class PlainNames : public Reporter {
 public:
  using Reporter::Reporter;
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>& runs) override {
    auto plain = runs;
    for (auto& run : plain) {
      run.run_name.iterations.clear();
      run.run_name.time_type.clear();
    }
    Reporter::ReportRuns(plain);
  }
};

void add_context(const Provenance& p) {
  const std::pair<const char*, const std::string&> facts[] = {
      {"device", p.device},     {"driver", p.driver}, {"cuda", p.cuda},      {"backend", p.backend},
      {"compiler", p.compiler}, {"commit", p.commit}, {"command", p.command}};
  for (const auto& [key, value] : facts) benchmark::AddCustomContext(key, value);
  benchmark::AddCustomContext(
      "time", p.backend == "simt" ? "none: the CPU simulator counts accesses and measures no time"
                                  : kTimingMethod);
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  using namespace cuflash;
  bench::add_context(bench::provenance(argc, argv));
  const bool to_file = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::string_view(argument).rfind("--benchmark_out=", 0) == 0;
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (current_device().compute_capability == 0) {
    std::fprintf(
        stderr, "bench_stages: There is no CUDA device. build/simt/bin/bench_stages needs none.\n");
    return 1;
  }
  for (const Stage* stage : stages()) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : kDTypes) {
        bench::add_cells(*stage, pass, dtype);
      }
    }
  }
  bench::PlainNames<benchmark::ConsoleReporter> console(benchmark::ConsoleReporter::OO_None);
  bench::PlainNames<benchmark::JSONReporter> json;
  benchmark::RunSpecifiedBenchmarks(&console, to_file ? &json : nullptr);
  return 0;
}
