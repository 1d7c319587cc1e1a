#include "json_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cuflash::bench {

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace cuflash::bench
