#include "ceilings/measured.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "progress.h"
#include "timing.h"

namespace cuflash::bench {

Chip this_chip() {
  cudaDeviceProp properties;
  int ordinal = 0;
  harness::check(cudaGetDevice(&ordinal), "cudaGetDevice");
  harness::check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return {10 * properties.major + properties.minor, properties.multiProcessorCount,
          std::size_t(properties.l2CacheSize), properties.sharedMemPerBlockOptin};
}

static Timed timed(const Loop& loop) {
  const double ms = median_ms(loop.queue);
  return {loop.work, ms, loop.clocks ? loop.clocks() : 0.};
}

std::vector<Figure> measured(const Ceiling& ceiling, const Chip& chip) {
  const int needed = ceiling.arch.compute_capability;
  if (chip.compute_capability < needed ||
      (ceiling.arch.exact && chip.compute_capability != needed)) {
    Figure none;
    none.name = ceiling.name;
    none.skipped = fmt::format("its instructions need compute capability {}.{}{}", needed / 10,
                               needed % 10, ceiling.arch.exact ? " exactly" : "");
    return {none};
  }
  const Progress progress("Measuring " + ceiling.name);
  return figures_of(ceiling.name, timed(ceiling.loop(chip)), chip.sms);
}

Figure measured_once(const std::string& name) {
  static std::map<std::string, Figure> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const auto named = [&](const Ceiling& ceiling) { return ceiling.name == name; };
  const auto ceiling = std::find_if(ceilings().begin(), ceilings().end(), named);
  Figure figure;
  if (ceiling == ceilings().end()) {
    figure.skipped = "no loop measures it";
  } else {
    figure = measured(*ceiling, this_chip()).front();
  }
  return known[name] = figure;
}

}  // namespace cuflash::bench
