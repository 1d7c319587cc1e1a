// 01_naive, backward: each equation of the backward pass is one kernel. P and dS are whole matrices
// in global memory.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/mask.h"
#include "device/tensor.h"

namespace cuflash::naive {

// delta_i = Σ_d dO_id O_id. One thread computes one row.
template <class T, int kHeadDim>
__global__ void delta(BackwardParams p, float* delta, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, unused] = unravel(n, p.heads_q, p.seq_q, 1);
  const auto gO = rows<const T>(p.o, b, h);
  const auto gdO = rows<const T>(p.d_o, b, h);
  float sum = 0.f;
  for (int d = 0; d < kHeadDim; ++d) sum += float(gdO(i, d)) * float(gO(i, d));
  delta[n] = sum;
}

// P = exp(S − LSE) and dS = P (dO Vᵀ − delta), element by element: one of each per thread.
template <class T, int kHeadDim>
__global__ void score_gradients(BackwardParams p, const float* delta, float* P, float* dS,
                                std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, j] = unravel(n, p.heads_q, p.seq_q, p.seq_kv);
  const Sequence seq = sequence(p, b);
  if (!visible(seq, i, j)) return;
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gdO = rows<const T>(p.d_o, b, h);
  float s = 0.f, dp = 0.f;
  for (int d = 0; d < kHeadDim; ++d) {
    s += float(gQ(i, d)) * float(gK(j, d));
    dp += float(gdO(i, d)) * float(gV(j, d));
  }
  const std::int64_t row = row_index(p, b, h, i);
  const float prob = expf(s * p.softmax_scale - p.lse[row]);
  P[n] = prob;
  dS[n] = prob * (dp - delta[row]);
}

// dQ = softmax_scale · dS K. One thread computes one element of dQ.
template <class T, int kHeadDim>
__global__ void query_gradient(BackwardParams p, const float* dS, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, d] = unravel(n, p.heads_q, p.seq_q, kHeadDim);
  const Sequence seq = sequence(p, b);
  const Range keys = visible_keys(seq, i, i + 1);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const float* dS_row = dS + row_index(p, b, h, i) * p.seq_kv;
  float dq = 0.f;
  for (int j = keys.begin; j < keys.end; ++j) dq += dS_row[j] * float(gK(j, d));
  rows<T>(p.dq, b, h)(i, d) = T(dq * p.softmax_scale);
}

// out = scale · Wᵀ X, summed over the query heads that share a KV head. One thread computes one
// element. W = dS and X = Q give dK; W = P and X = dO give dV, without a scale.
template <class T, int kHeadDim>
__global__ void key_value_gradient(BackwardParams p, const float* W, Tensor x, Tensor out,
                                   float scale, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h_kv, j, d] = unravel(n, p.heads_kv, p.seq_kv, kHeadDim);
  const Sequence seq = sequence(p, b);
  const Range queries = visible_queries(seq, j, j + 1);
  const int group = p.heads_q / p.heads_kv;
  float sum = 0.f;
  for (int h = h_kv * group; h < (h_kv + 1) * group; ++h) {
    const auto gX = rows<const T>(x, b, h);
    for (int i = queries.begin; i < queries.end; ++i) {
      sum += W[row_index(p, b, h, i) * p.seq_kv + j] * float(gX(i, d));
    }
  }
  rows<T>(out, b, h_kv)(j, d) = T(sum * scale);
}

}  // namespace cuflash::naive
