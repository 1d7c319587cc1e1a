#include "ladder/stage_table.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cuflash/workload.h"
#include "json_file.h"
#include "table.h"

namespace cuflash::bench {
namespace {

constexpr const char* kNone = "-";

// "0.41 ok": the error as a multiple of its limit.
std::string verdict(const Row& row) {
  const double ratio = row.limit > 0. ? row.error / row.limit : row.error > 0. ? INFINITY : 0.;
  const std::string shown = ratio < 1000. ? fmt::format("{:.2f}", ratio) : ">999";
  return shown + (row.ok ? " ok" : " FAIL");
}

std::string times(double ratio) { return fmt::format("{:.2f}", ratio); }

// "61 % ffma".
std::string share(const Row& row) {
  if (!row.of_ceiling) return kNone;
  return fmt::format("{:.0f} % {}", 100. * row.of_ceiling->share, row.of_ceiling->ceiling);
}

std::vector<Column> columns(bool timed) {
  std::vector<Column> all = {{"stage", false},
                             {"adds", false, timed ? 52u : 30u, 16, 5},
                             {"error/limit"},
                             {"extra", true, 0, 0, 3}};
  const std::vector<Column> rest = timed ? std::vector<Column>{{"time"},
                                                               {"TFLOP/s"},
                                                               {"× prev", true, 0, 0, 1},
                                                               {"share of ceiling", false, 0, 0, 2}}
                                         : std::vector<Column>{{"read"},
                                                               {"written", true, 0, 0, 2},
                                                               {"predicted", true, 0, 0, 4},
                                                               {"× prev", true, 0, 0, 1},
                                                               {"conflicts"}};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

// The numbers whose ratios are the column × prev: bytes or speeds, by stage and pass.
using Known = std::map<std::pair<std::string, Pass>, double>;

// The ratio of a number to that of the stage that the row's stage follows. Adds the number to
// `known`.
std::string beside_followed(const Row& row, double number, Known& known) {
  known[{row.stage->name, row.pass}] = number;
  const auto followed = known.find({row.stage->facts(row.pass).follows, row.pass});
  return followed == known.end() ? kNone : times(number / followed->second);
}

void add_counts(const Row& row, Known& known, std::vector<std::string>& cells) {
  const auto predicted =
      row.predicted ? human_bytes(double(row.predicted->read_bytes + row.predicted->write_bytes))
                    : kNone;
  if (!row.counted) {
    cells.insert(cells.end(), {kNone, kNone, predicted, kNone, kNone});
    return;
  }
  const double bytes = double(row.counted->global_read_bytes + row.counted->global_write_bytes);
  cells.insert(cells.end(), {human_bytes(double(row.counted->global_read_bytes)),
                             human_bytes(double(row.counted->global_write_bytes)), predicted,
                             beside_followed(row, bytes, known),
                             human_count(double(row.counted->bank_conflicts))});
}

void add_time(const Row& row, const Problem& problem, Known& known,
              std::vector<std::string>& cells) {
  if (!row.ms) {
    cells.insert(cells.end(), {kNone, kNone, kNone, kNone});
    return;
  }
  const double speed = tflops(row.pass, problem, *row.ms);
  cells.insert(cells.end(), {human_ms(*row.ms), fmt::format("{:.2f}", speed),
                             beside_followed(row, speed, known), share(row)});
}

nlohmann::ordered_json json_row(const Row& row, const Problem& problem) {
  return {{"stage", row.stage->name},
          {"pass", pass_name(row.pass)},
          {"problem", problem_name(problem)}};
}

nlohmann::ordered_json json_counts(const simt::Counts& counts) {
  return {{"requested_read_bytes", counts.global_read_bytes},
          {"requested_write_bytes", counts.global_write_bytes},
          {"bank_conflicts", counts.bank_conflicts},
          {"launches", counts.launches},
          {"read_requests", counts.global_read_requests},
          {"write_requests", counts.global_write_requests},
          {"read_sectors", counts.global_read_sectors},
          {"write_sectors", counts.global_write_sectors},
          {"shared_read_bytes", counts.shared_read_bytes},
          {"shared_write_bytes", counts.shared_write_bytes},
          {"shared_requests", counts.shared_requests},
          {"shared_wavefronts", counts.shared_wavefronts},
          {"exchanges", counts.exchanges},
          {"barriers", counts.barriers},
          {"warp_syncs", counts.warp_syncs},
          {"barrier_calls", counts.barrier_calls},
          {"products", counts.products},
          {"multiply_adds", counts.multiply_adds}};
}

// A stage's results on the verified problem.
nlohmann::ordered_json json_verified(const Row& row, const Problem& problem) {
  auto json = json_row(row, problem);
  if (!row.skipped.empty()) {
    json["skipped"] = row.skipped;
    return json;
  }
  json["ok"] = row.ok;
  if (row.limit > 0.) {
    json["error"] = row.error;  // An infinite one becomes null.
    json["limit"] = row.limit;
  }
  json["extra_bytes"] = extra_bytes(*row.stage, row.pass, problem);
  if (row.counted) {
    json.update(json_counts(*row.counted));
    json["shared_bytes"] = row.shared_bytes;
  }
  return json;
}

nlohmann::ordered_json json_timed(const Row& row, const Problem& problem) {
  auto json = json_row(row, problem);
  if (!row.ms) {
    json["skipped"] = row.not_timed;
    return json;
  }
  json["extra_bytes"] = extra_bytes(*row.stage, row.pass, problem);
  json["ms"] = *row.ms;
  json["tflops"] = tflops(row.pass, problem, *row.ms);
  if (row.of_ceiling) {
    json["ceiling"] = row.of_ceiling->ceiling;
    json["ceiling_tflops"] = row.of_ceiling->ceiling_tflops;
    json["ceiling_share"] = row.of_ceiling->share;
  }
  return json;
}

}  // namespace

std::string table_text(const std::vector<Row>& rows, const Plan& plan) {
  Table table(columns(plan.timed.has_value()));
  Known known;
  for (const Row& row : rows) {
    if (!row.skipped.empty()) {
      table.add_sentence(row.stage->name, "skipped: " + row.skipped);
      continue;
    }
    const Problem& shown = plan.timed ? *plan.timed : plan.verified.problem;
    std::vector<std::string> cells = {
        row.stage->name, row.stage->teaches, verdict(row),
        human_bytes(double(extra_bytes(*row.stage, row.pass, shown)))};
    if (plan.timed) {
      add_time(row, *plan.timed, known, cells);
    } else {
      add_counts(row, known, cells);
    }
    table.add(std::move(cells));
    if (!row.not_timed.empty()) table.add_sentence("", "not timed: " + row.not_timed);
  }
  return table.text();
}

std::string limits_text(const std::vector<Row>& rows) {
  Table table({{"stage", false}, {"what limits it now", false, 100, 24}});
  std::set<std::string> named;  // A stage has a row for each pass.
  for (const Row& row : rows) {
    if (row.ms && named.insert(row.stage->name).second) {
      table.add({row.stage->name, row.stage->limiter});
    }
  }
  return named.empty() ? "" : table.text();
}

std::string failures_text(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (!row.failure.empty()) {
      text += fmt::format("\n{}, {}:\n{}", row.stage->name, pass_name(row.pass), row.failure);
    }
  }
  return text;
}

void write_json(const std::string& path, const Provenance& p, const std::vector<Row>& rows,
                const Plan& plan) {
  nlohmann::ordered_json json;
  json["provenance"] = to_json(p);
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    json["rows"].push_back(json_verified(row, plan.verified.problem));
    if (!plan.timed || !row.skipped.empty()) continue;
    auto timed = json_timed(row, *plan.timed);
    if (auto& verified = json["rows"].back(); verified["problem"] == timed["problem"]) {
      verified.update(timed);
    } else {
      json["rows"].push_back(std::move(timed));
    }
  }
  write_json(path, json);
}

}  // namespace cuflash::bench
