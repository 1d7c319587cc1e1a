#include "divergence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "access_history.h"

namespace cuflash::exercises {
namespace {

// ---- Elements in words --------------------------------------------------------------------------

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string range(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first)
                       : std::to_string(first) + " to " + std::to_string(last);
}

bool is_vector(const std::string& array) {
  return array == "LSE" || array == "delta" || array == "s_lse" || array == "s_delta" ||
         array == "s_scale";
}

std::string in_words(const Element& e) {
  const std::string& name = array_name(e.array);
  const std::string row = name + '[' + std::to_string(e.row) + ']';
  return is_vector(name) ? row : row + '[' + std::to_string(e.column) + ']';
}

// "sK[16 to 31][0 to 63]": the smallest box around some elements of one array.
std::string box(const std::vector<Element>& of) {
  std::int64_t first = of.front().row, last = first;
  int left = of.front().column, right = left;
  for (const Element& e : of) {
    first = std::min(first, e.row), last = std::max(last, e.row);
    left = std::min(left, e.column), right = std::max(right, e.column);
  }
  const std::string& name = array_name(of.front().array);
  const std::string rows = name + '[' + range(first, last) + ']';
  return is_vector(name) ? rows : rows + '[' + range(left, right) + ']';
}

// ---- The first difference -----------------------------------------------------------------------

bool close(double a, double b, double scale) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return a == b || (std::isnan(a) && std::isnan(b));
  }
  return std::abs(a - b) <= 4e-3 * std::max(std::abs(a), std::abs(b)) + 1e-4 * scale;
}

// An element that is written differently: `mine` by the exercise, `own` by the stage. One of them
// is null where only the other writes it.
struct Difference {
  const Event* mine = nullptr;
  const Event* own = nullptr;
  const Event& event() const { return mine != nullptr ? *mine : *own; }
};

// The typical magnitude of what the stage writes to each array.
std::vector<double> magnitudes(const AccessHistory& own) {
  std::vector<double> sum, count;
  for (const Event& event : own.events()) {
    if (!event.write || !std::isfinite(event.value)) continue;
    const auto n = static_cast<std::size_t>(event.element->array);
    if (sum.size() <= n) sum.resize(n + 1), count.resize(n + 1);
    sum[n] += std::abs(event.value), count[n] += 1;
  }
  for (std::size_t n = 0; n < sum.size(); ++n) sum[n] /= std::max(1., count[n]);
  return sum;
}

// Of both kernels, by the number of times that an element was written before.
std::vector<Difference> differences(const AccessHistory& mine, const AccessHistory& own) {
  const std::vector<double> magnitude = magnitudes(own);
  std::vector<Difference> found;
  std::unordered_map<Element, std::size_t, HashOfElement> times;
  for (const Event& event : mine.events()) {
    if (!event.write) continue;
    const auto* const wanted = own.writes(*event.element);
    const std::size_t n = times[*event.element]++;
    if (wanted == nullptr) {
      found.push_back({&event, nullptr});
      continue;
    }
    const Event& want = *(*wanted)[std::min(n, wanted->size() - 1)];
    const auto array = static_cast<std::size_t>(event.element->array);
    if (!close(event.value, want.value, magnitude[array])) found.push_back({&event, &want});
  }
  for (const Event& event : own.events()) {
    if (event.write && mine.writes(*event.element) == nullptr) found.push_back({nullptr, &event});
  }
  const auto moment = [](const Difference& d) {
    const Event& event = d.event();
    return std::make_tuple(event.element->launch, event.block, event.epoch);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Difference& a, const Difference& b) { return moment(a) < moment(b); });
  return found;
}

// Those of the first one's array, at the same time, of the same kind.
std::vector<Difference> first_group(const std::vector<Difference>& all) {
  const Difference& first = all.front();
  const Event& at = first.event();
  std::vector<Difference> group;
  for (const Difference& one : all) {
    const Event& event = one.event();
    if (event.element->launch != at.element->launch || event.block != at.block) continue;
    if (event.element->array != at.element->array || event.epoch != at.epoch) continue;
    const bool same_kind = (one.mine == nullptr) == (first.mine == nullptr) &&
                           (one.own == nullptr) == (first.own == nullptr);
    if (same_kind) group.push_back(one);
  }
  return group;
}

// ---- What the values tell -----------------------------------------------------------------------

constexpr const char* kReadsDiffer = "reads-differ";

struct Finding {
  const char* id = "";
  std::string words;
};

template <class Holds>
bool most(const std::vector<Difference>& group, const Holds& holds) {
  const auto count = std::count_if(group.begin(), group.end(), holds);
  return 10 * count >= 9 * static_cast<std::ptrdiff_t>(group.size());
}

bool usable(const Difference& d) {
  return std::isfinite(d.mine->value) && std::isfinite(d.own->value) &&
         std::abs(d.own->value) > 1e-6;
}

// The common value of f over the group; NaN if there is none.
template <class F>
double common(const std::vector<Difference>& group, const F& f) {
  std::vector<double> values;
  for (const Difference& d : group) {
    if (usable(d)) values.push_back(f(d));
  }
  if (values.size() < 3) return NAN;
  std::sort(values.begin(), values.end());
  const double middle = values[values.size() / 2];
  const auto near = [&](double x) { return std::abs(x - middle) <= 0.02 * std::abs(middle); };
  const auto count = std::count_if(values.begin(), values.end(), near);
  return 10 * count >= 9 * static_cast<std::ptrdiff_t>(values.size()) ? middle : NAN;
}

// True if the stage's values are multiplied by one factor in each part of the group, and there are
// parts enough to tell.
template <class PartOf>
bool one_factor_each(const std::vector<Difference>& group, const PartOf& part_of) {
  std::map<decltype(part_of(group.front())), std::vector<Difference>> parts;
  for (const Difference& d : group) {
    if (usable(d)) parts[part_of(d)].push_back(d);
  }
  int telling = 0, agreeing = 0;
  for (const auto& [part, members] : parts) {
    if (members.size() < 3) continue;
    ++telling;
    agreeing += std::isfinite(
        common(members, [](const Difference& d) { return d.mine->value / d.own->value; }));
  }
  return telling > 1 && 10 * agreeing >= 9 * telling;
}

bool about(double a, double b) { return std::abs(a - b) <= 0.02 * std::abs(b); }

// A factor as the source would have it.
std::string factor_in_words(double factor, const Problem& p) {
  const double scale = p.softmax_scale, log2e = 1.4426950408889634;
  const std::pair<double, const char*> known[] = {
      {-1, "the sign is wrong"},
      {scale, "softmax_scale once too often"},
      {1 / scale, "softmax_scale is missing"},
      {scale * scale, "softmax_scale twice too often"},
      {1 / (scale * scale), "divided by softmax_scale where it is to be multiplied"},
      {log2e, "a factor log2(e) too much: the base is 2 in one place and e in another"},
      {1 / log2e, "a factor log2(e) is missing: the base is 2 in one place and e in another"},
      {scale * log2e, "softmax_scale and log2(e) once too often"},
      {1 / (scale * log2e), "softmax_scale and log2(e) are missing"},
      {2, "it is added twice"},
      {0.5, "half of it is missing"},
      {p.heads_q / p.heads_kv, "it is added for each query head of the group"},
  };
  for (const auto& [value, words] : known) {
    if (value != 1 && about(factor, value)) return std::string(" (") + words + ')';
  }
  return "";
}

// The stage's value of another element at the same time, from its last write before.
class Moment {
 public:
  Moment(const AccessHistory& own, const Event& at) : own_(own), at_(at) {}

  // NaN where the stage has none.
  double value(std::int64_t row, int column) const {
    return value(at_.element->array, row, column);
  }
  double value(int array, std::int64_t row, int column) const {
    Element element = *at_.element;
    element.array = array, element.row = row, element.column = column;
    const auto* const writes = own_.writes(element);
    if (writes == nullptr) return NAN;
    double latest = NAN;
    for (const Event* event : *writes) {
      if (event->epoch <= at_.epoch) latest = event->value;
    }
    return latest;
  }

 private:
  const AccessHistory& own_;
  const Event& at_;
};

// Where the values of the group belong, if they are the stage's values of other elements.
std::string belongs_to(const std::vector<Difference>& group, const AccessHistory& own) {
  const Moment moment(own, *group.front().own);
  const Element& first = *group.front().mine->element;
  const auto is = [&](const auto& row, const auto& column) {
    return most(group, [&](const Difference& d) {
      const Element& e = *d.mine->element;
      return close(d.mine->value, moment.value(row(e), column(e)), 0);
    });
  };
  const auto own_row = [](const Element& e) { return e.row; };
  const auto own_column = [](const Element& e) { return e.column; };
  if (is([](const Element& e) { return std::int64_t{e.column}; },
         [](const Element& e) { return static_cast<int>(e.row); })) {
    return "rows and columns are exchanged";
  }
  for (std::int64_t shift = -128; shift <= 128; ++shift) {
    if (shift == 0) continue;
    const std::string by = std::to_string(std::abs(shift));
    if (is([&](const Element& e) { return e.row + shift; }, own_column)) {
      return "each is the value of " + by + " rows " + (shift < 0 ? "before" : "after");
    }
    if (is(own_row, [&](const Element& e) { return static_cast<int>(e.column + shift); })) {
      return "each is the value of " + by + " columns " + (shift < 0 ? "before" : "after");
    }
  }
  for (std::int64_t row = 0; row < 128; ++row) {
    if (first.row != row && is([&](const Element&) { return row; }, own_column)) {
      return "all are the values of row " + std::to_string(row);
    }
  }
  return "";
}

Finding told_by_values(const std::vector<Difference>& group, const AccessHistory& own,
                       const Problem& p) {
  const auto mine_is = [&](const auto& test) {
    return most(group, [&](const Difference& d) { return test(d.mine->value); });
  };
  if (mine_is([](double x) { return x == 0; })) return {"stores-zero", "all of these are 0"};
  if (mine_is([](double x) { return std::isnan(x); }))
    return {"stores-nan", "all of these are NaN"};
  if (mine_is([](double x) { return std::isinf(x); })) {
    return {"stores-infinity", "all of these are infinite"};
  }
  const double factor =
      common(group, [](const Difference& d) { return d.mine->value / d.own->value; });
  if (std::isfinite(factor)) {
    return {"value-scaled", "each is " + number(factor) + " times what the stage stores" +
                                factor_in_words(factor, p)};
  }
  const std::string home = belongs_to(group, own);
  if (!home.empty()) return {"value-misplaced", home};
  const auto row_of = [](const Difference& d) { return d.mine->element->row; };
  const auto lane_of = [&](const Difference& d) {
    return std::make_pair(row_of(d), d.mine->thread);
  };
  if (one_factor_each(group, row_of)) {
    return {"factor-of-row",
            "all of a row have the same wrong factor: the row's maximum, sum or LSE is wrong, or "
            "that of another row"};
  }
  if (one_factor_each(group, lane_of)) {
    return {"factor-of-lane-differs",
            "those of one lane have the same wrong factor, and other lanes of the row another: the "
            "row's maximum or sum has not come to all of its lanes, or from all of them"};
  }
  const double power = common(group, [](const Difference& d) {
    return d.own->value > 0 && d.mine->value > 0 ? std::log(d.mine->value) / std::log(d.own->value)
                                                 : NAN;
  });
  if (std::isfinite(power)) {
    return {"exponent-scaled",
            "its logarithm is " + number(power) + " times the stage's" + factor_in_words(power, p)};
  }
  const double shift =
      common(group, [](const Difference& d) { return d.mine->value - d.own->value; });
  if (std::isfinite(shift)) {
    return {"value-shifted", "each is off by " + number(shift)};
  }
  return {"store-differs", ""};
}

// ---- What the reads tell ------------------------------------------------------------------------

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

// The first array of which the writer of the element has read other elements than the stage's.
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

// ---- In words -----------------------------------------------------------------------------------

std::string who(const Event& event) {
  std::string text =
      "block " + std::to_string(event.block) + ", thread " + std::to_string(event.thread);
  if (event.tile >= 0) text += ", tile " + std::to_string(event.tile);
  return text;
}

std::string where(const AccessHistory& history, const Event& event) {
  const auto& place = history.place(event);
  return place.location + ", `" + place.source + '`';
}

std::vector<Element> elements_of(const std::vector<Difference>& group) {
  std::vector<Element> elements;
  for (const Difference& d : group) elements.push_back(*d.event().element);
  return elements;
}

Diagnosis in_words(const std::vector<Difference>& group, const AccessHistory& mine,
                   const AccessHistory& own, const Sample& sample) {
  const Difference& first = group.front();
  const Event& event = first.event();
  const std::string in = " In " + sample.name + ' ';
  const std::string many = group.size() == 1 ? "" : ", and others in " + box(elements_of(group));
  if (first.mine == nullptr) {
    return {kNeverStored,
            in + "the exercise never writes " + in_words(*event.element) + many +
                ". The stage does, at " + where(own, event) + " (" + who(event) + ").",
            ""};
  }
  if (first.own == nullptr) {
    return {"stray-store",
            in + "the first store that the stage does not make is to " + in_words(*event.element) +
                many + ", at " + where(mine, event) + " (" + who(event) + ").",
            ""};
  }
  const Finding values = told_by_values(group, own, sample.problem);
  std::string message = in + "the first store that differs from the stage's own is to " +
                        in_words(*event.element) + ": " + number(first.mine->value) +
                        " instead of " + number(first.own->value) + ", at " + where(mine, event) +
                        " (" + who(event) + "); all stores before it are equal.";
  if (group.size() > 1) message += " Others differ in " + box(elements_of(group)) + '.';
  if (!values.words.empty()) message += " Of those that differ, " + values.words + '.';
  const Finding reads = told_by_reads(first, mine, own);
  if (!reads.words.empty()) message += ' ' + reads.words;
  return {reads.words.empty() ? values.id : reads.id, message, ""};
}

// The smallest of the samples that are bad; if there is one, of those whose rows have several keys
// of ordinary scores.
template <class Bad>
const Sample* smallest(const std::vector<Sample>& samples, const Bad& bad) {
  const auto size = [](const Sample& s) {
    const Problem& p = s.problem;
    const bool ordinary = s.input == harness::InputKind::kGaussian && p.seq_kv > 8;
    const double pairs = double(p.batch) * p.heads_q * p.seq_q * p.seq_kv;
    return pairs * p.head_dim * (ordinary ? 1 : 1e6);
  };
  const Sample* found = nullptr;
  for (const Sample& s : samples) {
    if (bad(s) && (found == nullptr || size(s) < size(*found))) found = &s;
  }
  return found;
}

struct Histories {
  AccessHistory mine, own;
};
Histories histories(const Stage& exercise, const Stage& own, const Sample& s) {
  return {AccessHistory(exercise, s.pass, s.problem, s.want->inputs),
          AccessHistory(own, s.pass, s.problem, s.want->inputs)};
}

Elements accessed(const AccessHistory& history) {
  Elements elements;
  for (const Event& event : history.events()) elements.insert(*event.element);
  return elements;
}

// How many columns of an array the stage accesses; 0 if none.
int columns_of(const Elements& known, const Element& of) {
  int columns = 0;
  for (const Element& e : known) {
    if (e.launch == of.launch && e.array == of.array) columns = std::max(columns, e.column + 1);
  }
  return columns;
}

}  // namespace

Diagnosis divergence(const Stage& exercise, const Stage& own, const std::vector<Sample>& samples) {
  const Sample* const sample = smallest(samples, [](const Sample& s) { return !s.right(); });
  if (sample == nullptr) return {};
  const auto [mine, theirs] = histories(exercise, own, *sample);
  const auto all = differences(mine, theirs);
  if (all.empty()) return {};
  return in_words(first_group(all), mine, theirs, *sample);
}

Diagnosis stray_access(const Stage& exercise, const Stage& own,
                       const std::vector<Sample>& samples) {
  const Sample* const sample =
      smallest(samples, [](const Sample& s) { return !s.check.faults.empty(); });
  if (sample == nullptr) return {};
  const auto [mine, theirs] = histories(exercise, own, *sample);
  const Elements known = accessed(theirs);
  const auto is_stray = [&](const Event& event) {
    return event.shared && known.count(*event.element) == 0;
  };
  const auto& events = mine.events();
  const auto first = std::find_if(events.begin(), events.end(), is_stray);
  if (first == events.end()) return {};
  std::vector<Element> like_it;
  for (const Event& event : events) {
    if (event.site == first->site && event.element->array == first->element->array &&
        is_stray(event)) {
      like_it.push_back(*event.element);
    }
  }
  const int columns = columns_of(known, *first->element);
  const bool padding = first->element->column >= columns && columns > 0;
  return {padding ? "padding-accessed" : "other-elements-accessed",
          where(mine, *first) + " " + (first->write ? "writes " : "reads ") + box(like_it) +
              " in " + sample->name + ", which the stage never accesses. " +
              (padding ? "These columns are padding: the elements of a row end with column " +
                             std::to_string(columns - 1) + ". The"
                       : std::string("An")) +
              " index or the distance from row to row (the leading dimension) is wrong there.",
          ""};
}

}  // namespace cuflash::exercises
