#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "difference.h"

namespace cuflash::exercises {
namespace {

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

bool about(double a, double b) { return std::abs(a - b) <= 0.02 * std::abs(b); }

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
    const double factor =
        common(members, [](const Difference& d) { return d.mine->value / d.own->value; });
    agreeing += std::isfinite(factor) && !about(factor, 1);  // A factor near 1 is only rounding.
  }
  return telling > 1 && 10 * agreeing >= 9 * telling;
}

// True if of the rows of the group most elements of some size are in it.
bool are_whole_rows(const std::vector<Difference>& group, const AccessHistory& own) {
  const Event& first = *group.front().own;
  double largest = 0;
  std::set<std::int64_t> rows;
  for (const Difference& d : group) {
    largest = std::max(largest, usable(d) ? std::abs(d.own->value) : 0);
    rows.insert(d.own->element->row);
  }
  const auto has_size = [&](const Event& event) { return std::abs(event.value) > 0.05 * largest; };
  const auto differ = std::count_if(group.begin(), group.end(),
                                    [&](const Difference& d) { return has_size(*d.own); });
  std::ptrdiff_t all = 0;
  for (const Event& event : own.events()) {
    const Element &e = *event.element, &of = *first.element;
    const bool same = e.launch == of.launch && event.block == first.block && e.array == of.array &&
                      event.epoch == first.epoch && event.tile == first.tile;
    all += event.write && same && has_size(event) && rows.count(e.row) > 0;
  }
  return 10 * differ >= 8 * all;
}

// " (rows 1 apart have taken each other's)": where the wrong factors of such rows cancel.
std::string exchanged_rows(const std::vector<Difference>& group) {
  std::map<std::int64_t, double> factors;
  for (const Difference& d : group) {
    if (usable(d)) factors.try_emplace(d.own->element->row, d.mine->value / d.own->value);
  }
  for (int n = 1; n < 64; n *= 2) {
    int pairs = 0, cancel = 0;
    for (const auto& [row, factor] : factors) {
      const auto other = factors.find(row ^ n);
      if (other == factors.end()) continue;
      ++pairs, cancel += about(factor * other->second, 1);
    }
    if (pairs > 3 && 10 * cancel >= 9 * pairs) {
      return " (of two queries that are " + std::to_string(n) +
             " apart, each has taken the other's)";
    }
  }
  return "";
}

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
      {1. / 4, "a sum over the four lanes of a quad is summed over them again"},
      {1. / 32, "a sum over the lanes of a warp is summed over them again"},
      {1. / 1024, "the factor 2^10 of P, 2^kLog2OfP, is missing"},
      {1024, "the factor 2^10 of P, 2^kLog2OfP, is there once too often"},
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
  Moment(const AccessHistory& own, const Event& at) : own_(own), at_(at) {
    if (at.product != nullptr) return;
    before_ = 0;
    for (const Event* event : *own.writes(*at.element)) {
      if (event == &at) break;
      before_ += event->epoch == at.epoch;
    }
  }

  // NaN where the stage has none.
  double value(std::int64_t row, int column) const {
    return value(at_.element->array, row, column);
  }
  double value(int array, std::int64_t row, int column) const {
    Element element = *at_.element;
    element.array = array, element.row = row, element.column = column;
    const auto* const writes = own_.writes(element);
    if (writes == nullptr) return NAN;
    double latest = NAN, of_warp = NAN;
    int passed = 0;
    for (const Event* event : *writes) {
      if (event->epoch > at_.epoch) continue;
      latest = event->value;
      if (event->epoch == at_.epoch && passed++ == before_) break;
      const bool same = event->product != nullptr && at_.product != nullptr &&
                        event->product->log.at.thread == at_.product->log.at.thread;
      if (same) of_warp = event->value;
    }
    return std::isnan(of_warp) ? latest : of_warp;
  }

 private:
  const AccessHistory& own_;
  const Event& at_;
  int before_ = -1;  // stores to its element since the last barrier
};

// Where the values of the group belong, if they are the stage's values of other elements.
std::string belongs_to(const std::vector<Difference>& group, const AccessHistory& own) {
  const Moment moment(own, *group.front().own);
  const auto is = [&](int rows, int exchange) {
    return most(group, [&](const Difference& d) {
      const Element& e = *d.mine->element;
      return close(d.mine->value, moment.value(e.row + rows, e.column ^ exchange), 0);
    });
  };
  for (int rows = -128; rows <= 128; ++rows) {
    if (rows == 0 || !is(rows, 0)) continue;
    return "each is the value of " + std::to_string(std::abs(rows)) + " rows " +
           (rows < 0 ? "before" : "after");
  }
  for (int n = 1; n < 64; n *= 2) {
    if (!is(0, n)) continue;
    return "columns that are " + std::to_string(n) + " apart have changed places";
  }
  return "";
}

// A block of an operand, 8 x 8 or 8 of a row, where it begins.
struct Block {
  Element first;
  int rows;
  std::string in_words() const {
    Element last = first;
    last.row += rows - 1, last.column += kColumns - 1;
    return box({first, last});
  }
  static constexpr int kColumns = 8;
};

// True if the block of the exercise holds what the other of the stage does, which may be turned.
bool holds(const Moment& mine, const Block& block, const Moment& own, const Element& other,
           bool turned) {
  int telling = 0;
  for (int r = 0; r < block.rows; ++r) {
    for (int c = 0; c < Block::kColumns; ++c) {
      const double value = mine.value(block.first.row + r, block.first.column + c);
      const double wanted =
          own.value(other.array, other.row + (turned ? c : r), other.column + (turned ? r : c));
      if (value != wanted) return false;
      telling += value != 0;
    }
  }
  return telling > 3;
}

// Of a row that is not moved as its neighbours are.
constexpr const char* kOfSwizzle =
    ", and not so in the rows beside it: the row is right, and so is the distance between rows. In "
    "a swizzled row one goes on by 16 columns with an exclusive or of the chunk's number, not by "
    "adding to it";

bool is_input(int number) {
  const std::string& name = array_name(number);
  const std::string array = name.substr(0, name.find('.'));
  const std::string matrix = array.substr(array[0] == 's');  // "Q" of sQ.panels
  return matrix == "Q" || matrix == "K" || matrix == "V" || matrix == "dO";
}

// Where the blocks of an operand of the exercise lie among those of the stage.
std::vector<Moved> moved_blocks(const Difference& first, const AccessHistory& mine,
                                const AccessHistory& own) {
  const Moment now(mine, *first.mine), wanted(own, *first.own);
  const auto begins = [&](const AccessHistory& history, bool same_tile) {
    std::set<std::pair<std::int64_t, int>> found;
    for (const Event& event : history.events()) {
      const Element &e = *event.element, &of = *first.mine->element;
      const bool same = event.product != nullptr && e.launch == of.launch && e.block == of.block &&
                        e.array == of.array && (!same_tile || event.tile == first.mine->tile);
      if (same && e.row % 8 == 0 && e.column % 8 == 0) found.insert({e.row, e.column});
    }
    return found;
  };
  const auto places = begins(own, false);
  std::vector<Moved> moved;
  for (const auto& [row, column] : begins(mine, true)) {
    Element place = *first.mine->element;
    place.row = row, place.column = column;
    for (const auto& [from_row, from_column] : places) {
      Element from = place;
      from.row = from_row, from.column = from_column;
      if (!holds(now, {place, 8}, wanted, from, false)) continue;
      moved.push_back({row, column, from_row, from_column});
      break;
    }
  }
  return moved;
}

// Which block of the stage's operands stands where the first difference is.
Finding diagnose_from_blocks(const Difference& first, const AccessHistory& mine,
                             const AccessHistory& own) {
  const Moment now(mine, *first.mine), wanted(own, *first.own);
  for (const int rows : {8, 1}) {
    Block block = {*first.mine->element, rows};
    block.first.row -= block.first.row % rows, block.first.column -= block.first.column % 8;
    for (const Event& event : own.events()) {
      const Element& e = *event.element;
      const bool same = e.launch == block.first.launch && e.block == block.first.block;
      if (event.product == nullptr || !same || e.row % rows != 0 || e.column % 8 != 0) continue;
      for (const bool turned : {false, true}) {
        if (!turned && e == block.first) continue;
        if ((turned && rows == 1) || !holds(now, block, wanted, e, turned)) continue;
        return {turned ? "operand-turned" : "operand-misplaced",
                Block{e, rows}.in_words() + (turned ? ", transposed," : "") + " stands where " +
                    block.in_words() + " belongs" +
                    (rows == 1 && is_input(e.array) && e.array == block.first.array &&
                             e.row == block.first.row
                         ? kOfSwizzle
                         : "")};
      }
    }
    // Zeros stand there: what belongs there may stand elsewhere.
    for (const Event& event : mine.events()) {
      const Element& e = *event.element;
      const bool same = event.product != nullptr && e.launch == block.first.launch &&
                        e.block == block.first.block && e.array == block.first.array;
      if (!same || e.row % rows != 0 || e.column % 8 != 0) continue;
      if (holds(wanted, block, now, e, false)) {
        return {"operand-misplaced",
                block.in_words() + " stands where " + Block{e, rows}.in_words() + " belongs"};
      }
    }
  }
  return {};
}

// Which elements of an array are hidden, by row and column: a score of -inf, a probability of 0.
using HiddenElements = std::map<std::int64_t, std::map<int, bool>>;

bool is_hidden(double value) { return value == 0 || (std::isinf(value) && value < 0); }

HiddenElements hidden_elements(const AccessHistory& history, const Event& at) {
  HiddenElements hidden;
  for (const Event& event : history.events()) {
    const Element &e = *event.element, &of = *at.element;
    const bool same_time = e.launch == of.launch && e.block == of.block && event.epoch == at.epoch;
    const bool same_tile = at.product == nullptr || event.tile == at.tile;
    if (event.write && same_time && same_tile && e.array == of.array) {
      hidden[e.row][e.column] = is_hidden(event.value);
    }
  }
  return hidden;
}

// The one row of the stage with these hidden columns; -1 if there is none, or more than one.
std::int64_t row_with(const std::map<int, bool>& columns, const HiddenElements& own) {
  std::int64_t found = -1;
  for (const auto& [row, of_row] : own) {
    if (of_row != columns) continue;
    if (found >= 0) return -1;
    found = row;
  }
  return found;
}

// Of elements that are hidden where the stage's are not, or the reverse.
Finding diagnose_from_mask(const std::vector<Difference>& group, const AccessHistory& mine,
                           const AccessHistory& own) {
  const HiddenElements hidden = hidden_elements(mine, *group.front().mine),
                       wanted = hidden_elements(own, *group.front().own);
  std::string words;
  int told = 0;
  for (const Difference& d : group) {
    const std::int64_t row = d.mine->element->row, as = row_with(hidden.at(row), wanted);
    if (as < 0 || as == row || told == 2) continue;
    const std::string one =
        "row " + std::to_string(row) + " is masked as row " + std::to_string(as) + " should be";
    if (words.find(one) != std::string::npos) continue;
    words += (told++ == 0 ? "" : ", ") + one;
  }
  if (!words.empty()) return {"mask-of-other-row", words};
  const auto shown = std::count_if(group.begin(), group.end(),
                                   [](const Difference& d) { return is_hidden(d.own->value); });
  const auto hidden_of_mine = group.size() - static_cast<std::size_t>(shown);
  return {kMaskDiffers, std::to_string(hidden_of_mine) +
                            " elements are hidden and should be visible, " + std::to_string(shown) +
                            " are visible and should be hidden"};
}

// True if products make O.
bool makes_output(const AccessHistory& own) {
  return std::any_of(own.products().begin(), own.products().end(),
                     [](const Product& product) { return product.d.matrix == "accumulator O"; });
}

// True if the stage writes probabilities before this, or multiplies by them.
bool writes_probabilities(const AccessHistory& own, const Event& before) {
  return std::any_of(own.events().begin(), own.events().end(), [&](const Event& event) {
    const std::string& name = array_name(event.element->array);
    return event.write && event.epoch <= before.epoch && (name == "sP" || name == "P");
  });
}

}  // namespace

std::string step_of_blocks(const std::vector<Moved>& moved) {
  const auto all = [&](const auto& holds) {
    return std::all_of(moved.begin(), moved.end(), holds);
  };
  const bool of_columns = all([](const Moved& m) { return m.row == m.from_row; });
  if (moved.size() < 3 ||
      (!of_columns && !all([](const Moved& m) { return m.column == m.from_column; }))) {
    return "";
  }
  const auto to = [&](const Moved& m) { return of_columns ? m.column : m.row; };
  const auto from = [&](const Moved& m) { return of_columns ? m.from_column : m.from_row; };
  const Moved& first = moved.front();
  for (const std::int64_t step : {0, 1, 2, 4, 8, 32}) {
    const auto fits = [&](const Moved& m) {
      return from(m) - from(first) ==
             to(m) % 16 - to(first) % 16 + (to(m) / 16 - to(first) / 16) * step;
    };
    if (!all(fits)) continue;
    return std::string(". From 16 ") + (of_columns ? "columns" : "rows") +
           " to the next 16 it goes on by " + std::to_string(step) +
           (step < 16 ? ", so that they overlap" : ", so that some are left out");
  }
  return "";
}

Finding diagnose_from_values(const std::vector<Difference>& group, const AccessHistory& mine,
                             const AccessHistory& own, const Problem& p) {
  const std::string& array = array_name(group.front().mine->element->array);
  const bool of_scores = array == "S" || array == "P" || array == "sS" || array == "sP" ||
                         array == "dS" || array == "sdS" || array == "scratch";
  const auto past_the_end = [&](const Difference& d) { return d.own->element->column >= p.seq_kv; };
  const bool masked = p.causal || p.window_left >= 0 || p.window_right >= 0 ||
                      (group.front().own->product != nullptr && most(group, past_the_end));
  const auto other_mask = [](const Difference& d) {
    return is_hidden(d.mine->value) != is_hidden(d.own->value);
  };
  const bool of_product = group.front().mine->product != nullptr;
  Finding block = of_product ? diagnose_from_blocks(group.front(), mine, own) : Finding();
  if (!block.words.empty()) block.words += step_of_blocks(moved_blocks(group.front(), mine, own));
  if (of_scores && masked && most(group, other_mask)) {
    return block.words.empty() ? diagnose_from_mask(group, mine, own) : block;
  }
  const auto mine_is = [&](const auto& test) {
    return most(group, [&](const Difference& d) { return test(d.mine->value); });
  };
  // At the end O lies where Q was.
  const Event& want = *group.front().own;
  const bool of_input =
      is_input(want.element->array) && (of_product || own.writes(*want.element)->front() == &want);
  const bool zeros = mine_is([](double x) { return x == 0; });
  if (of_input && !of_product && !zeros) {
    const std::string home = belongs_to(group, own);
    if (home.rfind("each", 0) == 0)
      return {"value-misplaced", home + ": the tile begins at another row"};
  }
  if (zeros) return {kStoresZero, "all are 0"};
  if (mine_is([](double x) { return std::isnan(x); })) return {"stores-nan", "all are NaN"};
  if (mine_is([](double x) { return std::isinf(x); })) {
    return {"stores-infinity", "all are infinite"};
  }
  const double factor =
      common(group, [](const Difference& d) { return d.mine->value / d.own->value; });
  const std::string known = factor_in_words(factor, p);
  // A few elements may have about the same factor by chance, and most of them if it is near 1 or 0.
  const bool telling = group.size() >= 16 && !about(factor, 1) && std::abs(factor) > 1e-3;
  if (!known.empty() || telling) {
    return {"value-scaled", "each is " + number(factor) + " times the stage's" + known};
  }
  if (!block.words.empty()) return block;
  const std::string home = belongs_to(group, own);
  if (!home.empty()) return {"value-misplaced", home};
  const auto row_of = [](const Difference& d) { return d.mine->element->row; };
  const auto lane_of = [&](const Difference& d) {
    return std::make_pair(row_of(d), d.mine->thread);
  };
  if (one_factor_each(group, row_of) && are_whole_rows(group, own)) {
    const Event& first = *group.front().own;
    if (array.rfind("accumulator", 0) == 0) {
      return {
          "rescaled-wrongly",
          "all of a row have the same wrong factor, and the operands before are right: what the "
          "sums are rescaled by between two tiles is wrong, or is another row's"};
    }
    const bool forward = makes_output(own);
    if (first.product == nullptr && (array == "O" || forward) && writes_probabilities(own, first)) {
      return {"sum-of-row",
              "all of a row have the same wrong factor. The probabilities are right, and so is the "
              "maximum: the row's sum is wrong"};
    }
    const std::string what = first.product == nullptr ? "maximum, sum or LSE"
                             : forward                ? "maximum"
                                                      : "LSE";
    return {"factor-of-row", "all of a row have the same wrong factor: the row's " + what +
                                 " is wrong, or that of another row"};
  }
  if (array.rfind("accumulator", 0) == 0) {
    const bool cleared = std::all_of(group.begin(), group.end(),
                                     [](const Difference& d) { return d.own->value == 0; });
    if (cleared) {
      return {"sums-not-cleared", "the sums do not begin with 0: what was there before is added"};
    }
    return {"sums-changed",
            "the sums are wrong, and the operands before are right: what is done to them between "
            "two products is wrong"};
  }
  if (!of_input && one_factor_each(group, lane_of)) {
    return {"factor-of-lane-differs",
            "those of one lane have the same wrong factor, and other lanes of the " +
                (makes_output(own) || !of_product
                     ? std::string("row another: the row's maximum or sum has not come to all of "
                                   "its lanes, or from all of them")
                     : std::string("query another: its lanes take the LSE of different "
                                   "queries"))};
  }
  if (!of_input && of_product && one_factor_each(group, row_of)) {
    const Product& product = *group.front().mine->product;
    const bool are_columns = product.a.matrix == array ? product.a.turned : product.b.turned;
    return {"factor-of-row-part",
            "the wrong ones of a query have the same wrong factor, its others are right" +
                exchanged_rows(group) +
                ": which query's LSE or maximum an element takes must not hang on its key" +
                (are_columns ? ". A query is a column of these tiles, a key is a row" : "")};
  }
  const double power = common(group, [](const Difference& d) {
    return d.own->value > 0 && d.mine->value > 0 ? std::log(d.mine->value) / std::log(d.own->value)
                                                 : NAN;
  });
  if (std::isfinite(power)) {
    return {"exponent-scaled",
            "its logarithm is " + number(power) + " times the stage's" + factor_in_words(power, p)};
  }
  return {kStoreDiffers, ""};
}

}  // namespace cuflash::exercises
