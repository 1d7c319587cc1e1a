// Measures on this machine's GPU what bounds a kernel, each unit in a loop of its own.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ceilings/measured.h"
#include "ceilings/options.h"
#include "ceilings/report.h"
#include "json_file.h"
#include "program.h"
#include "progress.h"
#include "table.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::vector<Figure> measure_all(const Chip& chip, const std::string& device) {
  std::vector<Figure> all;
  for (const Ceiling& ceiling : ceilings()) {
    for (Figure& figure : measured(ceiling, chip)) {
      figure.what = ceiling.what;
      figure.beside = ceiling.beside.what;
      figure.recorded = recorded(CUFLASH_SOURCE_DIR "/docs/results", device, ceiling.beside.key);
      all.push_back(std::move(figure));
    }
  }
  add_shares(all);
  return all;
}

void run(const CeilingOptions& options, const Provenance& provenance) {
  if (options.list) {
    fmt::print("{}", list_text(ceilings()));
    return;
  }
  if (current_device().compute_capability == 0) {
    throw std::runtime_error("There is no CUDA device here.");
  }
  const Chip chip = this_chip();
  fmt::print("What bounds a kernel on {}, {} SMs\n\n", provenance.device, chip.sms);
  const auto figures = measure_all(chip, provenance.device);
  fmt::print("{}\n{}", table_text(figures),
             paragraph(std::string("Time: ") + kTimingMethod +
                       ". What each figure means: docs/ceilings.md."));
  if (!options.json.empty()) write_json(options.json, report(provenance, chip, figures));
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Measures what bounds a kernel on this GPU: products, exp2, loads, copies, additions.");
  cuflash::bench::CeilingOptions options;
  cuflash::bench::declare(app, options);
  cuflash::bench::end_cleanly_on_interrupt();
  return cuflash::bench::run_program(app, argc, argv, [&](const auto& provenance) {
    cuflash::bench::run(options, provenance);
    return 0;
  });
}
