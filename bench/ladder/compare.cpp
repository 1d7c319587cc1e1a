#include "ladder/compare.h"

#include <fmt/core.h>

#include "ladder/recorded.h"
#include "table.h"

namespace cuflash::bench {
namespace {

// "7.19 × less", "1.20 × more", "the same"; no ratio if one of the values is 0.
std::string change(double first, double second, const char* less, const char* more) {
  if (first == second) return "the same";
  if (first == 0.) return "new";
  if (second == 0.) return "gone";
  const bool fell = second < first;
  const std::string ratio = three_digits(fell ? first / second : second / first);
  return ratio == "1.00" ? "the same" : ratio + " × " + (fell ? less : more);
}

template <class Show>
void add(Table& table, const std::string& what, double first, double second, Show show) {
  table.add({what, show(first), show(second), change(first, second, "less", "more")});
}

double requested(const Row& row) {
  return double(row.counted->global_read_bytes + row.counted->global_write_bytes);
}

void add_counts(Table& table, const Row& first, const Row& second) {
  add(table, "requested bytes", requested(first), requested(second), human_bytes);
  const auto predicted = [](const Row& row) -> std::string {
    if (!row.predicted) return "-";
    return human_bytes(double(row.predicted->read_bytes + row.predicted->write_bytes));
  };
  table.add({"  as predicted", predicted(first), predicted(second)});
  const auto conflicts = [](const Row& row) { return double(row.counted->bank_conflicts); };
  add(table, "bank conflicts", conflicts(first), conflicts(second), human_count);
  add(table, "shared memory per block", double(first.shared_bytes), double(second.shared_bytes),
      human_bytes);
}

void add_time(Table& table, const std::string& what, double first, double second) {
  table.add({what, human_ms(first), human_ms(second), change(first, second, "faster", "slower")});
}

}  // namespace

std::string comparison_text(const Row& first, const Row& second, const Plan& plan) {
  Table table(
      {{"quantity", false, 0, 12}, {first.stage->name}, {second.stage->name}, {"", false, 0, 6}});
  if (first.counted && second.counted) add_counts(table, first, second);
  const Problem& shown = plan.timed ? *plan.timed : plan.verified.problem;
  add(table, "extra memory", double(extra_bytes(*first.stage, first.pass, shown)),
      double(extra_bytes(*second.stage, second.pass, shown)), human_bytes);

  std::string sources;
  if (first.ms && second.ms) {
    add_time(table, "time", *first.ms, *second.ms);
  } else if (!plan.timed) {
    for (const RecordedTimes& t : recorded_times(*first.stage, *second.stage, first.pass)) {
      add_time(table, "time, " + t.device, t.first_ms, t.second_ms);
      sources += paragraph(fmt::format("Time on {}: {}, commit {}, {}, {}.", t.device, t.problem,
                                       t.commit, t.date, t.file));
    }
    if (sources.empty()) {
      sources = paragraph("Speed: no docs/results/*/ladder.json has times for both stages.");
    }
  }
  return table.text() + (sources.empty() ? "" : '\n' + sources);
}

}  // namespace cuflash::bench
