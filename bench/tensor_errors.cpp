// How far a stage is from the oracle, tensor by tensor: the figures behind a verdict.
//   tensor_errors STAGE PASS SHAPE...
// prints a line for each shape and tensor: largest error, largest magnitude, limit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>

#include "harness/call.h"
#include "harness/case.h"
#include "harness/expected.h"
#include "harness/verify.h"

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
  harness::Case c;
  c.problem.dtype = DType::kF32;
  if (!harness::parse_case(shape, c)) throw std::runtime_error(std::string(shape) + ": no shape");
  const auto want = harness::expected(pass, c.problem, c.source);
  const auto got = harness::run(stage, pass, c.problem, want->inputs, c.options);
  const harness::Verdict verdict = harness::verify(got, *want);
  for (std::size_t n = 0; n < verdict.checks.size(); ++n) {
    const harness::Check& check = verdict.checks[n];
    std::printf("%s %s %.9g %.9g %.9g\n", case_name(c).c_str(), check.name.c_str(), check.error,
                largest_finite(want->tensors[n].values), check.limit);
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
    const Pass pass = std::strcmp(argv[2], "forward") == 0 ? Pass::kForward : Pass::kBackward;
    for (int n = 3; n < argc; ++n) cuflash::bench::print_errors(*stage, pass, argv[n]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor_errors: %s\n", error.what());
    return 1;
  }
  return 0;
}
