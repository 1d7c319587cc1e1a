// The errors of a stage against the oracle, tensor by tensor.
//   tensor_errors STAGE PASS SHAPE...
// prints a line for each shape and tensor: largest error, largest magnitude, limit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>

#include "harness/accuracy.h"
#include "harness/reference_outputs.h"
#include "harness/stage_call.h"
#include "harness/stage_score.h"
#include "harness/test_case.h"

namespace cuflash::bench {
namespace {

double largest_finite(const std::vector<double>& values) {
  double largest = 0.;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

void print_errors(const Stage& stage, Pass pass, const char* shape) {
  harness::TestCase c;
  c.problem.dtype = CUFLASH_F32;
  if (!harness::parse_test_case(shape, c))
    throw std::runtime_error(std::string(shape) + ": no shape");
  const auto want = harness::reference_outputs(pass, c.problem, c.source, harness::score_of(stage));
  const auto got = harness::run(stage, pass, c.problem, want->inputs, c.options);
  const harness::Accuracy accuracy = harness::check_accuracy(got, *want);
  for (std::size_t n = 0; n < accuracy.tensors.size(); ++n) {
    const harness::TensorAccuracy& tensor = accuracy.tensors[n];
    std::printf("%s %s %.9g %.9g %.9g\n", test_case_name(c).c_str(), tensor.name.c_str(),
                tensor.error, largest_finite(want->tensors[n].values), tensor.limit);
  }
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  using cuflash::Pass;
  const cuflash::Stage* stage = argc > 3 ? cuflash::find_stage(argv[1]) : nullptr;
  if (stage == nullptr) {
    std::fprintf(stderr, "usage: tensor_errors STAGE forward|backward SHAPE...\n");
    return 2;
  }
  try {
    const Pass pass = std::strcmp(argv[2], "forward") == 0 ? CUFLASH_FORWARD : CUFLASH_BACKWARD;
    for (int n = 3; n < argc; ++n) cuflash::bench::print_errors(*stage, pass, argv[n]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor_errors: %s\n", error.what());
    return 1;
  }
  return 0;
}
