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

// The n-th read of a thread, by the exercise and by the stage.
struct Pair {
  const Event *mine, *own;
};

// Those in which both read the same array. Of each thread they are in order.
std::vector<std::vector<Pair>> pairs_of(int array, const ReadsOfThreads& mine,
                                        const ReadsOfThreads& own) {
  std::vector<std::vector<Pair>> pairs;
  for (const auto& [thread, wanted] : own) {
    const auto found = mine.find(thread);
    if (found == mine.end()) continue;
    pairs.emplace_back();
    for (std::size_t n = 0; n < std::min(wanted.size(), found->second.size()); ++n) {
      const Event *read = found->second[n], *want = wanted[n];
      if (read->element->array != want->element->array) break;  // Past the end of the array.
      if (want->element->array == array) pairs.back().push_back({read, want});
    }
  }
  return pairs;
}

// From one read of a thread to the next, where the stage goes on to another row of the same tile or
// fragment: the steps of both. All zeros if these are not in a fixed relation.
struct Steps {
  std::int64_t elements = 0, pitch = 0;    // per row of the stage; the stage's is the pitch
  std::int64_t rows = 0, wanted_rows = 0;  // of one step, if all of them are whole rows
};

Steps steps_of(const std::vector<std::vector<Pair>>& pairs) {
  constexpr std::int64_t kRows = 16;  // of a fragment; a tile has a multiple of them
  Steps steps;
  int telling = 0;
  bool whole_rows = true;
  for (const auto& of_thread : pairs) {
    for (std::size_t n = 1; n < of_thread.size(); ++n) {
      const auto [read, want] = of_thread[n];
      const auto [last, last_wanted] = of_thread[n - 1];
      const std::int64_t row = want->element->row, last_row = last_wanted->element->row;
      if (row == last_row || row / kRows != last_row / kRows) continue;
      const std::int64_t off = read->index() - want->index();
      const std::int64_t rise = off - (last->index() - last_wanted->index());
      const std::int64_t elements = want->pitch + rise / (row - last_row);
      if (telling++ == 0) steps = {elements, want->pitch, 0, 0};
      if (rise != (steps.elements - steps.pitch) * (row - last_row)) return {};
      whole_rows &= read->element->column == want->element->column;
      steps.rows = read->element->row - last->element->row, steps.wanted_rows = row - last_row;
    }
  }
  if (!whole_rows) steps.rows = steps.wanted_rows = 0;
  return telling > 1 && steps.elements != steps.pitch ? steps : Steps();
}

std::string nth(std::int64_t n) { return n == 1 ? "every" : "every " + std::to_string(n) + "th"; }

Finding diagnose_from_steps(const Steps& steps, const std::string& array) {
  if (steps.pitch == 0) return {};
  if (steps.wanted_rows > 0 && steps.rows > 0) {
    return {"wrong-row-step",
            " It takes " + nth(steps.rows) + " row of " + array +
                ": the step of the row's index is wrong, or the leading dimension, which counts "
                "elements.",
            "The stage takes " + nth(steps.wanted_rows) + " row."};
  }
  return {kWrongPitch, " From row to row of " + array + " it goes on by " +
                           std::to_string(steps.elements) + " elements, where the rows lie " +
                           std::to_string(steps.pitch) +
                           " apart: the distance from row to row (the leading dimension, in "
                           "elements) is wrong."};
}

// The rule by which the elements that the exercise reads follow from the stage's.
Finding diagnose_from_rule(const std::vector<std::vector<Pair>>& pairs) {
  std::vector<Pair> all;
  for (const auto& of_thread : pairs) all.insert(all.end(), of_thread.begin(), of_thread.end());
  const auto count = static_cast<std::ptrdiff_t>(all.size());
  // `at` gives row and column that the rule makes of the stage's.
  const auto holds = [&](const auto& at) {
    const auto equal = std::count_if(all.begin(), all.end(), [&](const Pair& pair) {
      const auto [row, column] = at(pair.own->element->row, pair.own->element->column);
      return row * pair.own->pitch + column == pair.mine->index();
    });
    return count >= 4 && 20 * equal >= 19 * count;
  };
  using Place = std::pair<std::int64_t, std::int64_t>;
  const auto exchanged_blocks = [](std::int64_t row, std::int64_t column) {
    return Place{column / 16 * 16 + row % 16, row / 16 * 16 + column % 16};
  };
  if (holds([](std::int64_t row, std::int64_t column) { return Place{row, column}; })) return {};
  if (holds(exchanged_blocks)) {
    return {"blocks-exchanged",
            " Each 16 x 16 block is read at the place of another: the index of its first row and "
            "that of its first column have changed places."};
  }
  for (const int n : {64, 32, 16, 8, 4}) {
    const std::string modulo = " the stage's modulo " + std::to_string(n) + ": ";
    if (holds([n](std::int64_t row, std::int64_t column) { return Place{row % n, column}; })) {
      return {"row-offset-missing",
              " The row is always" + modulo + "what is added to it in the stage is missing."};
    }
    if (holds([n](std::int64_t row, std::int64_t column) { return Place{row, column % n}; })) {
      return {"column-offset-missing",
              " The column is always" + modulo + "what is added to it in the stage is missing."};
    }
  }
  const Pair& first = all.front();
  const std::int64_t rows = first.mine->element->row - first.own->element->row,
                     columns = first.mine->element->column - first.own->element->column;
  if (holds([&](std::int64_t row, std::int64_t column) {
        return Place{row + rows, column + columns};
      })) {
    if (first.own->element->column < 0) {
      return {"other-buffer", " It is another buffer than the stage's, which reads " +
                                  box({*first.own->element}) + '.'};
    }
    const std::string off = rows != 0 ? std::to_string(rows) + " rows" : "";
    return {"place-shifted", " Each of these reads is off by " + off +
                                 (rows != 0 && columns != 0 ? " and " : "") +
                                 (columns != 0 ? std::to_string(columns) + " columns" : "") + '.'};
  }
  return {};
}

Finding diagnose_from_pairs(int array, const ReadsOfThreads& mine, const ReadsOfThreads& own) {
  const auto pairs = pairs_of(array, mine, own);
  if (std::all_of(pairs.begin(), pairs.end(), [](const auto& list) { return list.empty(); })) {
    return {};
  }
  const Finding steps = diagnose_from_steps(steps_of(pairs), array_name(array));
  return steps.words.empty() ? diagnose_from_rule(pairs) : steps;
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

Finding diagnose_from_stray_read(const Event& stray, const std::string& meant,
                                 const AccessHistory& mine, const AccessHistory& own) {
  int array = stray.element->array;
  for (const Event& event : own.events()) {
    if (array_name(event.element->array) == meant) array = event.element->array;
  }
  return diagnose_from_pairs(array, mine.reads_of_block(stray), own.reads_of_block(stray));
}

Finding diagnose_from_reads(const Difference& first, const AccessHistory& mine,
                            const AccessHistory& own) {
  if (first.mine == nullptr || first.own == nullptr) return {};
  // An operand's value is known from the first product that takes it, which may be another warp's.
  const bool other_warp = first.mine->thread / 32 != first.own->thread / 32;
  if (first.mine->product != nullptr && other_warp) return {};
  const std::string who = first.mine->product != nullptr
                              ? " Before its first wrong product a warp has"
                              : " Before its first wrong store a thread has";
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
      const std::string words = who + " not read " + box(reads.own) + ", which the stage's reads.";
      const int other = read_in_place_of(array, all_mine, all_own);
      if (other < 0) return {kReadsDiffer, words};
      return {"wrong-array-read", words + " The exercise reads nothing of " + name + ", and " +
                                      array_name(other) + " as much more often: " +
                                      array_name(other) + " stands where " + name + " belongs."};
    }
    if (reads.own.empty()) {
      return {kReadsDiffer,
              who + " also read " + box(reads.mine) + ", which the stage's does not."};
    }
    const std::string words =
        who + " read " + box(reads.mine) + ", where the stage's reads " + box(reads.own) + '.';
    const Finding told = diagnose_from_pairs(array, all_mine, all_own);
    return told.words.empty() ? Finding{kReadsDiffer, words}
                              : Finding{told.id, words + told.words, told.more};
  }
  return {};
}

}  // namespace cuflash::exercises
