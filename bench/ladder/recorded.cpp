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

void add_rows(const fs::path& file, const Stage& stage, Pass pass, std::vector<RecordedRow>& rows) {
  const auto json = nlohmann::json::parse(std::ifstream(file));
  const auto& where = json.at("provenance");
  for (const auto& row : json.at("rows")) {
    if (row.at("stage") != stage.name || row.at("pass") != pass_name(pass)) continue;
    rows.push_back({where.at("device"),
                    where.at("commit"),
                    where.at("date").get<std::string>().substr(0, 10),
                    file.lexically_relative(CUFLASH_SOURCE_DIR).string(),
                    row.at("problem"),
                    {}});
    for (const auto& [name, value] : row.items()) {
      if (value.is_number()) rows.back().numbers[name] = value;
    }
  }
}

}  // namespace

std::vector<RecordedRow> recorded_rows(const Stage& stage, Pass pass) {
  std::vector<RecordedRow> rows;
  for (const fs::path& file : result_files()) {
    try {
      add_rows(file, stage, pass, rows);
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error(file.string() + ": " + error.what());
    }
  }
  return rows;
}

}  // namespace cuflash::bench
