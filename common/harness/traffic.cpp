#include "harness/traffic.h"

#include <algorithm>

namespace cuflash::harness {
namespace {

// The numbers that formulas are made of.
struct Sizes {
  explicit Sizes(const Problem& p)
      : element(element_bytes(p.dtype)),
        head_dim(p.head_dim),
        rows(std::uint64_t(p.batch) * p.heads_q * p.seq_q),
        kv_rows(std::uint64_t(p.batch) * p.heads_kv * p.seq_kv),
        scores(rows * p.seq_kv),
        visible(std::uint64_t(p.batch) * p.heads_q * visible_pairs(p)) {}

  std::uint64_t element;  // bytes of one
  std::uint64_t head_dim;
  std::uint64_t rows;     // of Q, O and LSE
  std::uint64_t kv_rows;  // of K and V
  std::uint64_t scores;   // elements of S
  std::uint64_t visible;  // of them, those that the mask lets through
};

constexpr std::uint64_t kFloat = sizeof(float);

// 01_naive, kernel by kernel. Every thread reads its operands from global memory, one by one.
Traffic naive_forward(const Sizes& n) {
  Traffic t;
  // scores: a row of Q and a row of K for each visible score; S is written whole.
  t.read_bytes += n.visible * 2 * n.head_dim * n.element;
  t.write_bytes += n.scores * kFloat;
  // softmax: three walks over S; P and LSE are written.
  t.read_bytes += 3 * n.scores * kFloat;
  t.write_bytes += n.scores * kFloat + n.rows * kFloat;
  // output: an element of P and one of V for each term of each element of O.
  t.read_bytes += n.visible * n.head_dim * (kFloat + n.element);
  t.write_bytes += n.rows * n.head_dim * n.element;
  return t;
}

Traffic naive_backward(const Sizes& n) {
  Traffic t;
  // delta: a row of O and a row of dO for each row.
  t.read_bytes += n.rows * 2 * n.head_dim * n.element;
  t.write_bytes += n.rows * kFloat;
  // score_gradients: rows of Q, K, V and dO, LSE and delta for each visible score; P and dS.
  t.read_bytes += n.visible * (4 * n.head_dim * n.element + 2 * kFloat);
  t.write_bytes += n.visible * 2 * kFloat;
  // dQ, dK and dV: an element of dS or P and one of K, Q or dO for each term.
  t.read_bytes += 3 * n.visible * n.head_dim * (kFloat + n.element);
  t.write_bytes += (n.rows + 2 * n.kv_rows) * n.head_dim * n.element;
  return t;
}

struct Entry {
  std::string_view stage;
  Traffic (*forward)(const Sizes&);
  Traffic (*backward)(const Sizes&);  // null: the stage has no backward pass
};

// A new stage adds its row here.
constexpr Entry kFormulas[] = {
    {"01_naive", naive_forward, naive_backward},
};

}  // namespace

std::uint64_t visible_pairs(const Problem& p) {
  if (!p.causal) return std::uint64_t(p.seq_q) * p.seq_kv;
  std::uint64_t pairs = 0;
  for (int i = 0; i < p.seq_q; ++i) {
    pairs += std::clamp(i + p.seq_kv - p.seq_q + 1, 0, p.seq_kv);
  }
  return pairs;
}

std::optional<Traffic> predicted_traffic(std::string_view stage, Pass pass, const Problem& p) {
  for (const Entry& entry : kFormulas) {
    if (entry.stage != stage) continue;
    const auto formula = pass == Pass::kForward ? entry.forward : entry.backward;
    if (formula != nullptr) return formula(Sizes(p));
  }
  return std::nullopt;
}

}  // namespace cuflash::harness
