#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace cuflash::bench {
namespace {

std::string styled(const char* code, const std::string& text) {
  static const bool styles = isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  return styles && !text.empty() ? std::string("\x1b[") + code + 'm' + text + "\x1b[0m" : text;
}

}  // namespace

std::size_t terminal_width() {
  constexpr std::size_t kNarrowest = 60, kOfFile = 120;
  const char* columns = std::getenv("COLUMNS");
  std::size_t width = columns != nullptr ? std::strtoul(columns, nullptr, 10) : 0;
  winsize size{};
  if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width == 0 ? kOfFile : std::max(width, kNarrowest);
}

std::string bold(const std::string& text) { return styled("1", text); }
std::string faint(const std::string& text) { return styled("2", text); }
std::string red(const std::string& text) { return styled("31", text); }

}  // namespace cuflash::bench
