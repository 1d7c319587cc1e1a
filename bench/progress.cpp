#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

namespace cuflash::bench {

Progress::Progress(std::string work) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this, work] { tick(work); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
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
    fmt::print(stderr, "\r{} … {} s", work, ++seconds);
    std::fflush(stderr);
  }
  if (seconds > 0) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace cuflash::bench
