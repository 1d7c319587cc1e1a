#include "reference/plain.h"

#include <cmath>

#include "reference/layout.h"

namespace cuflash::reference {
namespace {

using Floats = std::vector<float>;

// The softmax's argument for a query and a key, and its derivative with respect to s.
float score_of(const Score& score, const Problem& p, int i, int j, float s) {
  return static_cast<float>(score.of(p, i, j, s));
}
float slope_of(const Score& score, const Problem& p, int i, int j, float s) {
  return static_cast<float>(score.slope(p, i, j, s));
}

void expect_inputs(const Problem& p, const Floats& q, const Floats& k, const Floats& v) {
  expect_size(q, num_rows(p) * p.head_dim, "Q");
  expect_size(k, num_kv_rows(p) * p.head_dim, "K");
  expect_size(v, num_kv_rows(p) * p.head_dim, "V");
}

// S becomes P = softmax(S), n ≥ 1 entries; returns LSE.
float softmax(float* s, int n) {
  float row_max = s[0];
  for (int j = 1; j < n; ++j) row_max = std::max(row_max, s[j]);
  if (row_max == kHidden) {
    std::fill(s, s + n, 0.f);
    return kHidden;
  }
  float row_sum = 0.f;
  for (int j = 0; j < n; ++j) row_sum += s[j] = std::exp(s[j] - row_max);
  for (int j = 0; j < n; ++j) s[j] /= row_sum;
  return row_max + std::log(row_sum);
}

void round_all(Floats& values, Round round) {
  for (float& value : values) value = round(value);
}

}  // namespace

PlainOutput plain_forward(const Problem& p, const Floats& q, const Floats& k, const Floats& v,
                          Round round, const Score& score) {
  expect_inputs(p, q, k, v);
  const int D = p.head_dim;
  PlainOutput out{Floats(q.size()), Floats(num_rows(p), kHidden)};
  Floats s(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const Floats k_transposed = transpose(&k[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      if (n <= 0) continue;
      const std::size_t row = row_number(p, b, h, i);
      products(&q[row * D], &k_transposed[first], D, p.seq_kv, n, s.data());
      for (int j = 0; j < n; ++j) s[j] = score_of(score, p, i, first + j, s[j] * p.softmax_scale);
      out.lse[row] = softmax(s.data(), n);
      for (int j = 0; j < n; ++j) {
        add_scaled(round(s[j]), &v[head + std::size_t(first + j) * D], &out.o[row * D], D);
      }
    }
  });
  round_all(out.o, round);
  return out;
}

PlainGradients plain_backward(const Problem& p, const Floats& q, const Floats& k, const Floats& v,
                              const PlainOutput& forward, const Floats& d_o, Round round,
                              const Score& score) {
  expect_inputs(p, q, k, v);
  expect_size(forward.o, q.size(), "O");
  expect_size(forward.lse, num_rows(p), "LSE");
  expect_size(d_o, q.size(), "dO");
  const int D = p.head_dim;
  PlainGradients out{Floats(q.size()), Floats(k.size()), Floats(v.size())};
  Floats P(p.seq_kv), dS(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const Floats k_transposed = transpose(&k[head], p.seq_kv, D);
    const Floats v_transposed = transpose(&v[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      const std::size_t row = row_number(p, b, h, i);
      if (forward.lse[row] == kHidden) continue;
      const float* q_row = &q[row * D];
      const float* do_row = &d_o[row * D];
      float delta = 0.f;
      for (int d = 0; d < D; ++d) delta += do_row[d] * forward.o[row * D + d];
      // P = exp(S − LSE), dP = dO Vᵀ, dS = P ∘ (dP − delta)
      products(q_row, &k_transposed[first], D, p.seq_kv, n, P.data());
      products(do_row, &v_transposed[first], D, p.seq_kv, n, dS.data());
      for (int j = 0; j < n; ++j) {
        const float s = P[j] * p.softmax_scale;
        const float prob = std::exp(score_of(score, p, i, first + j, s) - forward.lse[row]);
        dS[j] = round(prob * (dS[j] - delta) * slope_of(score, p, i, first + j, s));
        P[j] = round(prob);
      }
      // dQ = dS K, dK = dSᵀ Q, dV = Pᵀ dO; the scale comes last
      for (int j = 0; j < n; ++j) {
        const std::size_t key = head + std::size_t(first + j) * D;
        add_scaled(dS[j], &k[key], &out.dq[row * D], D);
        add_scaled(dS[j], q_row, &out.dk[key], D);
        add_scaled(P[j], do_row, &out.dv[key], D);
      }
    }
  });
  for (float& value : out.dq) value *= p.softmax_scale;
  for (float& value : out.dk) value *= p.softmax_scale;
  round_all(out.dq, round);
  round_all(out.dk, round);
  round_all(out.dv, round);
  return out;
}

}  // namespace cuflash::reference
