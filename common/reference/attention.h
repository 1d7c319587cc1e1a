/// @file attention.h
/// Attention forward and backward in the precision T of the given arrays: double for the oracle,
/// float for the plain implementation. `round` is applied to what a kernel hands to a tensor core:
/// to P before P V and Pᵀ dO, to dS before dS K and dSᵀ Q.
#ifndef CUFLASH_REFERENCE_ATTENTION_H_
#define CUFLASH_REFERENCE_ATTENTION_H_

#include <cmath>

#include "reference/layout.h"
#include "reference/score.h"

namespace cuflash::reference {

template <class T>
void expect_inputs(const Problem& p, const std::vector<T>& q, const std::vector<T>& k,
                   const std::vector<T>& v) {
  expect_size(q, num_rows(p) * p.head_dim, "Q");
  expect_size(k, num_kv_rows(p) * p.head_dim, "K");
  expect_size(v, num_kv_rows(p) * p.head_dim, "V");
}

/// S becomes P = softmax(S), n ≥ 1 entries, after the largest is subtracted, so that no exp
/// overflows. Returns LSE.
template <class T>
T softmax(T* s, int n) {
  T row_max = s[0];
  for (int j = 1; j < n; ++j) row_max = std::max(row_max, s[j]);
  if (row_max == T(kHidden)) {
    std::fill(s, s + n, T(0));
    return row_max;
  }
  T row_sum = 0;
  for (int j = 0; j < n; ++j) row_sum += s[j] = std::exp(s[j] - row_max);
  for (int j = 0; j < n; ++j) s[j] /= row_sum;
  return row_max + std::log(row_sum);
}

/// O and LSE.
template <class Output, class T, class Round>
Output forward(const Problem& p, const std::vector<T>& q, const std::vector<T>& k,
               const std::vector<T>& v, Round round, const Score& score) {
  expect_inputs(p, q, k, v);
  const int D = p.head_dim;
  Output out{std::vector<T>(q.size()), std::vector<T>(num_rows(p), T(kHidden))};
  std::vector<T> s(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const auto k_transposed = transpose(&k[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      if (n <= 0) continue;
      const std::size_t row = row_number(p, b, h, i);
      products(&q[row * D], &k_transposed[first], D, p.seq_kv, n, s.data());
      for (int j = 0; j < n; ++j) {
        s[j] = static_cast<T>(score.of(p, i, first + j, s[j] * p.softmax_scale));
      }
      out.lse[row] = softmax(s.data(), n);
      for (int j = 0; j < n; ++j) {
        add_scaled(T(round(s[j])), &v[head + std::size_t(first + j) * D], &out.o[row * D], D);
      }
    }
  });
  return out;
}

/// dQ, dK and dV. `given` holds O and LSE.
template <class Gradients, class T, class Output, class Round>
Gradients backward(const Problem& p, const std::vector<T>& q, const std::vector<T>& k,
                   const std::vector<T>& v, const Output& given, const std::vector<T>& d_o,
                   Round round, const Score& score) {
  expect_inputs(p, q, k, v);
  expect_size(given.o, q.size(), "O");
  expect_size(given.lse, num_rows(p), "LSE");
  expect_size(d_o, q.size(), "dO");
  const int D = p.head_dim;
  Gradients out{std::vector<T>(q.size()), std::vector<T>(k.size()), std::vector<T>(v.size())};
  std::vector<T> P(p.seq_kv), dS(p.seq_kv);
  for_each_head(p, [&](int b, int h, int hk) {
    const std::size_t head = kv_row_number(p, b, hk, 0) * D;
    const auto k_transposed = transpose(&k[head], p.seq_kv, D);
    const auto v_transposed = transpose(&v[head], p.seq_kv, D);
    for (int i = 0; i < p.seq_q; ++i) {
      const auto [first, n] = score.keys(p, i);
      const std::size_t row = row_number(p, b, h, i);
      if (given.lse[row] == T(kHidden)) continue;
      const T *q_row = &q[row * D], *do_row = &d_o[row * D];
      const T delta = dot(do_row, &given.o[row * D], D);
      // P = exp(S − LSE), dP = dO Vᵀ, dS = P ∘ (dP − delta)
      products(q_row, &k_transposed[first], D, p.seq_kv, n, P.data());
      products(do_row, &v_transposed[first], D, p.seq_kv, n, dS.data());
      for (int j = 0; j < n; ++j) {
        const T s = P[j] * p.softmax_scale;
        const T prob = std::exp(static_cast<T>(score.of(p, i, first + j, s)) - given.lse[row]);
        const T slope = static_cast<T>(score.slope(p, i, first + j, s));
        dS[j] = round(prob * (dS[j] - delta) * slope);
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
  for (T& value : out.dq) value *= p.softmax_scale;
  for (T& value : out.dk) value *= p.softmax_scale;
  return out;
}

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_ATTENTION_H_
