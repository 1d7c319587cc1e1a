#include "ladder/recorded.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuflash/workload.h"

namespace cuflash::bench {
namespace {

namespace fs = std::filesystem;

// The files, in order of their devices' names.
std::vector<fs::path> result_files() {
  std::vector<fs::path> files;
  const fs::path results = fs::path(CUFLASH_SOURCE_DIR) / "docs/results";
  if (!fs::exists(results)) return files;
  for (const auto& device : fs::directory_iterator(results)) {
    const fs::path file = device.path() / "ladder.json";
    if (fs::exists(file)) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_timed_row(const nlohmann::json& row, const Stage& stage, Pass pass) {
  return row.contains("ms") && row.at("stage") == stage.name && row.at("pass") == pass_name(pass);
}

void add_times(const fs::path& file, const Stage& first, const Stage& second, Pass pass,
               std::vector<RecordedTimes>& times) {
  const auto json = nlohmann::json::parse(std::ifstream(file));
  const auto& where = json.at("provenance");
  for (const auto& a : json.at("rows")) {
    if (!is_timed_row(a, first, pass)) continue;
    for (const auto& b : json.at("rows")) {
      if (!is_timed_row(b, second, pass) || a.at("problem") != b.at("problem")) continue;
      times.push_back({where.at("device"), where.at("commit"),
                       where.at("date").get<std::string>().substr(0, 10),
                       file.lexically_relative(CUFLASH_SOURCE_DIR).string(), a.at("problem"),
                       a.at("ms"), b.at("ms")});
    }
  }
}

}  // namespace

std::vector<RecordedTimes> recorded_times(const Stage& first, const Stage& second, Pass pass) {
  std::vector<RecordedTimes> times;
  for (const fs::path& file : result_files()) {
    try {
      add_times(file, first, second, pass, times);
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error(file.string() + ": " + error.what());
    }
  }
  return times;
}

}  // namespace cuflash::bench
