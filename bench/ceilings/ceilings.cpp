// Measures the rates that bound a kernel on this machine's GPU: a loop for each unit.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ceilings/measured.h"
#include "ceilings/report.h"
#include "json_file.h"
#include "program.h"
#include "progress.h"
#include "table.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::vector<Figure> measure_all(const Chip& chip) {
  std::vector<Figure> all;
  for (const Ceiling& ceiling : ceilings()) {
    for (Figure& figure : measured(ceiling, chip)) {
      figure.what = ceiling.what;
      all.push_back(std::move(figure));
    }
  }
  add_shares(all);
  return all;
}

void run(const std::string& json, const Provenance& provenance) {
  if (current_device().compute_capability == 0) {
    throw std::runtime_error("There is no CUDA device here.");
  }
  const Chip chip = this_chip();
  fmt::print("What bounds a kernel on {}, {} SMs\n\n", provenance.device, chip.sms);
  const auto figures = measure_all(chip);
  fmt::print("{}\n{}", table_text(figures),
             paragraph(std::string("Time: ") + kTimingMethod +
                       ". What each figure means: docs/ceilings.md."));
  if (!json.empty()) write_json(json, report(provenance, chip, figures));
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Measures the rates that bound a kernel on this GPU: products, exp2, loads, copies, "
      "additions.");
  std::string json;
  app.add_option("--json", json, "Also write the figures to this file")->option_text("FILE");
  cuflash::bench::end_cleanly_on_interrupt();
  return cuflash::bench::run_program(app, argc, argv, [&](const auto& provenance) {
    cuflash::bench::run(json, provenance);
    return 0;
  });
}
