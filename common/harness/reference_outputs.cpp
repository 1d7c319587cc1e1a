#include "harness/reference_outputs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <thread>
#include <tuple>

#include "cuflash/workload.h"
#include "harness/convert.h"
#include "reference/layout.h"
#include "reference/plain.h"
#include "reference/reference.h"

namespace cuflash::harness {
namespace {

using reference::Array;
using reference::Score;
using Floats = std::vector<float>;

// The results of one period of heads, by the oracle and by the plain implementation. `plain_grads`
// started from the oracle's O and LSE, rounded, as the stages do.
struct Results {
  reference::Output oracle;
  reference::PlainOutput plain, given;
  reference::Gradients grads;
  reference::PlainGradients plain_grads;
};

// Elements [n · size, (n + 1) · size) as another type.
template <class To, class From>
To part(const From& all, std::size_t n, std::size_t size) {
  return To(all.begin() + n * size, all.begin() + (n + 1) * size);
}

template <class T>
void put(std::vector<T>& all, std::size_t n, const std::vector<T>& values) {
  std::copy(values.begin(), values.end(), all.begin() + n * values.size());
}

// Calls f(0) ... f(count - 1) on all cores.
void parallel(std::size_t count, const std::function<void(std::size_t)>& f) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t n = next++; n < count; n = next++) f(n);
  };
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// Groups of heads are independent, so each is a problem of its own.
Results compute(Pass pass, const Problem& p, const Inputs& in, const Score& score) {
  Problem group = p;
  group.batch = group.heads_kv = 1;
  group.heads_q = p.heads_q / p.heads_kv;
  const std::size_t groups = std::size_t(p.batch) * p.heads_kv;
  const std::size_t rows = std::size_t(group.heads_q) * p.seq_q;
  const std::size_t q_size = rows * p.head_dim, kv_size = std::size_t(p.seq_kv) * p.head_dim;
  const bool backward = pass == CUFLASH_BACKWARD;
  const auto round = reference::rounding(p.dtype);

  Results all;
  all.oracle = {Array(groups * q_size), Array(groups * rows)};
  all.plain = all.given = {Floats(groups * q_size), Floats(groups * rows)};
  if (backward) {
    all.grads = {Array(groups * q_size), Array(groups * kv_size), Array(groups * kv_size)};
    all.plain_grads = {Floats(groups * q_size), Floats(groups * kv_size), Floats(groups * kv_size)};
  }
  parallel(groups, [&](std::size_t n) {
    const auto q = part<Array>(in.q, n, q_size), d_o = part<Array>(in.d_o, n, q_size);
    const auto k = part<Array>(in.k, n, kv_size), v = part<Array>(in.v, n, kv_size);
    const Floats fq(q.begin(), q.end()), fdo(d_o.begin(), d_o.end());
    const Floats fk(k.begin(), k.end()), fv(v.begin(), v.end());

    const auto oracle = reference::attention_forward(group, q, k, v, score);
    put(all.oracle.o, n, oracle.o), put(all.oracle.lse, n, oracle.lse);
    reference::PlainOutput given = {Floats(oracle.o.begin(), oracle.o.end()),
                                    Floats(oracle.lse.begin(), oracle.lse.end())};
    round_to(p.dtype, given.o);
    put(all.given.o, n, given.o), put(all.given.lse, n, given.lse);
    if (!backward) {
      const auto plain = reference::plain_forward(group, fq, fk, fv, round, score);
      put(all.plain.o, n, plain.o), put(all.plain.lse, n, plain.lse);
      return;
    }
    const auto grads = reference::attention_backward(group, q, k, v, oracle, d_o, score);
    const auto plain = reference::plain_backward(group, fq, fk, fv, given, fdo, round, score);
    put(all.grads.dq, n, grads.dq), put(all.plain_grads.dq, n, plain.dq);
    put(all.grads.dk, n, grads.dk), put(all.plain_grads.dk, n, plain.dk);
    put(all.grads.dv, n, grads.dv), put(all.plain_grads.dv, n, plain.dv);
  });
  return all;
}

// ---- Limits

double max_abs(const Floats& values) {
  double largest = 0.;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double largest_row(const Floats& values, int head_dim) {
  double largest = 0.;
  for (std::size_t row = 0; row < values.size(); row += head_dim) {
    double sum = 0.;
    for (int d = 0; d < head_dim; ++d) sum += double{values[row + d]} * values[row + d];
    largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}

// NaN where an element that should be finite is NaN.
double largest_error(const Array& want, const Floats& got) {
  double largest = 0.;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) continue;
    const double error = std::abs(got[i] - want[i]);
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

double largest_finite(const Array& values) {
  double largest = 0.;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// An estimate of the sum of a column of P, the weights that add up in an element of dK and dV. Each
// query distributes the weight 1 over the visible keys, which lie in one range.
double column_sum(const Problem& p, const Score& score) {
  int queries = 0, begin = p.seq_kv, end = 0;
  for (int i = 0; i < p.seq_q; ++i) {
    const auto [first, count] = score.keys(p, i);
    if (count == 0) continue;
    ++queries;
    begin = std::min(begin, first);
    end = std::max(end, first + count);
  }
  const double mean = queries == 0 ? 0. : 1. * p.heads_q / p.heads_kv * queries / (end - begin);
  return std::max(1., mean);
}

// The error that the rounding of dot products causes in each output.
double dot_product_rounding(const std::string& name, const Problem& p, const Inputs& in,
                            const Score& score) {
  constexpr double kEpsilon = 0x1p-23;
  const int D = p.head_dim;
  const double s = kEpsilon * p.softmax_scale * largest_row(in.q, D) * largest_row(in.k, D);
  const double dp = kEpsilon * largest_row(in.d_o, D) * largest_row(in.v, D);
  if (name == "LSE") return s;
  if (name == "O") return s * max_abs(in.v);
  if (name == "dV") return s * max_abs(in.d_o) * column_sum(p, score);
  if (name == "dQ") return dp * p.softmax_scale * max_abs(in.k);
  return dp * p.softmax_scale * max_abs(in.q) * column_sum(p, score);  // dK
}

double limit_of(const std::string& name, const Problem& p, const InputSource& source,
                const Inputs& in, const Array& want, const Floats& plain, const Score& score) {
  const bool gradient = name[0] == 'd';
  const double dots = dot_product_rounding(name, p, in, score);
  if (p.dtype == CUFLASH_F32 && source.kind == InputKind::kGaussian && name != "LSE") {
    if (gradient) return 1e-5 * largest_finite(want) + dots;
    const bool masked = p.causal || has_window(p);
    return p.seq_kv >= 256 && !masked ? 1e-6 : 3e-6;
  }
  const DType dtype = name == "LSE" ? CUFLASH_F32 : p.dtype;
  return (gradient ? 3. : 2.) * largest_error(want, plain) + half_ulp(dtype, largest_finite(want)) +
         dots;
}

std::shared_ptr<const ReferenceOutputs> make_expected(Pass pass, const Problem& whole,
                                                      const InputSource& source,
                                                      const Score& score) {
  const Problem p = one_period(whole, source.kind);
  auto expected = std::make_shared<ReferenceOutputs>();
  Inputs& in = expected->inputs = make_inputs(p, source);
  Results results = compute(pass, p, in, score);
  const auto add = [&](const char* name, int heads, int seq, int width, Array& want,
                       const Floats& plain) {
    const double limit = limit_of(name, p, source, in, want, plain, score);
    expected->tensors.push_back({name, heads, seq, width, std::move(want), limit});
  };
  if (pass == CUFLASH_FORWARD) {
    add("O", whole.heads_q, p.seq_q, p.head_dim, results.oracle.o, results.plain.o);
    add("LSE", whole.heads_q, p.seq_q, 1, results.oracle.lse, results.plain.lse);
  } else {
    add("dQ", whole.heads_q, p.seq_q, p.head_dim, results.grads.dq, results.plain_grads.dq);
    add("dK", whole.heads_kv, p.seq_kv, p.head_dim, results.grads.dk, results.plain_grads.dk);
    add("dV", whole.heads_kv, p.seq_kv, p.head_dim, results.grads.dv, results.plain_grads.dv);
    in.o = std::move(results.given.o);
    in.lse = std::move(results.given.lse);
  }
  repeat_inputs(whole, in);
  return expected;
}

std::size_t bytes_of(const ReferenceOutputs& expected) {
  std::size_t bytes = 0;
  const Inputs& in = expected.inputs;
  for (const auto* tensor : {&in.q, &in.k, &in.v, &in.o, &in.d_o}) {
    bytes += tensor->size() * sizeof(float);
  }
  for (const auto& tensor : expected.tensors) bytes += tensor.values.size() * sizeof(double);
  return bytes;
}

}  // namespace

std::shared_ptr<const ReferenceOutputs> reference_outputs(Pass pass, const Problem& problem,
                                                          const InputSource& source,
                                                          const Score& score) {
  constexpr std::size_t kMostBytes = std::size_t{8} << 30;
  using Key = std::tuple<std::string, Score::Function, Score::Function>;
  static std::map<Key, std::shared_ptr<const ReferenceOutputs>> cache;
  static std::size_t cached_bytes = 0;
  const std::string name = std::string(pass_name(pass)) + ' ' + problem_name(problem) + ' ' +
                           std::to_string(problem.softmax_scale) + ' ' + input_name(source.kind) +
                           ' ' + std::to_string(source.seed) + ' ' + source.directory;
  const Key key = {name, score.value, score.derivative};
  auto& entry = cache[key];
  if (entry) return entry;
  const auto made = make_expected(pass, problem, source, score);
  cached_bytes += bytes_of(*made);
  if (cached_bytes > kMostBytes) {
    cache.clear();
    cached_bytes = bytes_of(*made);
  }
  return cache[key] = made;
}

}  // namespace cuflash::harness
