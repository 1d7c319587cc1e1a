// Every access of a launch, for whoever compares two kernels: the grader of exercises.
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

// The arrays that addresses belong to, numbered in the order in which they are met.
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

// Keeps the accesses of the running launch by address, and gives them their arrays' names when the
// launch ends: then the arrays are still there.
class AccessRecorder {
 public:
  void turn(bool on) { on_ = on; }
  bool on() const { return on_; }

  // An access that begins. The compiler may put the write itself behind the next accesses, but not
  // behind the end of the thread's turn: only then is it known what was written, settle().
  void begin(const Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
             std::uint16_t site);
  void settle(int thread);
  // The same of an access that is over.
  void note(const Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
            std::uint16_t site);

  // A product of this shape begins. The caller fills in the operands, at once or when it has them.
  std::size_t begin_product(const Thread& first, std::uint16_t site, int rows, int cols);
  LoggedProduct& product(std::size_t number) { return log_.products[number]; }

  // A lane has received the value of another, whose number is lane ^ distance.
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
  std::size_t launch_products_ = 0;                  // where its products begin
  std::map<int, std::vector<std::size_t>> pending_;  // by thread: writes that are not settled
  AccessLog log_;
  ArrayNumbers arrays_;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ACCESS_LOG_H_
