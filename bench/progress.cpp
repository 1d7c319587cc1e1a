#include "progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace cuflash::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPeriod = std::chrono::seconds(10);  // between lines if stderr is not a terminal
constexpr int kInterrupted = 128 + SIGINT;

const bool terminal = isatty(STDERR_FILENO) != 0;
Clock::time_point last_line = Clock::now();

// The text, shortened so that it fits into one line with `end`: a wrapped line cannot be wiped.
std::string fitted(const std::string& text, const std::string& end) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col <= end.size()) return text + end;
  return text.substr(0, size.ws_col - 1u - end.size()) + end;
}

void on_interrupt(int) {
  constexpr char kWipe[] = "\r\x1b[K";
  if (terminal) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kWipe, sizeof kWipe - 1);
  }
  _exit(kInterrupted);
}

}  // namespace

Progress::Progress(std::string work) : thread_([this, work] { tick(work); }) {}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Progress::tick(const std::string& work) {
  std::unique_lock<std::mutex> lock(mutex_);
  int seconds = 0;
  while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) {
    report(work, ++seconds);
  }
  if (terminal && seconds > 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::report(const std::string& work, int seconds) {
  const std::string end = fmt::format(" ({} s)", seconds);
  if (terminal) {
    fmt::print(stderr, "\r{}", fitted(work, end));
  } else if (Clock::now() - last_line >= kPeriod) {
    fmt::print(stderr, "{}{}\n", work, end);
    last_line = Clock::now();
  }
  std::fflush(stderr);
}

void end_cleanly_on_interrupt() { std::signal(SIGINT, on_interrupt); }

}  // namespace cuflash::bench
