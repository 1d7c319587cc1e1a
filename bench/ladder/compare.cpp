#include "ladder/compare.h"

#include <fmt/core.h>

#include "cuflash/workload.h"
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

std::string source(const std::string& what, const RecordedRow& row) {
  return paragraph(fmt::format("{} on {}: {}, commit {}, {}, {}.", what, row.device, row.problem,
                               row.commit, row.date, row.file));
}

// Adds the committed times of each problem for which a file has those of both stages. Returns their
// sources.
std::string add_recorded_times(Table& table, const Row& first, const Row& second) {
  std::string sources;
  for (const RecordedRow& a : recorded_rows(*first.stage, first.pass)) {
    for (const RecordedRow& b : recorded_rows(*second.stage, second.pass)) {
      if (a.file != b.file || a.problem != b.problem) continue;
      if (!a.numbers.count("ms") || !b.numbers.count("ms")) continue;
      add_time(table, "time, " + a.device, a.numbers.at("ms"), b.numbers.at("ms"));
      sources += source("Time", a);
    }
  }
  return sources;
}

// Each committed number of the stage beside the one from here.
std::string beside_committed_text(const Row& row, const Plan& plan) {
  Table table({{"quantity", false, 0, 12},
               {"committed"},
               {std::string("here, ") + current_device().name},
               {"", false, 0, 6}});
  std::string sources;
  for (const RecordedRow& old : recorded_rows(*row.stage, row.pass)) {
    const auto ms = old.numbers.find("ms");
    if (ms != old.numbers.end()) {
      const std::string what = "time, " + old.device;
      if (!plan.timed) {
        table.add({what, human_ms(ms->second), "-"});
      } else if (row.ms && old.problem == problem_name(*plan.timed)) {
        add_time(table, what, ms->second, *row.ms);
      } else {
        continue;
      }
    } else if (row.counted && old.numbers.count("bank_conflicts") &&
               old.problem == problem_name(plan.verified.problem)) {
      const auto& was = old.numbers;
      add(table, "requested bytes",
          was.at("requested_read_bytes") + was.at("requested_write_bytes"), requested(row),
          human_bytes);
      add(table, "bank conflicts", was.at("bank_conflicts"), double(row.counted->bank_conflicts),
          human_count);
      add(table, "shared memory per block", was.at("shared_bytes"), double(row.shared_bytes),
          human_bytes);
    } else {
      continue;
    }
    sources += source("Committed, measured", old);
  }
  if (sources.empty()) return paragraph("No docs/results/*/ladder.json has this problem.");
  return table.text() + '\n' + sources;
}

}  // namespace

std::string comparison_text(const Row& first, const Row& second, const Plan& plan) {
  if (first.stage == second.stage) return beside_committed_text(first, plan);
  Table table(
      {{"quantity", false, 0, 12}, {first.stage->name}, {second.stage->name}, {"", false, 0, 6}});
  if (first.counted && second.counted) add_counts(table, first, second);
  const Problem& shown = plan.timed ? *plan.timed : plan.verified.problem;
  add(table, "extra memory", double(extra_bytes(*first.stage, first.pass, shown)),
      double(extra_bytes(*second.stage, second.pass, shown)), human_bytes);
  const bool timed = first.ms && second.ms;
  if (timed) {
    add_time(table, std::string("time here, ") + current_device().name, *first.ms, *second.ms);
  }
  std::string sources = add_recorded_times(table, first, second);
  if (sources.empty() && !timed) {
    sources = paragraph("Speed: no docs/results/*/ladder.json has times for both stages.");
  }
  return table.text() + (sources.empty() ? "" : '\n' + sources);
}

}  // namespace cuflash::bench
