// Logs every access of a launch. The grader of exercises compares the logs of two kernels.
#ifndef CUFLASH_SIMT_ACCESS_LOG_H_
#define CUFLASH_SIMT_ACCESS_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simt/access_sites.h"
#include "simt/machine.h"

namespace cuflash::simt {

struct Thread;

// Numbers the arrays of addresses in the order of their first access.
class ArrayNumbers {
 public:
  struct Place {
    int array = -1;  // -1: none
    std::int64_t offset = 0;
  };
  Place place_of(std::uintptr_t address);
  std::vector<LoggedArray> take();

 private:
  std::vector<LoggedArray> arrays_;
  std::map<std::string, int> numbers_;  // by kernel and name
};

// Records the accesses of the running launch by address, and finds the names of their arrays at the
// launch's end, while the arrays still exist.
class AccessRecorder {
 public:
  void turn(bool on) { on_ = on; }
  bool on() const { return on_; }

  // Records the beginning of an access. The compiler may move the write itself after the next
  // accesses, but not beyond the thread's turn, at whose end settle() reads the written value.
  void begin(const Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
             std::uint16_t site);
  void settle(int thread);
  // Records an access that has ended.
  void note(const Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
            std::uint16_t site);

  // Records the beginning of a product of this shape. The caller adds the operands, at once or
  // later.
  std::size_t begin_product(const Thread& first, std::uint16_t site, int rows, int cols);
  LoggedProduct& product(std::size_t number) { return log_.products[number]; }

  // Records a call at an mbarrier or a named barrier, in words.
  void note_barrier_call(const Thread& self, std::uint16_t site, const std::string& words) {
    log_.barrier_calls.push_back({access_of(self, site), words});
  }

  // Records that a lane has received the value of lane ^ distance.
  void note_shuffle(int distance) { ++log_.shuffles[distance]; }

  void begin_launch() {
    raw_.clear(), pending_.clear();
    launch_products_ = log_.products.size();
  }
  void end_launch();
  AccessLog take(const Sites& sites);

 private:
  struct Raw {
    std::uintptr_t address;
    LoggedAccess access;
  };
  LoggedAccess access_of(const Thread& self, std::uint16_t site) const;
  bool on_ = false;
  int launches_ = 0;
  std::vector<Raw> raw_;                             // of this launch
  std::size_t launch_products_ = 0;                  // index of its first product
  std::map<int, std::vector<std::size_t>> pending_;  // by thread: writes that are not settled
  AccessLog log_;
  ArrayNumbers arrays_;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ACCESS_LOG_H_
