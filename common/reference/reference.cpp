#include "reference/reference.h"

#include "reference/attention.h"

namespace cuflash::reference {

static double unrounded(double x) { return x; }

Output attention_forward(const Problem& p, const Array& q, const Array& k, const Array& v,
                         const Score& score) {
  return forward<Output>(p, q, k, v, unrounded, score);
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
                             const Output& given, const Array& d_o, const Score& score) {
  return backward<Gradients>(p, q, k, v, given, d_o, unrounded, score);
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
    for (int j = 0; j < n; ++j) {
      add_scaled(P[j], &v[first_key + std::size_t(j) * D], &out.o[at * D], D);
    }
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
