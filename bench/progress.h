// Shows a program's current work on stderr.
#ifndef CUFLASH_BENCH_PROGRESS_H_
#define CUFLASH_BENCH_PROGRESS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cuflash::bench {

// Lives as long as the work. On a terminal it shows one line, once the work has taken more
// than a second, and wipes it at the end. Elsewhere it prints a line if the last one, of any
// work, is ten seconds old.
class Progress {
 public:
  explicit Progress(std::string work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void tick(const std::string& work);
  void report(const std::string& work, int seconds);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// Makes Ctrl-C wipe the line and end the program with exit status 130.
void end_cleanly_on_interrupt();

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_PROGRESS_H_
