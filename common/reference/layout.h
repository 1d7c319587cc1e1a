/// @file layout.h
/// What the reference implementations share: where the rows of a contiguous array are, which keys a
/// query sees, and the two loops that all products are made of.
#ifndef CUFLASH_REFERENCE_LAYOUT_H_
#define CUFLASH_REFERENCE_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuflash/problem.h"

namespace cuflash::reference {

/// Rows of Q, O, dO, dQ, and elements of LSE and delta.
inline std::size_t num_rows(const Problem& p) {
  return std::size_t(p.batch) * std::size_t(p.heads_q) * std::size_t(p.seq_q);
}

/// Rows of K, V, dK, dV.
inline std::size_t num_kv_rows(const Problem& p) {
  return std::size_t(p.batch) * std::size_t(p.heads_kv) * std::size_t(p.seq_kv);
}

/// Number of row i of query head h, in [batch, heads_q, seq_q] order.
inline std::size_t row_number(const Problem& p, int b, int h, int i) {
  return (std::size_t(b) * p.heads_q + h) * p.seq_q + i;
}

/// Number of row j of KV head hk, in [batch, heads_kv, seq_kv] order.
inline std::size_t kv_row_number(const Problem& p, int b, int hk, int j) {
  return (std::size_t(b) * p.heads_kv + hk) * p.seq_kv + j;
}

/// Query heads that share a KV head.
inline int group_size(const Problem& p) { return p.heads_q / p.heads_kv; }

/// Calls f(b, h, hk) for every batch and query head, with its KV head.
template <class F>
void for_each_head(const Problem& p, const F& f) {
  for (int b = 0; b < p.batch; ++b) {
    for (int h = 0; h < p.heads_q; ++h) f(b, h, h / group_size(p));
  }
}

/// The keys first, …, first + count − 1.
struct KeyRange {
  int first, count;
};

/// The keys that query i sees; the count may be 0. Masks are aligned to the bottom right: the
/// query's own place among the keys is i + seq_kv − seq_q. It sees the keys from window_left places
/// before that place to window_right (causal: 0) places after it.
inline KeyRange visible_keys(const Problem& p, int i) {
  const std::int64_t place = std::int64_t{i} + p.seq_kv - p.seq_q;
  const auto clamped = [&](std::int64_t key) { return std::clamp<std::int64_t>(key, 0, p.seq_kv); };
  const std::int64_t first = p.window_left < 0 ? 0 : clamped(place - p.window_left);
  std::int64_t end = p.window_right < 0 ? p.seq_kv : clamped(place + p.window_right + 1);
  if (p.causal) end = std::min(end, clamped(place + 1));
  return {static_cast<int>(first), static_cast<int>(end - first)};
}

/// Σ_d x_d y_d, n elements, in order.
template <class T>
T dot(const T* x, const T* y, int n) {
  T sum = 0;
  for (int d = 0; d < n; ++d) sum += x[d] * y[d];
  return sum;
}

/// y += a · x, n elements.
template <class T>
void add_scaled(T a, const T* x, T* y, int n) {
  for (int k = 0; k < n; ++k) y[k] += a * x[k];
}

/// out_j = Σ_d x_d · Yᵀ_dj for j < n, where the rows of Yᵀ have `stride` elements. Each sum runs
/// over d in order; the inner loop runs over j, which compilers turn into vector instructions.
template <class T>
void products(const T* x, const T* transposed, int head_dim, int stride, int n, T* out) {
  for (int j = 0; j < n; ++j) out[j] = T(0);
  for (int d = 0; d < head_dim; ++d) {
    add_scaled(x[d], transposed + std::size_t(d) * stride, out, n);
  }
}

/// The [columns, rows] transpose of a [rows, columns] array.
template <class T>
std::vector<T> transpose(const T* x, int rows, int columns) {
  std::vector<T> result(std::size_t(rows) * columns);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      result[std::size_t(c) * rows + r] = x[std::size_t(r) * columns + c];
    }
  }
  return result;
}

/// Throws unless the array has `count` elements.
template <class T>
void expect_size(const std::vector<T>& array, std::size_t count, const char* name) {
  if (array.size() == count) return;
  throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) +
                              " elements; the problem needs " + std::to_string(count));
}

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_LAYOUT_H_
