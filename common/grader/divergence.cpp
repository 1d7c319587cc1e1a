#include "divergence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "difference.h"

namespace cuflash::exercises {
namespace {

// ---- The first difference -----------------------------------------------------------------------

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

bool is_zero(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
}

// One element for each warp and tile in which the exercise leaves out products of the stage, other
// than those with zeros.
std::vector<Difference> missing_products(const AccessHistory& mine, const AccessHistory& own) {
  std::vector<bool> made(own.products().size());
  for (const Product& product : mine.products()) {
    if (product.like >= 0) made[product.like] = true;
  }
  std::set<Group> groups;
  for (std::size_t n = 0; n < made.size(); ++n) {
    const Product& product = own.products()[n];
    if (made[n] || is_zero(product.log.a) || is_zero(product.log.b)) continue;
    groups.insert(group_of(product));
  }
  std::vector<Difference> found;
  for (const Event& event : own.events()) {
    const bool named = event.product != nullptr && groups.erase(group_of(*event.product)) > 0;
    if (named) found.push_back({nullptr, &event});
  }
  return found;
}

// Of both kernels, by the number of times that an element was written before.
std::vector<Difference> differences(const AccessHistory& mine, const AccessHistory& own) {
  const std::vector<double> magnitude = magnitudes(own);
  std::vector<Difference> found;
  std::unordered_map<Element, std::size_t, HashOfElement> times;
  for (const Event& event : mine.events()) {
    if (!event.write) continue;
    const auto array = static_cast<std::size_t>(event.element->array);
    if (event.product != nullptr) {
      const bool equal = close(event.value, event.like->value, magnitude[array]);
      if (!equal) found.push_back({&event, event.like});
      continue;
    }
    const auto* const wanted = own.writes(*event.element);
    const std::size_t n = times[*event.element]++;
    if (wanted == nullptr) {
      found.push_back({&event, nullptr});
      continue;
    }
    const Event& want = *(*wanted)[std::min(n, wanted->size() - 1)];
    if (!close(event.value, want.value, magnitude[array])) found.push_back({&event, &want});
  }
  for (const Event& event : own.events()) {
    const bool store = event.write && event.product == nullptr;
    if (store && mine.writes(*event.element) == nullptr) found.push_back({nullptr, &event});
  }
  const auto missing = missing_products(mine, own);
  found.insert(found.end(), missing.begin(), missing.end());
  const auto moment = [](const Difference& d) {
    const Event& event = d.event();
    return std::make_tuple(event.element->launch, event.block, event.epoch);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Difference& a, const Difference& b) { return moment(a) < moment(b); });
  return found;
}

// Drops the stores to shared arrays where each thread stores the stage's values at other places, if
// a product tells of the mistake. Returns the first such array, which has a layout of its own, or
// "".
std::string drop_other_layout(std::vector<Difference>& found, const AccessHistory& mine,
                              const AccessHistory& own) {
  const auto of_product = [](const Difference& d) { return d.event().product != nullptr; };
  if (std::none_of(found.begin(), found.end(), of_product)) return "";
  using Stores = std::tuple<std::uint64_t, int, int, int>;  // of a block, to an array, at a time
  const auto stores_of = [](const Event& event) {
    return Stores{event.block, event.element->launch, event.element->array, event.epoch};
  };
  const auto values_of = [&](const AccessHistory& history) {
    std::map<Stores, std::multiset<std::pair<int, std::size_t>>> values;  // by thread, hashed
    for (const Event& event : history.events()) {
      const std::size_t value = std::hash<double>()(event.value);
      const bool store = event.write && event.shared && event.product == nullptr;
      if (store) values[stores_of(event)].insert({event.thread, value});
    }
    return values;
  };
  auto stored = values_of(mine), wanted = values_of(own);
  const auto is_other_layout = [&](const Difference& d) {
    const Stores at = stores_of(d.event());
    return !of_product(d) && d.event().shared && stored[at] == wanted[at];
  };
  const auto first = std::find_if(found.begin(), found.end(), is_other_layout);
  if (first == found.end()) return "";
  const std::string array = array_name(first->event().element->array);
  found.erase(std::remove_if(first, found.end(), is_other_layout), found.end());
  return array;
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
    if ((event.product == nullptr) != (at.product == nullptr)) continue;
    if (at.product != nullptr && event.tile != at.tile) continue;
    const bool same_kind = (one.mine == nullptr) == (first.mine == nullptr) &&
                           (one.own == nullptr) == (first.own == nullptr);
    if (same_kind) group.push_back(one);
  }
  return group;
}

// ---- In words -----------------------------------------------------------------------------------

std::string who(const Event& event) {
  std::string text = "block " + std::to_string(event.block);
  text += event.product != nullptr ? ", warp " + std::to_string(event.thread / 32)
                                   : ", thread " + std::to_string(event.thread);
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

// "thread 0 alone", "threads 0, 32, 64, ...": those that write the element's array in its block.
std::string writers(const AccessHistory& history, const Event& of) {
  std::set<int> threads;
  for (const Event& event : history.events()) {
    const Element &e = *event.element, &like = *of.element;
    const bool same = e.launch == like.launch && e.array == like.array && event.block == of.block;
    if (event.write && same) threads.insert(event.thread);
  }
  if (threads.empty()) return "no thread";
  return threads.size() == 1 ? "thread " + some_of(threads) + " alone"
                             : "the threads " + some_of(threads);
}

// "1, 4 and 8": the distances of lanes that exchange values.
std::string distances(const AccessHistory& history) {
  std::vector<std::string> found;
  for (std::size_t n = 1; n < history.shuffles().size(); ++n) {
    if (history.shuffles()[n] > 0) found.push_back(std::to_string(n));
  }
  if (found.empty()) return "none";
  std::string text = found.front();
  for (std::size_t n = 1; n < found.size(); ++n) {
    text += (n + 1 == found.size() ? " and " : ", ") + found[n];
  }
  return text;
}

// Of shuffles that bring values from other lanes than the stage's.
Finding diagnose_from_shuffles(const AccessHistory& mine, const AccessHistory& own) {
  const std::string got = distances(mine), wanted = distances(own);
  if (got == wanted) return {};
  return {"wrong-lanes",
          " In the shuffles a lane receives values of lanes whose numbers differ from its own "
          "(exclusive or) by " +
              got + '.',
          "In the stage's shuffles they differ by " + wanted + '.'};
}

std::string in_tile(const Event& event) {
  return event.tile >= 0 ? " in tile " + std::to_string(event.tile) : "";
}

// What the first product takes that differs from the stage's.
std::string of_operand(const Event& event, const Finding& values) {
  return " The first product that differs from the stage's has a wrong " +
         array_name(event.element->array) + in_tile(event) +
         (values.words.empty() ? "" : ": " + values.words) + '.';
}

// Of a warp and a tile in which the exercise leaves out products.
Diagnosis of_missing_products(const Event& event, const AccessHistory& mine,
                              const AccessHistory& own, const std::string& in) {
  const auto count = [&](const AccessHistory& history) {
    const auto& all = history.products();
    return std::count_if(all.begin(), all.end(), [&](const Product& product) {
      return group_of(product) == group_of(*event.product);
    });
  };
  const auto made = count(mine);
  return {"products-missing",
          " Products are missing: a warp makes " + std::to_string(made) +
              " of them in its tile, the stage's " + std::to_string(count(own)) + '.' +
              (made == 0 ? " It skips a tile of which its queries see keys, or the range of tiles "
                           "leaves it out."
                         : ""),
          in + who(event) + '\n'};
}

Divergence in_words(const std::vector<Difference>& group, const AccessHistory& mine,
                    const AccessHistory& own, const Sample& sample, const std::string& layout) {
  const Difference& first = group.front();
  const Event& event = first.event();
  const bool of_product = event.product != nullptr;
  const std::string in = sample.name + ": ", element = in_words(event);
  const std::string others = group.size() == 1 ? "" : " others in " + box(elements_of(group));
  if (first.mine == nullptr && of_product) {
    return {of_missing_products(event, mine, own, in), of_product};
  }
  if (first.mine == nullptr) {
    const std::string& array = array_name(event.element->array);
    return {
        {kNeverStored,
         ' ' + element + " is never written" + (others.empty() ? "." : ", nor are" + others + '.'),
         in + "of a block, " + array + " is written by " + writers(mine, event) + '\n',
         "The stage writes it at " + where(own, event) + " (" + who(event) + "). There " + array +
             " is written by " + writers(own, event) + '.'}};
  }
  if (first.own == nullptr) {
    return {{"stray-store",
             ' ' + element + " is written, which the stage never writes" +
                 (others.empty() ? "." : "; so are" + others + '.'),
             in + "at " + where(mine, event) + " (" + who(event) + ")\n"}};
  }
  std::string store = in + element + " is " + instead_of(first.mine->value, first.own->value) +
                      " at " + where(mine, event) + " (" + who(event) + "), the first " +
                      (of_product ? "product" : "store") + " that differs from the stage's";
  if (!others.empty()) store += "; so do" + others;
  if (!layout.empty() && of_product) {
    return {{"other-layout",
             " Each thread stores what the stage's stores to " + layout +
                 ", in a layout of its own, which the reads do not follow." + of_operand(event, {}),
             store + '\n'},
            of_product};
  }
  const Finding values = diagnose_from_values(group, mine, own, sample.problem),
                reads = diagnose_from_reads(first, mine, own),
                shuffles = diagnose_from_shuffles(mine, own);
  std::string message = reads.words + shuffles.words;
  if (of_product) {
    message += of_operand(event, values);
  } else if (!values.words.empty()) {
    message += " The first stores that differ from the stage's are those of " +
               array_name(event.element->array) + ": " + values.words + '.';
  }
  const std::string id = *reads.id != 0 ? reads.id : *shuffles.id != 0 ? shuffles.id : values.id;
  const bool weak =
      id == kStoreDiffers || id == kMaskDiffers || std::string(values.id) == kStoresZero;
  return {{id, message, store + '\n', reads.more + shuffles.more}, of_product, weak};
}

AccessHistory history(const Stage& stage, const Sample& s, const AccessHistory* own = nullptr) {
  return AccessHistory(stage, s.pass, s.problem, s.want->inputs, own);
}

// Finds accesses that meet another shared array than those that their source line names. Arrays
// that share their memory have several names: the stage's own accesses tell which.
class NamedArrays {
 public:
  NamedArrays(const AccessHistory& history, const AccessHistory& own) : history_(history) {
    for (const Event& event : own.events()) {
      if (event.shared) names_.insert(array_name(event.element->array));
    }
    for (const Event& event : own.events()) {
      if (!event.shared) continue;
      const std::string& source = own.place(event).source;
      for (const std::string& name : names_) {
        if (names(source, name)) also_.insert({name, event.element->array});
      }
    }
  }

  // "s_lse", or "s_lse or s_delta": the arrays that the line names. "" if it names the one that the
  // access meets, or none.
  const std::string& instead(const Event& event) {
    const int array = event.element->array;
    const auto [known, added] = found_.try_emplace({event.site, array});
    if (!added || !event.shared) return known->second;
    const std::string& source = history_.place(event).source;
    std::string found;
    for (const std::string& name : names_) {
      if (!names(source, name)) continue;
      if (name == array_name(array) || also_.count({name, array}) > 0) return known->second;
      found += (found.empty() ? "" : " or ") + name;
    }
    return known->second = found;
  }

 private:
  static bool names(const std::string& source, const std::string& name) {
    return source.find(name) != std::string::npos;
  }

  const AccessHistory& history_;
  std::set<std::string> names_;
  std::set<std::pair<std::string, int>> also_;        // a name, and an array that it may meet
  std::map<std::pair<int, int>, std::string> found_;  // by site and array
};

// How many columns of an array the stage accesses; 0 if none.
int columns_of(const Elements& known, const Element& of) {
  int columns = 0;
  for (const Element& e : known) {
    if (e.launch == of.launch && e.array == of.array) columns = std::max(columns, e.column + 1);
  }
  return columns;
}

// A warp of a block, in one tile.
using WarpInTile = std::tuple<int, std::uint64_t, int, int>;
WarpInTile warp_in_tile(const Event& event) {
  return {event.element->launch, event.block, event.thread / 32, event.tile};
}

// What each warp reads, or writes, in each tile.
using AccessesOfWarps = std::map<std::pair<WarpInTile, bool>, Elements>;

AccessesOfWarps accesses_of_warps(const AccessHistory& history) {
  AccessesOfWarps accesses;
  for (const Event& event : history.events()) {
    accesses[{warp_in_tile(event), event.write}].insert(*event.element);
  }
  return accesses;
}

// What the first product with a wrong operand tells.
Finding first_wrong_operand(const AccessHistory& mine, const AccessHistory& own, const Problem& p) {
  std::vector<Difference> all = differences(mine, own);
  const auto is_other = [](const Difference& d) {
    return d.mine == nullptr || d.mine->product == nullptr;
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_other), all.end());
  if (all.empty()) return {};
  const Finding values = diagnose_from_values(first_group(all), mine, own, p);
  return {values.id, of_operand(all.front().event(), values)};
}

// The first access to shared memory, of an element that the stage never accesses; or the first read
// of one that the stage's warp does not read in the same tile, if a product is wrong and what is
// said of a race names it.
Diagnosis stray_of(const Sample& sample, const Stage& exercise, const Stage& own,
                   const std::string& race = "") {
  const bool of_others = !race.empty();
  const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
  const Finding operand = first_wrong_operand(mine, theirs, sample.problem);
  const Elements& known = theirs.elements();
  NamedArrays named(mine, theirs);
  auto of_warps = accesses_of_warps(theirs);
  const auto is_stray = [&](const Event& event) {
    if (!event.shared) return false;
    if (of_others) {
      const bool tells = event.element->column < 0 || !operand.words.empty();
      return tells && of_warps[{warp_in_tile(event), event.write}].count(*event.element) == 0;
    }
    return known.count(*event.element) == 0 || !named.instead(event).empty();
  };
  const auto& events = mine.events();
  const auto first = std::find_if(events.begin(), events.end(), is_stray);
  if (first == events.end()) return {};
  if (of_others && race.find(mine.place(*first).location) == std::string::npos) return {};
  std::vector<Element> like_it;
  for (const Event& event : events) {
    if (event.site == first->site && event.element->array == first->element->array &&
        is_stray(event)) {
      like_it.push_back(*event.element);
    }
  }
  const int columns = columns_of(known, *first->element);
  const bool padding = first->element->column >= columns && columns > 0;
  std::string id = padding ? "padding-accessed" : "other-elements-accessed";
  std::string message = where(mine, *first) + " " + (first->write ? "writes " : "reads ") +
                        box(like_it) + " in " + sample.name +
                        (of_others ? std::string(", which in the stage this warp does not ") +
                                         (first->write ? "write" : "read") + in_tile(*first) + '.'
                                   : ", which the stage never accesses.");
  const std::string meant = named.instead(*first), array = meant.substr(0, meant.find(' '));
  Finding rule = first->write ? Finding() : diagnose_from_stray_read(*first, array, mine, theirs);
  if (of_others && first->write && first->element->column < 0) {
    rule = {"other-buffer", " It is another buffer than the stage's."};
  }
  if (!rule.words.empty()) {
    id = rule.id, message += rule.words;
  } else if (!meant.empty()) {
    id = "index-past-the-end";
    message = where(mine, *first) + (first->write ? " writes " : " reads ") + box(like_it) +
              " in " + sample.name + ", which the line does not name: an index of " + meant +
              " runs past its end.";
  } else {
    if (padding) {
      message += " These columns are padding: the elements of a row end with column " +
                 std::to_string(columns - 1) + ".";
    }
    if (operand.words.find("swizzled") == std::string::npos) {
      message += of_others ? " The buffer's index or an address in the buffer is wrong there."
                           : " An index or the distance from row to row (the leading dimension) is "
                             "wrong there.";
    }
    if (!operand.words.empty()) id = operand.id, message += operand.words;
  }
  return {id, message};
}

bool faulty(const Sample& s) { return !s.check.faults.empty(); }

}  // namespace

Divergence divergence(const Stage& exercise, const Stage& own, const std::vector<Sample>& samples) {
  constexpr int kTried = 3;
  const auto of_sample = [&](const Sample& sample) {
    const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
    auto all = differences(mine, theirs);
    if (all.empty()) return Divergence();
    const std::string layout = drop_other_layout(all, mine, theirs);
    // What a store gets without a product that the stage makes is wrong, too.
    const auto missing = std::find_if(
        all.begin(), all.end(), [](const Difference& d) { return d.event().product != nullptr; });
    const Difference& first = all.front();
    if (first.mine != nullptr && first.mine->product == nullptr && missing != all.end() &&
        missing->mine == nullptr && missing->own->epoch == first.mine->epoch) {
      std::iter_swap(all.begin(), missing);
    }
    return in_words(first_group(all), mine, theirs, sample, layout);
  };
  const auto wrong = smallest_first(samples, [](const Sample& s) { return !s.right(); });
  // A wrong factor of a row, which the division takes away, tells most where P is not one-hot.
  const auto ordinary = smallest_first(samples, is_ordinary);
  if (!wrong.empty() && !is_ordinary(*wrong.front()) && !ordinary.empty()) {
    Divergence one = of_sample(*ordinary.front());
    if (one.of_product) return one;
  }
  // Another tile may stand where zeros are, if there are more tiles.
  auto tried = wrong;
  if (wrong.size() > kTried) tried.resize(kTried);
  const auto more = std::find_if(wrong.begin(), wrong.end(), [](const Sample* s) {
    return s->walk.block_kv > 0 && s->problem.seq_kv > 2 * s->walk.block_kv && is_ordinary(*s);
  });
  if (more != wrong.end()) tried.push_back(*more);
  Divergence found;
  for (const Sample* sample : tried) {
    Divergence one = of_sample(*sample);
    if (one.cause.details.empty()) continue;
    if (!one.weak) return one;
    if (found.cause.id.empty()) found = std::move(one);
  }
  return found;
}

Diagnosis stray_access(const Stage& exercise, const Stage& own, const std::vector<Sample>& samples,
                       const std::string& race) {
  const auto found = smallest_first(samples, faulty);
  if (found.empty()) return {};
  Diagnosis stray = stray_of(*found.front(), exercise, own);
  if (!stray.id.empty() || race.empty()) return stray;
  const auto wrong =
      smallest_first(samples, [&](const Sample& s) { return faulty(s) && !s.right(); });
  return wrong.empty() ? stray : stray_of(*wrong.front(), exercise, own, race);
}

std::string share_left_out(const Stage& exercise, const Stage& own,
                           const std::vector<Sample>& samples) {
  const Sample& sample = *smallest_first(samples, faulty).front();
  const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
  std::map<std::pair<WarpInTile, int>, int> stored;  // by array, too
  std::set<std::pair<int, int>> by_any;              // array and tile
  for (const Event& event : mine.events()) {
    if (!event.write || !event.shared) continue;
    ++stored[{warp_in_tile(event), event.element->array}];
    by_any.insert({event.element->array, event.tile});
  }
  for (const Event& event : theirs.events()) {
    const int array = event.element->array;
    if (!event.write || !event.shared || by_any.count({array, event.tile}) == 0) continue;
    if (event.tile < 0 || stored[{warp_in_tile(event), array}]-- > 0) continue;
    return " In tile " + std::to_string(event.tile) + " warp " + std::to_string(event.thread / 32) +
           " stores less of " + array_name(array) +
           " than in the stage. All threads of the block share this work: a warp that needs "
           "nothing "
           "of a tile, or skips one, still does its part.";
  }
  return "";
}

namespace {

using RowsOfBlocks = std::map<std::uint64_t, std::vector<std::int64_t>>;

// The rows of O that each block stores, in order.
RowsOfBlocks stored_rows(const AccessHistory& history) {
  RowsOfBlocks rows;
  for (const Event& event : history.events()) {
    const Element& e = *event.element;
    const bool store = event.write && !event.shared && event.product == nullptr;
    if (store && e.column == 0 && array_name(e.array) == "O") rows[event.block].push_back(e.row);
  }
  for (auto& [block, list] : rows) std::sort(list.begin(), list.end());
  return rows;
}

std::size_t count_of(const RowsOfBlocks& rows) {
  std::size_t count = 0;
  for (const auto& [block, list] : rows) count += list.size();
  return count;
}

}  // namespace

std::string tile_of_other_block(const Stage& exercise, const Stage& own,
                                const std::vector<Sample>& samples) {
  const auto wrong = smallest_first(samples, [](const Sample& s) {
    return !s.right() && s.pass == CUFLASH_FORWARD && s.walk.block_q > 0 &&
           s.problem.seq_q > s.walk.block_q;
  });
  if (wrong.empty()) return "";
  const auto stored = stored_rows(history(exercise, *wrong.front())),
             wanted = stored_rows(history(own, *wrong.front()));
  if (count_of(stored) == count_of(wanted)) return "";  // Blocks may take tiles in another order.
  for (const auto& [block, rows] : stored) {
    for (const auto& [other, of_other] : wanted) {
      const auto meant = wanted.find(block);
      if (other == block || rows != of_other || meant == wanted.end()) continue;
      return " In " + wrong.front()->name + " block " + std::to_string(block) +
             " stores the rows of O that block " + std::to_string(other) +
             " stores in the stage: its tile begins a tile too " +
             (rows > meant->second ? "late." : "early.");
    }
  }
  return "";
}

std::string rows_stored_again(const Stage& exercise, const Stage& own,
                              const std::vector<Sample>& samples) {
  const Sample& sample = *smallest_first(samples, faulty).front();
  std::map<std::int64_t, int> times;  // more often than in the stage
  for (const auto& [block, rows] : stored_rows(history(exercise, sample))) {
    for (const std::int64_t row : rows) ++times[row];
  }
  for (const auto& [block, rows] : stored_rows(history(own, sample))) {
    for (const std::int64_t row : rows) --times[row];
  }
  const auto again =
      std::count_if(times.begin(), times.end(), [](const auto& row) { return row.second > 0; });
  if (again == 0) return "";
  return " In " + sample.name + ' ' + std::to_string(again) +
         " rows of O are stored more often than in the stage: a tile is taken again, or one that "
         "is not there.";
}

namespace {

using Call = simt::LoggedBarrierCall;
using Calls = std::vector<const Call*>;

// "waits for k_full" of "waits for k_full[0] with parity 1".
std::string of_array(const std::string& call) { return call.substr(0, call.find('[')); }

// "waits for k_full[0]".
std::string of_buffer(const std::string& call) { return call.substr(0, call.find(']')); }

std::vector<std::string> words_of(const Calls& calls) {
  std::vector<std::string> words;
  for (const Call* call : calls) words.push_back(call->words);
  return words;
}

}  // namespace

std::string slot_in_words(const std::vector<std::string>& made,
                          const std::vector<std::string>& of_stage, bool stays) {
  const std::string &call = made.back(), &want = of_stage[made.size() - 1];
  const auto like = [&](const std::string& other) { return of_array(other) == of_array(call); };
  if (call.find('[') == std::string::npos || !like(want)) return "";
  std::vector<std::string> slots;
  std::copy_if(of_stage.begin(), of_stage.end(), std::back_inserter(slots), like);
  const auto at = static_cast<std::size_t>(std::count_if(made.begin(), made.end(), like)) - 1;
  const bool wait = call.find("with parity") != std::string::npos;
  if (wait && at > 0 && of_buffer(want) == of_buffer(call)) {
    return " The buffer is right. A buffer's parity changes each time that this buffer is used "
           "again, whatever happens at others.";
  }
  for (std::size_t n = 1; n < slots.size(); ++n) {
    const bool earlier = n <= at && slots[at - n] == call,
               later = at + n < slots.size() && slots[at + n] == call;
    if (earlier && later) return "";
    const std::string tiles = n == 1 ? "of the tile " : "of " + std::to_string(n) + " tiles ";
    if (earlier) {
      return " That is the slot " + tiles + "before: the count of tiles is behind." +
             (stays ? " Every tile that the block copies counts, whether or not this warp uses it."
                    : "");
    }
    if (later) {
      return " That is the slot " + tiles +
             "after: the count of tiles is ahead, or runs in another order than the copies.";
    }
  }
  return "";
}

std::string differing_barrier_call(const Stage& exercise, const Stage& own,
                                   const std::vector<Sample>& samples) {
  const Sample& sample = *smallest_first(samples, faulty).front();
  const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
  const auto thread_of = [](const Call& call) {
    return std::make_tuple(call.at.launch, call.at.block, call.at.thread);
  };
  const auto warp_at = [&](const Call& call) {
    const auto& place = mine.place(call.at.site);
    return place.location + ", `" + place.source + "`, warp " +
           std::to_string(call.at.thread / 32) + " lane " + std::to_string(call.at.thread % 32);
  };
  std::map<std::tuple<int, std::uint64_t, int>, Calls> wanted, made;
  for (const Call& call : theirs.barrier_calls()) wanted[thread_of(call)].push_back(&call);
  for (const Call& call : mine.barrier_calls()) {
    const auto& of_stage = wanted[thread_of(call)];
    auto& of_mine = made[thread_of(call)];
    of_mine.push_back(&call);
    const bool more = of_mine.size() <= of_stage.size();
    const std::string want = more ? of_stage[of_mine.size() - 1]->words : "comes to no more";
    if (call.words == want) continue;
    return " The first call at a barrier that differs from the stage's: at " + warp_at(call) + ' ' +
           call.words + "; in the stage it " + want + '.' +
           (more ? slot_in_words(words_of(of_mine), words_of(of_stage),
                                 own.facts(sample.pass).resident)
                 : "");
  }
  // A thread that has only arrived goes on: what it leaves out is missing.
  for (const auto& [thread, calls] : made) {
    const auto& of_stage = wanted[thread];
    const bool last_block = std::get<1>(thread) == mine.barrier_calls().back().at.block;
    if (!last_block || calls.size() == of_stage.size()) continue;
    if (calls.back()->words.rfind("arrives", 0) != 0) continue;
    return " Behind " + warp_at(*calls.back()) + " comes to no more barriers; in the stage it " +
           of_stage[calls.size()]->words + '.';
  }
  return "";
}

}  // namespace cuflash::exercises
