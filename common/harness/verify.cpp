#include "harness/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace cuflash::harness {
namespace {

// Positions of NaN and infinities come before values: a misplaced one is infinitely wrong.
double error_of(double got, double want) {
  if (std::isfinite(got) && std::isfinite(want)) return std::abs(got - want);
  return got == want ? 0. : std::numeric_limits<double>::infinity();
}

std::string element_name(const ExpectedTensor& tensor, std::size_t element) {
  const std::size_t row = element / tensor.width, column = element % tensor.width;
  std::ostringstream text;
  text << tensor.name << "[batch " << row / tensor.seq / tensor.heads << ", head "
       << row / tensor.seq % tensor.heads << ", row " << row % tensor.seq;
  if (tensor.width > 1) text << ", column " << column;
  text << "]";
  return text.str();
}

// Is this error allowed? Where the plain implementation itself overflows there is no limit, and
// nothing is.
bool within(double error, double limit) { return std::isfinite(limit) && error <= limit; }

Check compare(const std::vector<float>& got, const ExpectedTensor& want) {
  Check check;
  check.name = want.name;
  check.limit = want.limit;
  double worst = -1.;
  std::size_t worst_n = 0;
  check.total = got.size();
  for (std::size_t n = 0; n < got.size(); ++n) {
    const double error = error_of(got[n], want.values[n % want.values.size()]);
    if (!within(error, check.limit)) {
      const int row = static_cast<int>(n / want.width % want.seq);
      check.first_row = check.wrong == 0 ? row : std::min(check.first_row, row);
      check.last_row = std::max(check.last_row, row);
      ++check.wrong;
    }
    if (error <= worst) continue;
    worst = error;
    worst_n = n;
  }
  check.error = worst;
  check.worst = element_name(want, worst_n);
  check.got = got[worst_n];
  check.want = want.values[worst_n % want.values.size()];
  check.ok = within(check.error, check.limit);
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
    if (!std::isfinite(check.limit)) {
      text << ": the plain implementation overflows on these inputs, so there is no limit";
    } else if (std::isfinite(check.error)) {
      text << ": an error of " << check.error << ", " << check.limit << " is allowed";
    }
    text << ".\n  " << check.wrong << " of " << check.total << " elements of " << check.name
         << " are off, in rows " << check.first_row << " to " << check.last_row << ".\n";
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

std::string first_difference(const Outputs& a, const Outputs& b) {
  for (const auto& [name, values] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::memcmp(&values[i], &other->second[i], sizeof(float)) == 0) continue;
      std::ostringstream text;
      text << name << " differs at element " << i << ": " << values[i] << " and "
           << other->second[i];
      return text.str();
    }
  }
  return "";
}

}  // namespace cuflash::harness
