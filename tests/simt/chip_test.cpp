// The simulator's counts against those of Nsight Compute on a GPU, docs/results/<device>:
// sectors.json, of stages, and passes.json, of single accesses to shared memory, both made by
// scripts/maintainer/chip_counts.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "harness/reference_outputs.h"
#include "harness/stage_call.h"
#include "simt/machine.h"
#include "simt/request_counter.h"

namespace cuflash {
namespace {

// The rows of this result from all devices.
std::vector<nlohmann::json> rows_of(const std::string& name) {
  std::vector<nlohmann::json> rows;
  for (const auto& device :
       std::filesystem::directory_iterator(CUFLASH_SOURCE_DIR "/docs/results")) {
    std::ifstream file(device.path() / name);
    if (!file) continue;
    const nlohmann::json result = nlohmann::json::parse(file);
    rows.insert(rows.end(), result["rows"].begin(), result["rows"].end());
  }
  return rows;
}

bool is(const Stage& stage, std::string_view name) { return stage.name == name; }

// True if nvcc loads less from shared memory than the source does. Where 02 and 03 load single
// elements, it loads neighbours together, and keeps in registers what the source reads again.
bool nvcc_loads_less(const Stage& stage) {
  return is(stage, "02_tiled") || is(stage, "03_online_softmax");
}

// How many passes the simulator counts for each of the chip's: at least, and at most. The chip's
// counts differ from run to run, by a few passes too many; 06's backward pass may have a few less,
// too. A copy by cp.async takes more passes where its chunks arrive one by one.
struct Share {
  double least, most;
};
Share share(const Stage& stage, Pass pass) {
  if (is(stage, "06_forward_backward") && pass == CUFLASH_BACKWARD) return {0.995, 1.005};
  return {is(stage, "09_async_copy") ? 0.9 : 0.995, 1};
}

// The pipe's passes that are neither loads, stores nor shuffles, at most, as a share of all: reads
// of special registers, and loads whose lanes are all inactive. 08 and 09 read the thread's number
// anew for each tile (opaque()).
double others(const Stage& stage) {
  return is(stage, "08_swizzle") || is(stage, "09_async_copy") ? 0.2 : 0.05;
}

simt::Counts counts_of(const Stage& stage, Pass pass, const Problem& problem) {
  const auto expected = harness::reference_outputs(pass, problem, {});
  harness::CallOptions options;
  options.guards = false;
  simt::reset_counts();
  harness::run(stage, pass, problem, expected->inputs, options);
  return simt::counts();
}

TEST(Chip, CountsOfStages) {
  if (!simt::counts_accesses()) GTEST_SKIP() << "this build of the simulator counts no accesses";
  int compared = 0;
  for (const auto& row : rows_of("sectors.json")) {
    SCOPED_TRACE(row.dump());
    const Stage* stage = find_stage(row["stage"].get<std::string>());
    Problem problem;
    ASSERT_NE(stage, nullptr);
    ASSERT_TRUE(parse_problem(row["problem"].get<std::string>(), problem));
    const Pass pass = row["pass"] == "forward" ? CUFLASH_FORWARD : CUFLASH_BACKWARD;
    if (!supports(*stage, pass, problem, current_device())) continue;
    const simt::Counts counts = counts_of(*stage, pass, problem);
    EXPECT_EQ(counts.global_read_sectors, row["global_read_sectors"].get<std::uint64_t>());
    EXPECT_EQ(counts.global_write_sectors, row["global_write_sectors"].get<std::uint64_t>());
    ++compared;
    const auto passes = row["shared_wavefronts"].get<double>();
    if (nvcc_loads_less(*stage)) {
      EXPECT_GT(counts.shared_wavefronts, passes);
      continue;
    }
    EXPECT_GE(counts.shared_wavefronts, share(*stage, pass).least * passes);
    EXPECT_LE(counts.shared_wavefronts, share(*stage, pass).most * passes);
    if (passes == 0) continue;
    const auto pipe = row["pipe_wavefronts"].get<std::uint64_t>();
    const std::uint64_t here = counts.shared_wavefronts + counts.exchanges;
    EXPECT_LE(here, 1.005 * pipe);
    EXPECT_GE(here, (1 - others(*stage)) * pipe);
  }
  EXPECT_GT(compared, 0) << "no committed result has sectors";
  for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
}

TEST(Chip, PassesOfAccesses) {
  int compared = 0;
  for (const auto& row : rows_of("passes.json")) {
    SCOPED_TRACE(row.dump());
    std::uintptr_t address[32];
    std::uint32_t mask = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int element = row["elements"][lane];
      if (element < 0) continue;
      mask |= 1u << lane;
      address[lane] = element * row["bytes"].get<std::uintptr_t>();
    }
    const auto kind = row["op"] == "store" ? simt::AccessKind::kWrite : simt::AccessKind::kRead;
    EXPECT_EQ(simt::bank_wavefronts(row["bytes"], kind, mask, address).taken, row["passes"]);
    ++compared;
  }
  EXPECT_GT(compared, 0) << "no committed result has passes";
}

}  // namespace
}  // namespace cuflash
