#include "json_file.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/json_text.h"

namespace cuflash::bench {

namespace {

std::string in_lines(const nlohmann::ordered_json& json, int levels) {
  if (levels == 0 || json.empty() || !json.is_structured()) return harness::json_text(json);
  std::string lines;
  for (const auto& [name, entry] : json.items()) {
    lines += lines.empty() ? "\n" : ",\n";
    if (json.is_object()) lines += harness::json_text(name) + ':';
    lines += in_lines(entry, levels - 1);
  }
  return json.is_object() ? '{' + lines + "\n}" : '[' + lines + "\n]";
}

}  // namespace

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  write_text(path, in_lines(json, 2) + '\n');
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return text.str();
}

}  // namespace cuflash::bench
