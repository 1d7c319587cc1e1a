// The oracle's windows against attention computed pair by pair: the definition of the mask alone
// decides which pairs count, without ranges of keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/plain.h"
#include "reference/reference.h"
#include "reference/round.h"
#include "reference_example.h"

namespace cuflash::reference {
namespace {

// True if query i sees key j: −left <= j − (i + seq_kv − seq_q) <= right; causal: right is 0 at
// most.
bool sees(const Problem& p, int i, int j) {
  const double distance = double(j) - (double(i) + p.seq_kv - p.seq_q);
  if (p.window_left >= 0 && distance < -double(p.window_left)) return false;
  if (p.window_right >= 0 && distance > double(p.window_right)) return false;
  return !p.causal || distance <= 0;
}

double dot(const double* x, const double* y, int n) {
  double sum = 0;
  for (int d = 0; d < n; ++d) sum += x[d] * y[d];
  return sum;
}

void add(double factor, const double* x, double* y, int n) {
  for (int d = 0; d < n; ++d) y[d] += factor * x[d];
}

struct Whole {
  Output forward;
  Gradients gradients;
};

// Query i of one head: a row of the matrix P, and its contributions to the results.
void take_query(const Example& e, int b, int h, int i, Whole& whole) {
  const Problem& p = e.problem;
  const int D = p.head_dim, hk = h / (p.heads_q / p.heads_kv);
  const std::size_t row = (std::size_t(b) * p.heads_q + h) * p.seq_q + i;
  const std::size_t head = (std::size_t(b) * p.heads_kv + hk) * p.seq_kv * D;
  const double *q = &e.q[row * D], *d_o = &e.d_o[row * D], *k = &e.k[head], *v = &e.v[head];
  double *o = &whole.forward.o[row * D], *dq = &whole.gradients.dq[row * D];
  double *dk = &whole.gradients.dk[head], *dv = &whole.gradients.dv[head];

  Array weights(p.seq_kv);
  double sum = 0;
  for (int j = 0; j < p.seq_kv; ++j) {
    const double score = p.softmax_scale * dot(q, k + j * D, D);
    sum += weights[j] = sees(p, i, j) ? std::exp(score) : 0.0;
  }
  whole.forward.lse[row] = std::log(sum);  // −∞ where no key is seen
  for (int j = 0; j < p.seq_kv; ++j) {
    if (sum > 0) weights[j] /= sum;
    add(weights[j], v + j * D, o, D);
  }
  const double delta = dot(d_o, o, D);
  for (int j = 0; j < p.seq_kv; ++j) {
    const double dS = weights[j] * (dot(d_o, v + j * D, D) - delta);
    add(p.softmax_scale * dS, k + j * D, dq, D);
    add(p.softmax_scale * dS, q, dk + j * D, D);
    add(weights[j], d_o, dv + j * D, D);
  }
}

Whole pair_by_pair(const Example& e) {
  const Problem& p = e.problem;
  Whole whole;
  whole.forward = {Array(e.q.size()), Array(e.q.size() / p.head_dim)};
  whole.gradients = {Array(e.q.size()), Array(e.k.size()), Array(e.v.size())};
  for (int b = 0; b < p.batch; ++b) {
    for (int h = 0; h < p.heads_q; ++h) {
      for (int i = 0; i < p.seq_q; ++i) take_query(e, b, h, i, whole);
    }
  }
  return whole;
}

// Every combination of sides, of causal and of lengths, with windows from one key to far beyond all
// keys, and without a limit: any negative side has none. If seq_q > seq_kv, the first queries see
// no key in most of the examples; if seq_q < seq_kv, a bound on the left leaves the first keys
// without a query.
std::vector<Example> examples() {
  std::vector<Example> all;
  for (const char* sizes :
       {"b1_h1_q6k6_d3", "b2_h4x2_q5k9_d2", "b1_h2x1_q9k4_d2", "b1_h1_q1k7_d2", "b1_h1_q7k1_d2"}) {
    for (const bool causal : {false, true}) {
      for (const int left : {-7, -1, 0, 2, 2147483647}) {
        for (const int right : {-7, -1, 0, 3, 2147483647}) {
          all.push_back(example(sizes));
          Problem& p = all.back().problem;
          p.causal = causal, p.window_left = left, p.window_right = right;
        }
      }
    }
  }
  return all;
}

TEST(ReferenceWindow, AgreesWithTheMaskPairByPair) {
  int empty_rows = 0, unseen_keys = 0;
  for (const Example& e : examples()) {
    const Problem& p = e.problem;
    SCOPED_TRACE(problem_name(p));
    const Output out = attention_forward(p, e.q, e.k, e.v);
    const Gradients g = attention_backward(p, e.q, e.k, e.v, out, e.d_o);
    const Whole want = pair_by_pair(e);
    expect_near(out.o, want.forward.o, 1e-13);
    expect_near(out.lse, want.forward.lse, 1e-13);
    expect_near(g.dq, want.gradients.dq, 1e-13);
    expect_near(g.dk, want.gradients.dk, 1e-13);
    expect_near(g.dv, want.gradients.dv, 1e-13);
    empty_rows += std::count(out.lse.begin(), out.lse.end(), -kInfinity) > 0;
    unseen_keys += p.seq_q < p.seq_kv && g.dv.front() == 0;
  }
  EXPECT_GT(empty_rows, 20);
  EXPECT_GT(unseen_keys, 20);
}

TEST(ReferenceWindow, SamplesAreTheWhole) {
  for (const Example& e : examples()) {
    const Problem& p = e.problem;
    SCOPED_TRACE(problem_name(p));
    const Output out = attention_forward(p, e.q, e.k, e.v);
    const Gradients g = attention_backward(p, e.q, e.k, e.v, out, e.d_o);
    const QuerySample queries =
        attention_queries(p, e.q, e.k, e.v, e.d_o, every_place(p.batch, p.heads_q, p.seq_q));
    expect_near(queries.o, out.o, 1e-14);
    expect_near(queries.lse, out.lse, 1e-14);
    expect_near(queries.dq, g.dq, 1e-13);
    const KeySample keys =
        attention_keys(p, e.q, e.k, e.v, e.d_o, out.lse, attention_delta(p, out.o, e.d_o),
                       every_place(p.batch, p.heads_kv, p.seq_kv));
    expect_near(keys.dk, g.dk, 1e-13);
    expect_near(keys.dv, g.dv, 1e-13);
  }
}

TEST(ReferenceWindow, ThePlainImplementationAgrees) {
  const auto floats = [](const Array& x) { return std::vector<float>(x.begin(), x.end()); };
  const auto doubles = [](const std::vector<float>& x) { return Array(x.begin(), x.end()); };
  for (const Example& e : examples()) {
    const Problem& p = e.problem;
    SCOPED_TRACE(problem_name(p));
    const auto q = floats(e.q), k = floats(e.k), v = floats(e.v), d_o = floats(e.d_o);
    const PlainOutput out = plain_forward(p, q, k, v, round_f32);
    const PlainGradients g = plain_backward(p, q, k, v, out, d_o, round_f32);
    const Whole want = pair_by_pair(e);
    expect_near(doubles(out.o), want.forward.o, 2e-6);
    expect_near(doubles(out.lse), want.forward.lse, 4e-6);
    expect_near(doubles(g.dq), want.gradients.dq, 2e-5);
    expect_near(doubles(g.dk), want.gradients.dk, 2e-5);
    expect_near(doubles(g.dv), want.gradients.dv, 2e-5);
  }
}

}  // namespace
}  // namespace cuflash::reference
