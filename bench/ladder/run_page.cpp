// A recorded run as a page that needs no network: docs/player/player.html with all it uses inside.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "ladder/recorded_run.h"

namespace cuflash::bench {
namespace {

const std::string kFolder = CUFLASH_SOURCE_DIR "/docs/player/";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return text.str();
}

void replace(std::string& text, const std::string& mark, const std::string& with) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) throw std::runtime_error("player.html has no \"" + mark + '"');
  text.replace(at, mark.size(), with);
}

// A module as an address that holds it.
std::string data_address(const std::string& source) {
  std::string text = "data:text/javascript;charset=utf-8,";
  for (const unsigned char c : source) {
    text += std::isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02x}", c);
  }
  return text;
}

// Where the page finds its modules: "player/state" is state.js.
std::string import_map() {
  std::map<std::string, std::string> modules;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".js") continue;
    modules["player/" + entry.path().stem().string()] = data_address(text_of(entry.path()));
  }
  return nlohmann::ordered_json{{"imports", modules}}.dump();
}

// In a script element nothing may look like its end.
std::string inside_script(std::string json) {
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

}  // namespace

std::string runs_page(const std::vector<RecordedRun>& runs) {
  std::string page = text_of(kFolder + "player.html");
  replace(page, "/* player.css */", text_of(kFolder + "player.css"));
  replace(page, "/* modules */", import_map());
  replace(page, "/* runs */", inside_script(runs_json(runs)));
  return page;
}

}  // namespace cuflash::bench
