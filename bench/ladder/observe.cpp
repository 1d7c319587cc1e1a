#include "ladder/observe.h"

#include <stdexcept>
#include <string>

#include "cuflash/workload.h"
#include "measure.h"
#include "progress.h"

namespace cuflash::bench {

Observed observe(const Stage& stage, Pass pass, const harness::TestCase& c) {
  if (!simt::kSimulated) {
    throw std::runtime_error("Only the CPU simulator records lines and shared memory.");
  }
  if (!simt::counts_accesses()) {
    throw std::runtime_error(
        "This build counts no accesses: counting needs g++ 12 or newer and no AddressSanitizer.");
  }
  const Support support = supports(stage, pass, c.problem, current_device(), c.options.features());
  if (!support) throw std::runtime_error(support.reason);
  const Progress progress(std::string("Running ") + stage.name + ", " + pass_name(pass) + " of " +
                          problem_name(c.problem));
  const harness::Inputs& inputs = unchecked_inputs(pass, c);
  simt::reset_counts();
  harness::run(stage, pass, c.problem, inputs, c.options);
  return {simt::line_counts(), simt::shared_maps()};
}

}  // namespace cuflash::bench
