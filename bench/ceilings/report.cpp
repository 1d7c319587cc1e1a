#include "ceilings/report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "table.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::string rate_text(double tera, Unit unit) {
  return fmt::format("{} {}", three_digits(tera), unit_name(unit));
}

std::string or_nothing(double value) { return value > 0. ? three_digits(value) : ""; }

std::string share_text(const Figure& figure) {
  return figure.share > 0. ? fmt::format("{:.0f} % of {}", 100. * figure.share, figure.whole) : "";
}

nlohmann::ordered_json row_of(const Figure& figure) {
  nlohmann::ordered_json row = {{"figure", figure.name}, {"what", figure.what}};
  if (!figure.skipped.empty()) {
    row["skipped"] = figure.skipped;
    return row;
  }
  row["unit"] = unit_name(figure.unit);
  row["rate"] = figure.tera;
  row["ms"] = figure.ms;
  if (figure.per_clock_and_sm > 0.) {
    row["per_clock_and_sm"] = figure.per_clock_and_sm;
    row["per_ns_and_sm"] = figure.per_ns_and_sm;
    row["clock_ghz"] = figure.clock_ghz;
  }
  if (figure.share > 0.) {
    row["share"] = figure.share;
    row["whole"] = figure.whole;
  }
  return row;
}

}  // namespace

std::string table_text(const std::vector<Figure>& figures) {
  Table table({{"figure", false},
               {"measures", false, 36, 16, 4},
               {"rate"},
               {"per SM and cycle", true, 0, 0, 1},
               {"per SM and ns", true, 0, 0, 3},
               {"GHz", true, 0, 0, 5},
               {"share", false, 0, 0, 2}});
  std::string last;
  for (const Figure& figure : figures) {
    const bool first = figure.name != last;
    last = figure.name;
    if (!figure.skipped.empty()) {
      table.add_sentence(figure.name, "skipped: " + figure.skipped);
      continue;
    }
    table.add({first ? figure.name : "", first ? figure.what : "",
               rate_text(figure.tera, figure.unit), or_nothing(figure.per_clock_and_sm),
               or_nothing(figure.per_ns_and_sm), or_nothing(figure.clock_ghz), share_text(figure)});
  }
  return table.text();
}

nlohmann::ordered_json report(const Provenance& provenance, const Chip& chip,
                              const std::vector<Figure>& figures) {
  nlohmann::ordered_json json;
  json["provenance"] = to_json(provenance);
  json["provenance"]["timing"] = kTimingMethod;
  json["chip"] = {{"compute_capability", chip.compute_capability},
                  {"sms", chip.sms},
                  {"l2_bytes", chip.l2_bytes}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) json["rows"].push_back(row_of(figure));
  return json;
}

}  // namespace cuflash::bench
