// The accesses of one call, element by element, in the words of the kernel's arrays.
#ifndef CUFLASH_GRADER_ACCESS_HISTORY_H_
#define CUFLASH_GRADER_ACCESS_HISTORY_H_

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuflash/stage.h"
#include "harness/stage_call.h"
#include "products.h"
#include "simt/machine.h"

namespace cuflash::exercises {

// An element of an array: of shared memory that of one block, of global memory that of one launch.
// Its row and column are those of the source, whatever the padding of the rows.
struct Element {
  int launch = 0;
  std::uint64_t block = 0;  // 0 for global memory
  int array = 0;            // array_name() has its name
  std::int64_t row = 0;
  int column = 0;  // -1: of an array of tiles

  bool operator==(const Element& other) const {
    return std::tie(launch, block, array, row, column) ==
           std::tie(other.launch, other.block, other.array, other.row, other.column);
  }
};
struct HashOfElement {
  std::size_t operator()(const Element& e) const {
    std::size_t hash = 0;
    for (const std::int64_t part : {std::int64_t{e.launch}, static_cast<std::int64_t>(e.block),
                                    std::int64_t{e.array}, e.row, std::int64_t{e.column}}) {
      hash = hash * 1000003 + static_cast<std::size_t>(part);
    }
    return hash;
  }
};
using Elements = std::unordered_set<Element, HashOfElement>;

// Equal names have equal numbers, in every history.
const std::string& array_name(int array);

// A read or a write of an element; or an element of an operand, when a product takes it.
struct Event {
  const Element* element = nullptr;
  std::uint64_t block = 0;
  int thread = 0, epoch = 0, tile = -1;
  std::uint16_t site = 0;
  int pitch = 1;  // elements from row to row in memory
  bool write = false, shared = false;
  double value = 0;                  // that was written
  const Product* product = nullptr;  // whose operand holds the element, one of a head's matrix
  const Event* like = nullptr;       // the stage's, of an exercise's product

  std::int64_t index() const { return element->row * pitch + element->column; }
};

// An array of a call as its source sees it.
struct Array {
  int number = 0;                 // array_name() has its name
  std::size_t element_bytes = 0;  // 0: an access is one element
  int columns = 1;
  bool shared = false, workspace = false;
};

// The multiprocessors that a call is told of (CallOptions::sms). Where blocks stay there are two:
// each computes several tiles, and none computes all of them.
inline int told_sms(const Stage& stage, Pass pass) { return stage.facts(pass).resident ? 2 : 0; }

using ReadsOfThreads = std::map<int, std::vector<const Event*>>;

class AccessHistory {
 public:
  // Runs the call under the simulator's schedule, and leaves no finding. `own` is that of the
  // stage, which an exercise's is compared with.
  AccessHistory(const Stage& stage, Pass pass, const Problem& problem,
                const harness::Inputs& inputs, const AccessHistory* own = nullptr);

  const std::vector<Event>& events() const { return events_; }
  // All that are read or written.
  const Elements& elements() const { return elements_; }
  // The writes of an element, in order; null if there are none.
  const std::vector<const Event*>* writes(const Element& element) const;
  // How often a lane received the value of lane ^ n in a shuffle.
  const std::array<std::uint64_t, 32>& shuffles() const { return shuffles_; }
  const simt::AccessLog::Place& place(std::uint16_t site) const { return sites_[site]; }
  const simt::AccessLog::Place& place(const Event& event) const { return place(event.site); }
  // Those at mbarriers and named barriers, in the order in which the simulator ran.
  const std::vector<simt::LoggedBarrierCall>& barrier_calls() const { return barrier_calls_; }
  // By the order in which they are issued.
  const std::vector<Product>& products() const { return products_; }
  // What a thread has read in its launch before it did this; of a product, what its warp has.
  Elements reads_before(const Event& event) const;
  // What each thread of its block has read, in order, until the barrier after it.
  ReadsOfThreads reads_of_block(const Event& event) const;

 private:
  void add(const Array& array, const simt::LoggedAccess& access, const Stage& stage, Pass pass,
           const Problem& problem);
  void add(const Product& product, const AccessHistory* own);
  Elements elements_;
  std::vector<Event> events_;
  std::unordered_map<Element, std::vector<const Event*>, HashOfElement> writes_;
  std::vector<simt::AccessLog::Place> sites_;
  std::array<std::uint64_t, 32> shuffles_ = {};
  std::vector<Product> products_;
  std::vector<simt::LoggedBarrierCall> barrier_calls_;
  // The last values of operands, and the stage's: a value that a product takes again is no event.
  std::unordered_map<const Element*, std::pair<float, float>> last_;
};

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_ACCESS_HISTORY_H_
