// 01_naive, forward: attention as three plain loops. S and P are whole matrices in global memory.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/mask.h"
#include "device/tensor.h"

namespace cuflash::naive {

// S = softmax_scale · Q Kᵀ. One thread computes one score.
template <class T, int kHeadDim>
__global__ void scores(ForwardParams p, float* S, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, j] = unravel(n, p.heads_q, p.seq_q, p.seq_kv);
  const Sequence seq = sequence(p, b);
  if (!visible(seq, i, j)) {
    S[n] = -INFINITY;
    return;
  }
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  float s = 0.f;
  for (int d = 0; d < kHeadDim; ++d) s += float(gQ(i, d)) * float(gK(j, d));
  S[n] = s * p.softmax_scale;
}

// P = softmax(S), in place. One thread computes one row, in three loops: maximum, sum, quotient.
static __global__ void softmax(ForwardParams p, float* S, std::int64_t count) {
  const std::int64_t row = thread_index();
  if (row >= count) return;
  float* s = S + row * p.seq_kv;
  float row_max = -INFINITY;
  for (int j = 0; j < p.seq_kv; ++j) row_max = fmaxf(row_max, s[j]);
  if (row_max == -INFINITY) row_max = 0.f;  // A row that sees no key: every exp below is 0.
  float row_sum = 0.f;
  for (int j = 0; j < p.seq_kv; ++j) row_sum += expf(s[j] - row_max);
  const float inverse = row_sum > 0.f ? 1.f / row_sum : 0.f;
  for (int j = 0; j < p.seq_kv; ++j) s[j] = expf(s[j] - row_max) * inverse;
  if (p.lse != nullptr) p.lse[row] = row_max + logf(row_sum);
}

// O = P V. One thread computes one element of O.
template <class T, int kHeadDim>
__global__ void output(ForwardParams p, const float* P, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, d] = unravel(n, p.heads_q, p.seq_q, kHeadDim);
  const Sequence seq = sequence(p, b);
  const Range keys = visible_keys(seq, i, i + 1);
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const float* P_row = P + row_index(p, b, h, i) * p.seq_kv;
  float o = 0.f;
  for (int j = keys.begin; j < keys.end; ++j) o += P_row[j] * float(gV(j, d));
  rows<T>(p.o, b, h)(i, d) = T(o);
}

}  // namespace cuflash::naive
