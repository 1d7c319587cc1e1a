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

// What the first product takes that differs from the stage's.
std::string of_operand(const Event& event, const Finding& values) {
  return " The first product that differs from the stage's has a wrong " +
         array_name(event.element->array) +
         (event.tile >= 0 ? " in tile " + std::to_string(event.tile) : "") +
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
  return {"products-missing",
          " Products are missing: a warp makes " + std::to_string(count(mine)) +
              " of them in its tile, the stage's " + std::to_string(count(own)) + '.',
          in + who(event) + '\n'};
}

Divergence in_words(const std::vector<Difference>& group, const AccessHistory& mine,
                    const AccessHistory& own, const Sample& sample) {
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
  const Finding values = diagnose_from_values(group, mine, own, sample.problem),
                reads = diagnose_from_reads(first, mine, own),
                shuffles = diagnose_from_shuffles(mine, own);
  std::string message = reads.words + shuffles.words;
  if (of_product) {
    message += of_operand(event, values);
  } else if (!values.words.empty()) {
    message += " In the first stores that differ from the stage's, " + values.words + '.';
  }
  const char* const id = *reads.id != 0 ? reads.id : *shuffles.id != 0 ? shuffles.id : values.id;
  return {{id, message, store + '\n', reads.more + shuffles.more}, of_product};
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

// What each warp reads.
std::map<int, Elements> reads_of_warps(const AccessHistory& history) {
  std::map<int, Elements> reads;
  for (const Event& event : history.events()) {
    if (!event.write) reads[event.thread / 32].insert(*event.element);
  }
  return reads;
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
// of one that other warps read there, if a product is wrong and what is said of a race names it.
Diagnosis stray_of(const Sample& sample, const Stage& exercise, const Stage& own,
                   const std::string& race = "") {
  const bool of_others = !race.empty();
  const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
  const Finding operand = first_wrong_operand(mine, theirs, sample.problem);
  if (of_others && operand.words.empty()) return {};
  const Elements& known = theirs.elements();
  NamedArrays named(mine, theirs);
  auto of_warps = of_others ? reads_of_warps(theirs) : std::map<int, Elements>();
  const auto is_stray = [&](const Event& event) {
    if (!event.shared) return false;
    if (of_others) return !event.write && of_warps[event.thread / 32].count(*event.element) == 0;
    return known.count(*event.element) == 0 || !named.instead(event).empty();
  };
  const auto& events = mine.events();
  const auto first = std::find_if(events.begin(), events.end(), is_stray);
  if (first == events.end()) return {};
  if (of_others && race.find(where(mine, *first)) == std::string::npos) return {};
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
                        (of_others ? ", which in the stage only other warps read."
                                   : ", which the stage never accesses.");
  const std::string meant = named.instead(*first), array = meant.substr(0, meant.find(' '));
  const Finding rule =
      first->write ? Finding() : diagnose_from_stray_read(*first, array, mine, theirs);
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
      message +=
          " An index or the distance from row to row (the leading dimension) is wrong there.";
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
    const auto all = differences(mine, theirs);
    return all.empty() ? Divergence() : in_words(first_group(all), mine, theirs, sample);
  };
  const auto wrong = smallest_first(samples, [](const Sample& s) { return !s.right(); });
  // A wrong factor of a row, which the division takes away, tells most where P is not one-hot.
  const auto ordinary = smallest_first(samples, is_ordinary);
  if (!wrong.empty() && !is_ordinary(*wrong.front()) && !ordinary.empty()) {
    Divergence one = of_sample(*ordinary.front());
    if (one.of_product) return one;
  }
  Divergence found;
  int tried = 0;
  for (const Sample* sample : wrong) {
    if (tried++ == kTried) break;
    Divergence one = of_sample(*sample);
    if (one.cause.details.empty()) continue;
    const bool weak = one.cause.id == kStoreDiffers || one.cause.id == kMaskDiffers;
    if (!weak) return one;
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

std::string differing_barrier_call(const Stage& exercise, const Stage& own,
                                   const std::vector<Sample>& samples) {
  using Call = simt::LoggedBarrierCall;
  const Sample& sample = *smallest_first(samples, faulty).front();
  const AccessHistory theirs = history(own, sample), mine = history(exercise, sample, &theirs);
  const auto thread_of = [](const Call& call) {
    return std::make_tuple(call.at.launch, call.at.block, call.at.thread);
  };
  const auto warp_at = [&](const Call& call) {
    const auto& place = mine.place(call.at.site);
    return place.location + ", `" + place.source + "`, warp " + std::to_string(call.at.thread / 32);
  };
  std::map<std::tuple<int, std::uint64_t, int>, std::vector<const Call*>> wanted, made;
  for (const Call& call : theirs.barrier_calls()) wanted[thread_of(call)].push_back(&call);
  for (const Call& call : mine.barrier_calls()) {
    const auto& of_stage = wanted[thread_of(call)];
    auto& of_mine = made[thread_of(call)];
    of_mine.push_back(&call);
    const bool more = of_mine.size() <= of_stage.size();
    const std::string want = more ? of_stage[of_mine.size() - 1]->words : "comes to no more";
    if (call.words == want) continue;
    return " The first call at a barrier that differs from the stage's: at " + warp_at(call) + ' ' +
           call.words + "; in the stage it " + want + '.';
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
