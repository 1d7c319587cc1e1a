#include <algorithm>
#include <map>
#include <utility>

#include "difference.h"
#include "divergence.h"

namespace cuflash::exercises {
namespace {

constexpr const char* kReadsDiffer = "reads-differ";

// The elements of one array that only one of two threads reads.
struct Reads {
  std::vector<Element> mine, own;
};

Reads of_array(const Elements& mine, const Elements& own, int array) {
  Reads reads;
  for (const Element& e : mine) {
    if (e.array == array && own.count(e) == 0) reads.mine.push_back(e);
  }
  for (const Element& e : own) {
    if (e.array == array && mine.count(e) == 0) reads.own.push_back(e);
  }
  return reads;
}

// The distances between the rows of an array, as the exercise takes them to be and as they are.
struct Pitches {
  std::int64_t mine = 0, own = 0;
  bool whole_rows = true;  // it reads the right columns, of other rows
};

// Where nothing else is wrong: the k-th read of each thread lies the further off, the further down
// its row is in a tile or fragment. 0 if that is not so.
Pitches pitches_of(int array, const ReadsOfThreads& mine, const ReadsOfThreads& own) {
  constexpr std::int64_t kRows = 16;  // of a fragment; a tile has a multiple of them
  Pitches pitches;
  int telling = 0;
  for (const auto& [thread, wanted] : own) {
    const auto found = mine.find(thread);
    if (found == mine.end()) continue;
    const Event *before = nullptr, *before_wanted = nullptr;
    for (std::size_t n = 0; n < std::min(wanted.size(), found->second.size()); ++n) {
      const Event *read = found->second[n], *want = wanted[n];
      if (read->element->array != want->element->array) break;  // Past the end of the array.
      if (want->element->array != array) continue;
      const Event* const last = std::exchange(before, read);
      const Event* const last_wanted = std::exchange(before_wanted, want);
      if (last == nullptr) continue;
      const std::int64_t row = want->element->row, last_row = last_wanted->element->row;
      if (row == last_row || row / kRows != last_row / kRows) continue;
      const std::int64_t off = read->index() - want->index();
      const std::int64_t rise = off - (last->index() - last_wanted->index());
      if (telling++ == 0) pitches = {want->pitch + rise / (row - last_row), want->pitch};
      pitches.whole_rows &= rise % want->pitch == 0;
      if (rise != (pitches.mine - pitches.own) * (row - last_row)) return {};
    }
  }
  return telling > 1 && pitches.mine != pitches.own ? pitches : Pitches();
}

// How often each array is read.
std::map<int, std::size_t> counts_of(const ReadsOfThreads& reads) {
  std::map<int, std::size_t> counts;
  for (const auto& [thread, list] : reads) {
    for (const Event* read : list) ++counts[read->element->array];
  }
  return counts;
}

// The array that the exercise reads in the place of this one, which it does not read at all; -1 if
// there is none.
int read_in_place_of(int array, const ReadsOfThreads& mine, const ReadsOfThreads& own) {
  auto of_mine = counts_of(mine), of_own = counts_of(own);
  if (of_mine[array] > 0) return -1;
  for (const auto& [other, count] : of_mine) {
    if (other != array && count == of_own[other] + of_own[array]) return other;
  }
  return -1;
}

}  // namespace

Finding told_by_reads(const Difference& first, const AccessHistory& mine,
                      const AccessHistory& own) {
  if (first.mine == nullptr || first.own == nullptr) return {};
  const Elements by_mine = mine.reads_before(*first.mine), by_own = own.reads_before(*first.own);
  std::vector<int> arrays;
  for (const auto* history : {&mine, &own}) {
    for (const Event& event : history->events()) {
      const int array = event.element->array;
      if (event.write || std::count(arrays.begin(), arrays.end(), array) > 0) continue;
      arrays.push_back(array);
    }
  }
  for (const int array : arrays) {
    const Reads reads = of_array(by_mine, by_own, array);
    if (reads.mine.empty() && reads.own.empty()) continue;
    const ReadsOfThreads all_mine = mine.reads_of_block(*first.mine),
                         all_own = own.reads_of_block(*first.own);
    const std::string name = array_name(array);
    if (reads.mine.empty()) {
      const std::string words =
          "Before that it has not read " + box(reads.own) + ", which the stage's thread reads.";
      const int other = read_in_place_of(array, all_mine, all_own);
      if (other < 0) return {kReadsDiffer, words};
      return {"wrong-array-read", words + " The exercise reads nothing of " + name + ", and " +
                                      array_name(other) + " as much more often: " +
                                      array_name(other) + " stands where " + name + " belongs."};
    }
    if (reads.own.empty()) {
      return {kReadsDiffer, "Before that it has also read " + box(reads.mine) +
                                ", which the stage's thread does not."};
    }
    const std::string words = "Before that it has read " + box(reads.mine) +
                              ", where the stage's thread reads " + box(reads.own) + '.';
    const Pitches pitches = pitches_of(array, all_mine, all_own);
    if (pitches.own == 0) return {kReadsDiffer, words};
    const std::string step = words + " From row to row of " + name + " it goes on by " +
                             std::to_string(pitches.mine) + " elements, where the rows lie " +
                             std::to_string(pitches.own) + " apart: ";
    if (pitches.whole_rows) {
      return {"wrong-row-step", step +
                                    "the step of the row's index is wrong, or the leading "
                                    "dimension, which counts elements."};
    }
    return {kWrongPitch,
            step + "the distance from row to row (the leading dimension, in elements) is wrong."};
  }
  return {};
}

}  // namespace cuflash::exercises
