#include "harness/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace cuflash::harness {
namespace {

// Positions of NaN and infinities come before values: a misplaced one is infinitely wrong.
double error_of(double got, double want) {
  if (std::isfinite(got) && std::isfinite(want)) return std::abs(got - want);
  return got == want ? 0. : std::numeric_limits<double>::infinity();
}

std::string element_name(const ExpectedTensor& tensor, std::int64_t row, int column) {
  std::ostringstream text;
  text << tensor.name << "[batch " << row / tensor.seq / tensor.heads << ", head "
       << row / tensor.seq % tensor.heads << ", row " << row % tensor.seq;
  if (tensor.width > 1) text << ", column " << column;
  text << "]";
  return text.str();
}

Check compare(const std::vector<float>& got, const ExpectedTensor& want) {
  Check check;
  check.name = want.name;
  check.limit = want.limit;
  double worst = -1.;
  for (std::size_t n = 0; n < want.values.size(); ++n) {
    const std::int64_t row = want.rows[n / want.width];
    const int column = static_cast<int>(n % want.width);
    const double value = got[row * want.width + column];
    const double error = error_of(value, want.values[n]);
    if (error <= worst) continue;
    worst = check.error = error;
    check.worst = element_name(want, row, column);
    check.got = value;
    check.want = want.values[n];
    if (std::isinf(error)) break;
  }
  check.ok = check.error <= check.limit;
  return check;
}

}  // namespace

bool Verdict::ok() const {
  return damage.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.ok; });
}

const Check& Verdict::worst() const {
  // Compares error / limit without dividing by a limit of 0.
  return *std::max_element(checks.begin(), checks.end(), [](const Check& a, const Check& b) {
    return a.ok != b.ok ? a.ok : a.error * b.limit < b.error * a.limit;
  });
}

std::string Verdict::failures() const {
  std::ostringstream text;
  for (const Check& check : checks) {
    if (check.ok) continue;
    text << check.worst << " is " << check.got << ", but " << check.want << " was expected";
    if (std::isfinite(check.error)) {
      text << ": an error of " << check.error << ", " << check.limit << " is allowed";
    }
    text << ".\n";
  }
  if (!damage.empty()) text << "Out of bounds: " << damage << ".\n";
  return text.str();
}

Verdict verify(const Outputs& outputs, const Expected& expected) {
  Verdict verdict;
  verdict.damage = outputs.damage;
  for (const ExpectedTensor& tensor : expected.tensors) {
    const auto got = outputs.tensors.find(tensor.name);
    if (got != outputs.tensors.end()) verdict.checks.push_back(compare(got->second, tensor));
  }
  return verdict;
}

Verdict run_and_verify(const Stage& stage, Pass pass, const Problem& problem,
                       const InputSource& source, const CallOptions& options) {
  const auto want = expected(pass, problem, source);
  return verify(run(stage, pass, problem, want->inputs, options), *want);
}

}  // namespace cuflash::harness
