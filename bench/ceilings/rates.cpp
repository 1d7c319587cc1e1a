#include "ceilings/rates.h"

#include <algorithm>
#include <stdexcept>

namespace cuflash::bench {

std::vector<Figure> figures_of(const std::string& name, const Timed& timed, int sms) {
  if (!(timed.ms > 0.)) throw std::runtime_error(name + " took no time");
  std::vector<Figure> figures;
  for (const Work& work : timed.work) {
    Figure figure;
    figure.name = name;
    figure.unit = work.unit;
    figure.ms = timed.ms;
    figure.tera = work.amount / timed.ms * 1e-9;
    figure.whole = work.whole;
    if (timed.clocks > 0.) {
      figure.per_clock_and_sm = work.amount / sms / timed.clocks;
      figure.per_ns_and_sm = work.amount / sms / timed.ms * 1e-6;
      figure.clock_ghz = timed.clocks / timed.ms * 1e-6;
    }
    figures.push_back(figure);
  }
  return figures;
}

void add_shares(std::vector<Figure>& figures) {
  for (Figure& figure : figures) {
    const auto whole = std::find_if(figures.begin(), figures.end(), [&](const Figure& other) {
      return other.name == figure.whole && other.unit == figure.unit && other.tera > 0.;
    });
    if (whole != figures.end()) figure.share = figure.tera / whole->tera;
  }
}

TargetBytes target_bytes(std::size_t l2_bytes) {
  std::size_t within = 1;
  while (2 * within <= l2_bytes / 3) within *= 2;
  return {within, 8 * within};
}

}  // namespace cuflash::bench
