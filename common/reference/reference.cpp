#include "reference/reference.h"

#include <cmath>

#include "reference/layout.h"

namespace cuflash::reference {
namespace {

void expect_inputs(const Problem& p, const Array& q, const Array& k, const Array& v) {
  expect_size(q, num_rows(p) * p.head_dim, "Q");
  expect_size(k, num_kv_rows(p) * p.head_dim, "K");
  expect_size(v, num_kv_rows(p) * p.head_dim, "V");
}

double dot(const double* x, const double* y, int n) {
  double sum = 0;
  for (int d = 0; d < n; ++d) sum += x[d] * y[d];
  return sum;
}

// S becomes P = softmax(S), n ≥ 1 entries, after the largest is subtracted, so that no exp
// overflows. Returns LSE.
double softmax(double* s, int n) {
  double row_max = s[0];
  for (int j = 1; j < n; ++j) row_max = std::max(row_max, s[j]);
  if (row_max == kHidden) {
    std::fill(s, s + n, 0.);
    return kHidden;
  }
  double row_sum = 0;
  for (int j = 0; j < n; ++j) row_sum += s[j] = std::exp(s[j] - row_max);
  for (int j = 0; j < n; ++j) s[j] /= row_sum;
  return row_max + std::log(row_sum);
}

// o = Σ_j P_j V_j over n keys.
void weighted_sum(const double* weights, const double* rows, int n, int head_dim, double* o) {
  std::fill(o, o + head_dim, 0.0);
  for (int j = 0; j < n; ++j) {
    add_scaled(weights[j], rows + std::size_t(j) * head_dim, o, head_dim);
  }
}

}  // namespace

Output attention_forward(const Problem& p, const Array& q, const Array& k, const Array& v,
                         const Score& score) {
  expect_inputs(p, q, k, v);
  const int D = p.head_dim;
  Output out{Array(q.size()), Array(num_rows(p), kHidden)};
  Array s(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const Array k_transposed = transpose(&k[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      if (n <= 0) continue;
      const std::size_t row = row_number(p, b, h, i);
      products(&q[row * D], &k_transposed[first], D, p.seq_kv, n, s.data());
      for (int j = 0; j < n; ++j) s[j] = score.of(p, i, first + j, p.softmax_scale * s[j]);
      out.lse[row] = softmax(s.data(), n);
      weighted_sum(s.data(), &v[head + std::size_t(first) * D], n, D, &out.o[row * D]);
    }
  });
  return out;
}

Array attention_delta(const Problem& p, const Array& o, const Array& d_o) {
  expect_size(o, num_rows(p) * p.head_dim, "O");
  expect_size(d_o, o.size(), "dO");
  Array delta(num_rows(p));
  for (std::size_t row = 0; row < delta.size(); ++row) {
    delta[row] = dot(&o[row * p.head_dim], &d_o[row * p.head_dim], p.head_dim);
  }
  return delta;
}

Gradients attention_backward(const Problem& p, const Array& q, const Array& k, const Array& v,
                             const Output& forward, const Array& d_o, const Score& score) {
  expect_inputs(p, q, k, v);
  expect_size(forward.lse, num_rows(p), "LSE");
  const Array delta = attention_delta(p, forward.o, d_o);
  const int D = p.head_dim;
  Gradients out{Array(q.size()), Array(k.size()), Array(v.size())};
  Array P(p.seq_kv), dS(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const Array k_transposed = transpose(&k[head], p.seq_kv, D);
    const Array v_transposed = transpose(&v[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      const std::size_t row = row_number(p, b, h, i);
      if (forward.lse[row] == kHidden) continue;
      const double* q_row = &q[row * D];
      const double* do_row = &d_o[row * D];
      // P = exp(S − LSE), dP = dO Vᵀ, dS = P ∘ (dP − delta)
      products(q_row, &k_transposed[first], D, p.seq_kv, n, P.data());
      products(do_row, &v_transposed[first], D, p.seq_kv, n, dS.data());
      for (int j = 0; j < n; ++j) {
        const double s = p.softmax_scale * P[j];
        P[j] = std::exp(score.of(p, i, first + j, s) - forward.lse[row]);
        dS[j] = P[j] * (dS[j] - delta[row]) * score.slope(p, i, first + j, s);
      }
      // dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO
      for (int j = 0; j < n; ++j) {
        const std::size_t key = head + std::size_t(first + j) * D;
        add_scaled(dS[j] * p.softmax_scale, &k[key], &out.dq[row * D], D);
        add_scaled(dS[j] * p.softmax_scale, q_row, &out.dk[key], D);
        add_scaled(P[j], do_row, &out.dv[key], D);
      }
    }
  });
  return out;
}

QuerySample attention_queries(const Problem& p, const Array& q, const Array& k, const Array& v,
                              const Array& d_o, const std::vector<Place>& places) {
  expect_inputs(p, q, k, v);
  if (!d_o.empty()) expect_size(d_o, q.size(), "dO");
  const int D = p.head_dim;
  QuerySample out{Array(places.size() * D), Array(places.size(), kHidden),
                  Array(d_o.empty() ? 0 : places.size() * D)};
  Array P(p.seq_kv);
  for (std::size_t at = 0; at < places.size(); ++at) {
    const auto [b, h, i] = places[at];
    const auto [first, n] = visible_keys(p, i);
    if (n <= 0) continue;
    const double* q_row = &q[row_number(p, b, h, i) * D];
    const std::size_t first_key = kv_row_number(p, b, h / group_size(p), first) * D;
    for (int j = 0; j < n; ++j) {
      P[j] = p.softmax_scale * dot(q_row, &k[first_key + std::size_t(j) * D], D);
    }
    out.lse[at] = softmax(P.data(), n);
    weighted_sum(P.data(), &v[first_key], n, D, &out.o[at * D]);
    if (d_o.empty()) continue;
    const double* do_row = &d_o[row_number(p, b, h, i) * D];
    const double delta = dot(do_row, &out.o[at * D], D);
    for (int j = 0; j < n; ++j) {
      const std::size_t key = first_key + std::size_t(j) * D;
      const double dS = P[j] * (dot(do_row, &v[key], D) - delta);
      add_scaled(dS * p.softmax_scale, &k[key], &out.dq[at * D], D);
    }
  }
  return out;
}

KeySample attention_keys(const Problem& p, const Array& q, const Array& k, const Array& v,
                         const Array& d_o, const Array& lse, const Array& delta,
                         const std::vector<Place>& places) {
  expect_inputs(p, q, k, v);
  expect_size(d_o, q.size(), "dO");
  expect_size(lse, num_rows(p), "LSE");
  expect_size(delta, num_rows(p), "delta");
  const int D = p.head_dim;
  KeySample out{Array(places.size() * D), Array(places.size() * D)};
  for (std::size_t at = 0; at < places.size(); ++at) {
    const auto [b, hk, j] = places[at];
    const std::size_t key = kv_row_number(p, b, hk, j) * D;
    for (int h = hk * group_size(p); h < (hk + 1) * group_size(p); ++h) {
      for (int i = 0; i < p.seq_q; ++i) {
        const auto [first, count] = visible_keys(p, i);
        if (j < first || j >= first + count) continue;
        const std::size_t row = row_number(p, b, h, i);
        const double* q_row = &q[row * D];
        const double* do_row = &d_o[row * D];
        const double P = std::exp(p.softmax_scale * dot(q_row, &k[key], D) - lse[row]);
        const double dS = P * (dot(do_row, &v[key], D) - delta[row]);
        add_scaled(dS * p.softmax_scale, q_row, &out.dk[at * D], D);
        add_scaled(P, do_row, &out.dv[at * D], D);
      }
    }
  }
  return out;
}

}  // namespace cuflash::reference
