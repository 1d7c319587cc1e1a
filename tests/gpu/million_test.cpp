// A million tokens: the library's own choice, one head, causal, both passes, compared with the
// oracle at some queries and some keys.
//
// A sampled query is a problem of its own, one query and the keys it sees; so is a sampled key,
// with the queries that see it. For such a problem the plain implementation (reference/plain.h)
// computes in the kernels' precision, from the O and LSE that the kernels computed. As everywhere,
// a kernel's error may be twice as large in O and LSE and three times as large in the gradients,
// plus half a unit in the last place. Each sample has its own limit: P of query 0 is 1, that of the
// last query about 1e-6, and an error allowed for the first would hide any error of the last. The
// limit also includes two roundings, with e = 2^-23:
//
//   * Sums on tensor cores. They add 16 products to a sum in f32 and cut off what does not fit, so
//     each step may lose a unit: e · n/16 of the largest result for a sum of n terms.
//   * Dot products in f32, as in harness/reference_outputs.h: S is off by e · softmax_scale ·
//     |q| |k|, which shows in LSE, and dP by e · |dO| |v|, which shows in dQ of query 0, where dS
//     is 0. Both are far below the rounding of P and dS to f16 elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "device_rows.h"
#include "harness/convert.h"
#include "harness/inputs.h"
#include "large.h"
#include "reference/plain.h"
#include "reference/reference.h"
#include "support/api_call.h"
#include "support/expect.h"

namespace cuflash {
namespace {

using Floats = std::vector<float>;
using Doubles = reference::Array;

constexpr int kLength = 1000000, kDim = 64;
// The period of the inputs' rows: a prime, so that no tile repeats one before it.
constexpr int kPeriod = 8191;
// First and last, at borders of tiles, and at powers of two; 999,936 begins the last tile of 64.
const std::vector<int> kQueries = {0,     1,     63,     64,     65,     127,    128,    4095,
                                   65535, 65536, 262143, 524287, 524288, 999935, 999936, 999999};
const std::vector<int> kKeys = {0, 1, 63, 64, 65535, 65536, 524288, 999999};

Problem whole() { return problem_of("b1_h1_q1000000k1000000_d64_f16_causal"); }

// ---- Arrays on the host -------------------------------------------------------------------------

Floats repeated(Floats values) {
  const std::size_t period = values.size();
  values.resize(std::size_t(kLength) * kDim);
  for (std::size_t n = period; n < values.size(); ++n) values[n] = values[n - period];
  return values;
}

Floats part(const Floats& all, int first, int count, int width) {
  const auto begin = all.begin() + std::ptrdiff_t(first) * width;
  return {begin, begin + std::ptrdiff_t(count) * width};
}

Doubles in_double(const Floats& values) { return {values.begin(), values.end()}; }

double largest(const Doubles& values) {
  double largest = 0.;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

double length_of(const float* row) {
  double sum = 0.;
  for (int d = 0; d < kDim; ++d) sum += double{row[d]} * row[d];
  return std::sqrt(sum);
}

// The largest difference; infinite if a result is NaN or infinite.
double difference(const Floats& got, const Doubles& want) {
  double most = 0.;
  for (std::size_t n = 0; n < want.size(); ++n) {
    const double error = std::abs(got[n] - want[n]);
    if (!std::isfinite(error)) return INFINITY;
    most = std::max(most, error);
  }
  return most;
}

// Calls f(0) ... f(count - 1), each from one of 8 threads: a large sample takes a gigabyte.
template <class F>
void parallel(std::size_t count, const F& f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) f(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- What the library computes ------------------------------------------------------------------

struct Results {
  Floats o, lse, dq, dk, dv;
};

Results compute(const Floats& q, const Floats& k, const Floats& v, const Floats& d_o) {
  const auto input = [](const Floats& period) {
    return DeviceRows(CUFLASH_F16, kLength, kDim, period);
  };
  const DeviceRows gq = input(q), gk = input(k), gv = input(v), gdo = input(d_o);
  const auto output = [] { return DeviceRows(CUFLASH_F16, kLength, kDim); };
  const DeviceRows o = output(), dq = output(), dk = output(), dv = output();
  const DeviceRows lse(CUFLASH_F32, kLength, 1);
  expect_success(
      forward(whole(), {gq.tensor(), gk.tensor(), gv.tensor(), o.tensor(), lse.floats()}));
  expect_success(backward(whole(), {gq.tensor(), gk.tensor(), gv.tensor(), o.tensor(), gdo.tensor(),
                                    dq.tensor(), dk.tensor(), dv.tensor(), lse.floats()}));
  harness::check(cudaDeviceSynchronize(), "the kernels");
  const auto all = [](const DeviceRows& rows) { return rows.read(0, kLength); };
  return {all(o), all(lse), all(dq), all(dk), all(dv)};
}

// ---- What it must compute -----------------------------------------------------------------------

// One sampled row of one tensor.
struct Sample {
  std::string name;
  double error = INFINITY, limit = 0.;
};

Sample sample(const char* tensor, int row, const Floats& all, const Doubles& want,
              const Floats& plain, double rounding) {
  const std::string name = tensor;
  const bool lse = name == "LSE";
  const Floats got = part(all, row, 1, lse ? 1 : kDim);
  const double factor = name[0] == 'd' ? 3. : 2.;
  return {name + " of row " + std::to_string(row), difference(got, want),
          factor * difference(plain, want) +
              harness::half_ulp(lse ? CUFLASH_F32 : CUFLASH_F16, largest(want)) + rounding};
}

// The error that sums of n terms may have.
double cut_off(int n, const Doubles& sums) { return 0x1p-23 * n / 16 * largest(sums); }

class Judge {
 public:
  Judge(const harness::Inputs& in, const Results& got)
      : got_(got),
        q_(repeated(in.q)),
        k_(repeated(in.k)),
        v_(repeated(in.v)),
        do_(repeated(in.d_o)),
        q64_(in_double(q_)),
        k64_(in_double(k_)),
        v64_(in_double(v_)),
        do64_(in_double(do_)),
        lse64_(in_double(got.lse)),
        delta64_(reference::attention_delta(whole(), in_double(got.o), do64_)) {
    for (std::size_t j = 0; j < kPeriod; ++j) {
      longest_k_ = std::max(longest_k_, length_of(&k_[j * kDim]));
      longest_v_ = std::max(longest_v_, length_of(&v_[j * kDim]));
    }
  }

  // O, LSE and dQ of a query.
  std::vector<Sample> query(int i) const {
    const auto want = reference::attention_queries(whole(), q64_, k64_, v64_, do64_, {{0, 0, i}});
    Problem p = whole();
    p.seq_q = 1, p.seq_kv = i + 1;
    const Floats q = part(q_, i, 1, kDim), d_o = part(do_, i, 1, kDim);
    const Floats k = part(k_, 0, i + 1, kDim), v = part(v_, 0, i + 1, kDim);
    const auto plain = reference::plain_forward(p, q, k, v, reference::round_f16);
    const auto gradients =
        reference::plain_backward(p, q, k, v, given(i, 1), d_o, reference::round_f16);
    const double s = 0x1p-23 * p.softmax_scale * length_of(q.data()) * longest_k_;
    const double dp = 0x1p-23 * length_of(d_o.data()) * longest_v_;
    return {sample("O", i, got_.o, want.o, plain.o, cut_off(i + 1, want.o)),
            sample("LSE", i, got_.lse, want.lse, plain.lse, s),
            sample("dQ", i, got_.dq, want.dq, gradients.dq,
                   cut_off(i + 1, want.dq) + dp * p.softmax_scale * longest_k_)};
  }

  // dK and dV of a key. The LSE and delta of all queries are the library's own.
  std::vector<Sample> key(int j) const {
    const auto want =
        reference::attention_keys(whole(), q64_, k64_, v64_, do64_, lse64_, delta64_, {{0, 0, j}});
    Problem p = whole();
    p.seq_q = kLength - j, p.seq_kv = 1, p.causal = false;  // All of these queries see it.
    const auto gradients = reference::plain_backward(
        p, part(q_, j, p.seq_q, kDim), part(k_, j, 1, kDim), part(v_, j, 1, kDim),
        given(j, p.seq_q), part(do_, j, p.seq_q, kDim), reference::round_f16);
    return {sample("dK", j, got_.dk, want.dk, gradients.dk, cut_off(p.seq_q, want.dk)),
            sample("dV", j, got_.dv, want.dv, gradients.dv, cut_off(p.seq_q, want.dv))};
  }

 private:
  // O and LSE of queries, as the library's backward pass was given them.
  reference::PlainOutput given(int first, int count) const {
    return {part(got_.o, first, count, kDim), part(got_.lse, first, count, 1)};
  }

  const Results& got_;
  Floats q_, k_, v_, do_;
  Doubles q64_, k64_, v64_, do64_, lse64_, delta64_;
  double longest_k_ = 0., longest_v_ = 0.;
};

class Million : public Large {};

TEST_F(Million, TokensForwardAndBackward) {
  CUFLASH_NEED(6);  // 4.1 GB are the backward pass's workspace: with one head, 16 slices of dQ
  Problem period = whole();
  period.seq_q = period.seq_kv = kPeriod;
  const harness::Inputs in = harness::make_inputs(period, {});
  const Results got = compute(in.q, in.k, in.v, in.d_o);
  const Judge judge(in, got);
  std::vector<std::vector<Sample>> samples(kQueries.size() + kKeys.size());
  parallel(samples.size(), [&](std::size_t n) {
    n = samples.size() - 1 - n;  // The slow ones first: the first keys and the last queries.
    const std::size_t keys = kKeys.size();
    samples[n] = n < keys ? judge.key(kKeys[keys - 1 - n]) : judge.query(kQueries[n - keys]);
  });
  for (const auto& some : samples) {
    for (const Sample& s : some) {
      EXPECT_TRUE(std::isfinite(s.limit)) << s.name << " has no limit";
      EXPECT_LE(s.error, s.limit) << s.name << ", of " << kLength << " rows, is off";
    }
  }
}

}  // namespace
}  // namespace cuflash
