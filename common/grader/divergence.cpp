#include "divergence.h"

#include <algorithm>
#include <cmath>
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
  const Finding values = told_by_values(group, mine, own, sample.problem);
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

// The samples that are bad, the smallest first; before the others those whose rows have several
// keys of ordinary scores.
template <class Bad>
std::vector<const Sample*> smallest_first(const std::vector<Sample>& samples, const Bad& bad) {
  const auto size = [](const Sample* s) {
    const Problem& p = s->problem;
    const bool ordinary = s->input == harness::InputKind::kGaussian && p.seq_kv > 8;
    const double pairs = double(p.batch) * p.heads_q * p.seq_q * p.seq_kv;
    return pairs * p.head_dim * (ordinary ? 1 : 1e6);
  };
  std::vector<const Sample*> found;
  for (const Sample& s : samples) {
    if (bad(s)) found.push_back(&s);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](const Sample* a, const Sample* b) { return size(a) < size(b); });
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

// Words for an access whose source line names another array, and not the one that it meets.
std::string out_of_named_array(const AccessHistory& history, const Event& event,
                               const Elements& known) {
  const std::string& source = history.place(event).source;
  const auto named = [&](int array) { return source.find(array_name(array)) != std::string::npos; };
  if (named(event.element->array)) return "";
  for (const Element& e : known) {
    const bool shared = array_name(e.array)[0] == 's';  // sK, s_lse
    if (!shared || e.launch != event.element->launch || !named(e.array)) continue;
    return " The line means " + array_name(e.array) + ": its index runs past the end.";
  }
  return "";
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
  constexpr int kTried = 3;
  Diagnosis found;
  int tried = 0;
  for (const Sample* sample : smallest_first(samples, [](const Sample& s) { return !s.right(); })) {
    if (tried++ == kTried) break;
    const auto [mine, theirs] = histories(exercise, own, *sample);
    const auto all = differences(mine, theirs);
    if (all.empty()) continue;
    Diagnosis one = in_words(first_group(all), mine, theirs, *sample);
    if (one.id != kStoreDiffers && one.id != kMaskDiffers) return one;
    if (found.id.empty()) found = std::move(one);
  }
  return found;
}

Diagnosis stray_access(const Stage& exercise, const Stage& own,
                       const std::vector<Sample>& samples) {
  const auto faulty =
      smallest_first(samples, [](const Sample& s) { return !s.check.faults.empty(); });
  if (faulty.empty()) return {};
  const Sample* const sample = faulty.front();
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
              " index or the distance from row to row (the leading dimension) is wrong there." +
              out_of_named_array(mine, *first, known),
          ""};
}

}  // namespace cuflash::exercises
