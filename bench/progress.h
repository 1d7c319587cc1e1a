// Says on a terminal what a program is busy with, once it has taken more than a second.
#ifndef CUFLASH_BENCH_PROGRESS_H_
#define CUFLASH_BENCH_PROGRESS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cuflash::bench {

// Lives as long as the work does, and wipes its line at the end. Writes to stderr, and only if that
// is a terminal.
class Progress {
 public:
  explicit Progress(std::string work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void tick(const std::string& work);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_PROGRESS_H_
