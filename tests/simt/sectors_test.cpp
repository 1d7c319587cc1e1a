// Against the chip: the sectors that the simulator counts are those that Nsight Compute counted on
// a GPU (docs/results/<device>/sectors.json, made by scripts/maintainer/chip_counts.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "harness/reference_outputs.h"
#include "harness/stage_call.h"
#include "simt/machine.h"

namespace cuflash {
namespace {

TEST(Sectors, AsCountedOnTheChip) {
  if (!simt::counts_accesses()) GTEST_SKIP() << "this build of the simulator counts no accesses";
  int compared = 0;
  for (const auto& device :
       std::filesystem::directory_iterator(CUFLASH_SOURCE_DIR "/docs/results")) {
    std::ifstream file(device.path() / "sectors.json");
    if (!file) continue;
    const nlohmann::json result = nlohmann::json::parse(file);
    for (const auto& row : result["rows"]) {
      SCOPED_TRACE(row.dump());
      const Stage* stage = find_stage(row["stage"].get<std::string>());
      Problem problem;
      ASSERT_NE(stage, nullptr);
      ASSERT_TRUE(parse_problem(row["problem"].get<std::string>(), problem));
      const Pass pass = row["pass"] == "forward" ? CUFLASH_FORWARD : CUFLASH_BACKWARD;
      if (!supports(*stage, pass, problem, current_device())) continue;
      const harness::InputSource source;
      const auto expected = harness::reference_outputs(pass, problem, source);
      harness::CallOptions options;
      options.guards = false;
      simt::reset_counts();
      harness::run(*stage, pass, problem, expected->inputs, options);
      const simt::Counts counts = simt::counts();
      EXPECT_EQ(counts.global_read_sectors, row["global_read_sectors"].get<std::uint64_t>());
      EXPECT_EQ(counts.global_write_sectors, row["global_write_sectors"].get<std::uint64_t>());
      // Passes over shared memory, within 2 % where every access is a vector or a fragment of f16:
      // nvcc reads the equal elements of a fragment of leading dimension 0 once. Of other accesses
      // it merges some, and keeps in registers what the source reads again.
      if (row.contains("shared_wavefronts") && std::stoi(stage->name) >= 5) {
        const auto wavefronts = row["shared_wavefronts"].get<double>();
        EXPECT_NEAR(counts.shared_wavefronts, wavefronts, 0.02 * wavefronts);
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 0) << "no committed result has sectors";
  for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
}

}  // namespace
}  // namespace cuflash
