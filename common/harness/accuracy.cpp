#include "harness/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <sstream>

namespace cuflash::harness {
namespace {

// The absolute error; infinite if a NaN or an infinity is in the wrong place.
double error_of(double got, double want) {
  if (std::isfinite(got) && std::isfinite(want)) return std::abs(got - want);
  return got == want ? 0. : std::numeric_limits<double>::infinity();
}

std::string element_name(const ReferenceTensor& tensor, std::size_t element) {
  const std::size_t row = element / tensor.width, column = element % tensor.width;
  std::ostringstream text;
  text << tensor.name << "[batch " << row / tensor.seq / tensor.heads << ", head "
       << row / tensor.seq % tensor.heads << ", row " << row % tensor.seq;
  if (tensor.width > 1) text << ", column " << column;
  text << "]";
  return text.str();
}

// True if this error is allowed. If the plain implementation overflows, the limit is not finite and
// no error is allowed.
bool within(double error, double limit) { return std::isfinite(limit) && error <= limit; }

TensorAccuracy compare(const std::vector<float>& got, const ReferenceTensor& want) {
  TensorAccuracy accuracy;
  accuracy.name = want.name;
  accuracy.limit = want.limit;
  double worst = -1.;
  std::size_t worst_n = 0;
  accuracy.total = got.size();
  for (std::size_t n = 0; n < got.size(); ++n) {
    const double error = error_of(got[n], want.values[n % want.values.size()]);
    if (!within(error, accuracy.limit)) {
      const int row = static_cast<int>(n / want.width % want.seq);
      accuracy.first_row = accuracy.wrong == 0 ? row : std::min(accuracy.first_row, row);
      accuracy.last_row = std::max(accuracy.last_row, row);
      ++accuracy.wrong;
    }
    if (error <= worst) continue;
    worst = error;
    worst_n = n;
  }
  accuracy.error = worst;
  accuracy.worst = element_name(want, worst_n);
  accuracy.got = got[worst_n];
  accuracy.want = want.values[worst_n % want.values.size()];
  accuracy.ok = within(accuracy.error, accuracy.limit);
  return accuracy;
}

}  // namespace

bool Accuracy::ok() const {
  return damage.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const TensorAccuracy& c) { return c.ok; });
}

const TensorAccuracy& Accuracy::worst() const {
  // Compares error / limit without dividing by a limit of 0.
  return *std::max_element(tensors.begin(), tensors.end(),
                           [](const TensorAccuracy& a, const TensorAccuracy& b) {
                             return a.ok != b.ok ? a.ok : a.error * b.limit < b.error * a.limit;
                           });
}

std::string Accuracy::failures() const {
  std::ostringstream text;
  for (const TensorAccuracy& tensor : tensors) {
    if (tensor.ok) continue;
    text << tensor.worst << " is " << tensor.got << ", but " << tensor.want << " was expected";
    if (!std::isfinite(tensor.limit)) {
      text << ": the plain implementation overflows on these inputs, so there is no limit";
    } else if (std::isfinite(tensor.error)) {
      text << ": the error is " << tensor.error << ", the limit " << tensor.limit;
    }
    text << ".\n  " << tensor.wrong << " of " << tensor.total << " elements of " << tensor.name
         << " are wrong, in rows " << tensor.first_row << " to " << tensor.last_row << ".\n";
  }
  if (!damage.empty()) text << "Out of bounds: " << damage << ".\n";
  return text.str();
}

Accuracy check_accuracy(const Outputs& outputs, const ReferenceOutputs& expected) {
  Accuracy accuracy;
  accuracy.damage = outputs.damage;
  for (const ReferenceTensor& tensor : expected.tensors) {
    const auto got = outputs.tensors.find(tensor.name);
    if (got != outputs.tensors.end()) accuracy.tensors.push_back(compare(got->second, tensor));
  }
  return accuracy;
}

std::string first_difference(const Outputs& a, const Outputs& b) {
  for (const auto& [name, values] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::memcmp(&values[i], &other->second[i], sizeof(float)) == 0) continue;
      std::ostringstream text;
      text << std::setprecision(std::numeric_limits<float>::max_digits10) << name
           << " differs at element " << i << ": " << values[i] << " and " << other->second[i];
      if (std::isnan(values[i]) && std::isnan(other->second[i])) text << ", with different bits";
      return text.str();
    }
  }
  return "";
}

}  // namespace cuflash::harness
