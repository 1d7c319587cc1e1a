#include "ceilings/options.h"

#include <filesystem>

namespace cuflash::bench {
namespace {

// A sentence if no file can be written there: better before the measurement than after it.
std::string check_folder(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder)) return "";
  return "there is no folder \"" + folder.string() + '"';
}

}  // namespace

void declare(CLI::App& app, CeilingOptions& options) {
  auto* json = app.add_option("--json", options.json, "Also write the figures to this file")
                   ->option_text("FILE")
                   ->check(check_folder);
  app.add_flag("--list", options.list, "List the figures and stop; this needs no GPU")
      ->option_text(" ")
      ->disable_flag_override()
      ->excludes(json);
}

}  // namespace cuflash::bench
