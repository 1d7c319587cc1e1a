#include "harness/inputs.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "harness/convert.h"
#include "harness/npy.h"

namespace cuflash::harness {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers from every compiler and library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) { return bits() % bound; }

  void fill_gaussian(
      std::vector<float>& values) {  // Box and Muller: two uniforms give two normals.
    for (std::size_t i = 0; i < values.size(); i += 2) {
      const float u = (static_cast<float>(bits() >> 40) + 1.f) * 0x1p-24f;
      const float angle = static_cast<float>(bits() >> 40) * (0x1p-24f * 6.2831853f);
      const float radius = std::sqrt(-2.f * std::log(u));
      values[i] = radius * std::cos(angle);
      if (i + 1 < values.size()) values[i + 1] = radius * std::sin(angle);
    }
  }

 private:
  std::uint64_t state_;
};

void add_outliers(std::vector<float>& values, int head_dim, Random& random) {
  for (std::size_t row = 0; row < values.size(); row += head_dim) {
    for (int i = 0; i < 3; ++i) values[row + random.below(head_dim)] *= 20.f;
  }
}

// Repeats the first `period` values to the end.
void repeat_first(std::size_t period, std::vector<float>& values) {
  for (std::size_t i = period; i < values.size(); ++i) values[i] = values[i - period];
}

const NpyArray& read_cached(const std::string& path) {
  static std::map<std::string, NpyArray> cache;
  const auto found = cache.find(path);
  if (found != cache.end()) return found->second;
  NpyArray array = read_npy(path);
  if (array.shape.size() != 4) throw std::runtime_error(path + ": is not [batch, heads, seq, dim]");
  return cache.emplace(path, std::move(array)).first->second;
}

// The first heads and rows of a file's array.
std::vector<float> crop(const std::string& path, const Problem& p, int heads, int seq) {
  const NpyArray& array = read_cached(path);
  const auto& shape = array.shape;
  if (p.batch > shape[0] || heads > shape[1] || seq > shape[2] || p.head_dim != shape[3]) {
    throw std::runtime_error(path + ": is too small for " + problem_name(p));
  }
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(p.batch) * heads * seq * p.head_dim);
  for (int b = 0; b < p.batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      const auto first = array.data.begin() + (b * shape[1] + h) * shape[2] * shape[3];
      values.insert(values.end(), first, first + std::int64_t{seq} * shape[3]);
    }
  }
  return values;
}

}  // namespace

Problem one_period(const Problem& p, InputKind kind) {
  constexpr double kSmall = 1e8;  // Multiplications of Q Kᵀ that take the oracle a moment.
  constexpr int kPeriod = 5;      // A prime, so a wrong head rarely holds the same values.
  const std::int64_t groups = std::int64_t{p.batch} * p.heads_kv;
  const double work = 1. * p.batch * p.heads_q * p.seq_q * p.seq_kv * p.head_dim;
  if (kind == InputKind::kReal || work <= kSmall || groups <= kPeriod) return p;
  Problem period = p;
  period.batch = 1;
  period.heads_kv = kPeriod;
  period.heads_q = kPeriod * (p.heads_q / p.heads_kv);
  return period;
}

void repeat_inputs(const Problem& p, Inputs& in) {
  const auto repeat = [](std::vector<float>& values, std::size_t size) {
    const std::size_t period = values.size();
    if (period == 0) return;
    values.resize(size);
    repeat_first(period, values);
  };
  const std::size_t rows = std::size_t(p.batch) * p.heads_q * p.seq_q;
  const std::size_t kv_rows = std::size_t(p.batch) * p.heads_kv * p.seq_kv;
  for (auto* tensor : {&in.q, &in.o, &in.d_o}) repeat(*tensor, rows * p.head_dim);
  for (auto* tensor : {&in.k, &in.v}) repeat(*tensor, kv_rows * p.head_dim);
  repeat(in.lse, rows);
}

Inputs make_inputs(const Problem& whole, const InputSource& source) {
  const Problem p = one_period(whole, source.kind);
  const std::size_t q_size = std::size_t(p.batch) * p.heads_q * p.seq_q * p.head_dim;
  const std::size_t kv_size = std::size_t(p.batch) * p.heads_kv * p.seq_kv * p.head_dim;
  Random random(source.seed);
  Inputs in;
  in.q.resize(q_size), in.k.resize(kv_size), in.v.resize(kv_size), in.d_o.resize(q_size);
  for (auto* tensor : {&in.q, &in.k, &in.v, &in.d_o}) random.fill_gaussian(*tensor);

  switch (source.kind) {
    case InputKind::kGaussian:
      break;
    case InputKind::kPeaky:
      for (auto* tensor : {&in.q, &in.k, &in.v}) add_outliers(*tensor, p.head_dim, random);
      break;
    case InputKind::kAllEqual:
      for (auto* tensor : {&in.q, &in.k, &in.v, &in.d_o}) tensor->assign(tensor->size(), 0.5f);
      break;
    case InputKind::kLargeQ:
      for (float& value : in.q) value *= 100.f;
      break;
    case InputKind::kOneHotDO: {
      const std::size_t head_size = std::size_t(p.seq_q) * p.head_dim;
      in.d_o.assign(q_size, 0.f);
      for (std::size_t i = 0; i < q_size; i += head_size) in.d_o[i + random.below(head_size)] = 1.f;
      break;
    }
    case InputKind::kReal:
      in.q = crop(source.directory + "/q.npy", p, p.heads_q, p.seq_q);
      in.k = crop(source.directory + "/k.npy", p, p.heads_kv, p.seq_kv);
      in.v = crop(source.directory + "/v.npy", p, p.heads_kv, p.seq_kv);
      break;
    case InputKind::kSharedKV:
      for (auto* tensor : {&in.k, &in.v}) repeat_first(std::size_t(p.seq_kv) * p.head_dim, *tensor);
      break;
  }
  for (auto* tensor : {&in.q, &in.k, &in.v, &in.d_o}) round_to(p.dtype, *tensor);
  repeat_inputs(whole, in);
  return in;
}

Problem real_problem(const std::string& directory, DType dtype, bool causal) {
  const auto& q = read_cached(directory + "/q.npy").shape;
  const auto& k = read_cached(directory + "/k.npy").shape;
  if (q[0] != k[0] || q[3] != k[3] || k != read_cached(directory + "/v.npy").shape) {
    throw std::runtime_error(
        directory + ": k.npy and v.npy must have one shape, and q.npy their batch and head_dim.");
  }
  Problem p;
  p.batch = static_cast<int>(q[0]);
  p.heads_q = static_cast<int>(q[1]);
  p.heads_kv = static_cast<int>(k[1]);
  p.seq_q = static_cast<int>(q[2]);
  p.seq_kv = static_cast<int>(k[2]);
  p.head_dim = static_cast<int>(q[3]);
  p.dtype = dtype;
  p.causal = causal;
  p.softmax_scale = default_scale(p.head_dim);
  const Support valid = validate(p);
  if (!valid) throw std::runtime_error(directory + ": " + valid.reason + ".");
  return p;
}

}  // namespace cuflash::harness
