// A recorded run as a page that needs no network: docs/player/player.html with all its files
// inside.
#include <fmt/core.h>
#include <zlib.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "json_file.h"
#include "ladder/recorded_run.h"

namespace cuflash::bench {
namespace {

const std::string kFolder = CUFLASH_SOURCE_DIR "/docs/player/";

void replace(std::string& text, const std::string& mark, const std::string& with) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) throw std::runtime_error("player.html has no \"" + mark + '"');
  text.replace(at, mark.size(), with);
}

// A module as a data address.
std::string data_address(const std::string& source) {
  std::string text = "data:text/javascript;charset=utf-8,";
  for (const unsigned char c : source) {
    text += std::isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02x}", c);
  }
  return text;
}

// The addresses of the page's modules: "player/state" is state.js.
std::string import_map() {
  std::map<std::string, std::string> modules;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".js") continue;
    modules["player/" + entry.path().stem().string()] = data_address(text_of_file(entry.path()));
  }
  return nlohmann::ordered_json{{"imports", modules}}.dump();
}

std::string gzipped(std::string text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip + MAX_WBITS, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot begin");
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t n = 0; n < bytes.size(); n += 3) {
    unsigned three = 0;
    for (std::size_t k = n; k < n + 3; ++k) {
      three = three << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u);
    }
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63];
  }
  for (std::size_t n = 0; n < (3 - bytes.size() % 3) % 3; ++n) text[text.size() - 1 - n] = '=';
  return text;
}

}  // namespace

std::string runs_page(const std::string& json) {
  std::string page = text_of_file(kFolder + "player.html");
  replace(page, "/* player.css */", text_of_file(kFolder + "player.css"));
  replace(page, "/* modules */", import_map());
  replace(page, "/* runs */", base64(gzipped(json)));
  return page;
}

}  // namespace cuflash::bench
