#include "harness/traffic.h"

#include <algorithm>

namespace cuflash::harness {
namespace {

// The numbers that formulas are made of.
struct Sizes {
  Sizes(const Problem& p, const Tile& tile)
      : problem(p),
        tile(tile),
        element(element_bytes(p.dtype)),
        head_dim(p.head_dim),
        rows(std::uint64_t(p.batch) * p.heads_q * p.seq_q),
        kv_rows(std::uint64_t(p.batch) * p.heads_kv * p.seq_kv),
        scores(rows * p.seq_kv),
        visible(std::uint64_t(p.batch) * p.heads_q * visible_pairs(p)) {}

  const Problem& problem;
  Tile tile;
  std::uint64_t element;  // bytes of one
  std::uint64_t head_dim;
  std::uint64_t rows;     // of Q, O and LSE
  std::uint64_t kv_rows;  // of K and V
  std::uint64_t scores;   // elements of S
  std::uint64_t visible;  // of them, those that the mask lets through
};

constexpr std::uint64_t kFloat = sizeof(float);

constexpr int round_up(int rows, int tile) { return (rows + tile - 1) / tile * tile; }

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

// The rows that blocks stream past the rows they own, summed over the blocks of all heads: whole
// tiles, as far as the mask lets something pass.
struct Streamed {
  std::uint64_t rows = 0;
  std::uint64_t pairs = 0;  // each with the rows that its block owns
};

Streamed stream_keys(const Problem& p, const Tile& tile) {
  Streamed sum;
  for (int i0 = 0; i0 < p.seq_q; i0 += tile.owned) {
    const int owned = std::min(tile.owned, p.seq_q - i0);
    const int seen =
        p.causal ? std::clamp(i0 + owned + (p.seq_kv - p.seq_q), 0, p.seq_kv) : p.seq_kv;
    const int rows = std::min(round_up(seen, tile.streamed), p.seq_kv);
    sum.rows += rows;
    sum.pairs += std::uint64_t(rows) * owned;
  }
  const auto heads = std::uint64_t(p.batch) * p.heads_q;
  return {heads * sum.rows, heads * sum.pairs};
}

Streamed stream_queries(const Problem& p, const Tile& tile) {
  Streamed sum;
  for (int j0 = 0; j0 < p.seq_kv; j0 += tile.owned) {
    const int first = p.causal ? std::max(0, j0 - (p.seq_kv - p.seq_q)) : 0;
    sum.rows += p.seq_q - first / tile.streamed * tile.streamed;
  }
  return {std::uint64_t(p.batch) * p.heads_q * sum.rows, 0};
}

// 02_tiled: K and V are read once for every tile of queries, not for every query.
Traffic tiled_forward(const Sizes& n) {
  const Streamed keys = stream_keys(n.problem, n.tile);
  Traffic t;
  // scores: Q, then tiles of K; S of every tile.
  t.read_bytes += (n.rows + keys.rows) * n.head_dim * n.element;
  t.write_bytes += keys.pairs * kFloat;
  // softmax: three walks over the visible part of S; P and LSE are written.
  t.read_bytes += 3 * n.visible * kFloat;
  t.write_bytes += n.visible * kFloat + n.rows * kFloat;
  // output: the visible part of P, tiles of V.
  t.read_bytes += n.visible * kFloat + keys.rows * n.head_dim * n.element;
  t.write_bytes += n.rows * n.head_dim * n.element;
  return t;
}

// 03_online_softmax: no S and no P.
Traffic online_softmax_forward(const Sizes& n) {
  const Streamed keys = stream_keys(n.problem, n.tile);
  Traffic t;
  t.read_bytes += (n.rows + 2 * keys.rows) * n.head_dim * n.element;
  t.write_bytes += n.rows * (n.head_dim * n.element + kFloat);
  return t;
}

// How often the two backward kernels of a fused stage ask for what they share.
struct Asks {
  std::uint64_t row_tensors;  // reads of Q, O and dO by query_gradient, in whole tensors
  std::uint64_t lse;          // for the LSE of a row, by query_gradient
  std::uint64_t lse_delta;    // for LSE and delta of a streamed query, by key_value_gradient
};

Traffic fused_backward(const Sizes& n, const Asks& asks) {
  const Streamed keys = stream_keys(n.problem, n.tile);
  const Streamed queries = stream_queries(n.problem, n.tile);
  Traffic t;
  // query_gradient: Q, O, dO and LSE, tiles of K and V; delta and dQ.
  t.read_bytes += (asks.row_tensors * n.rows + 2 * keys.rows) * n.head_dim * n.element;
  t.read_bytes += asks.lse * n.rows * kFloat;
  t.write_bytes += n.rows * (n.head_dim * n.element + kFloat);
  // key_value_gradient: K and V, tiles of Q and dO, their LSE and delta; dK and dV.
  t.read_bytes += 2 * (n.kv_rows + queries.rows) * n.head_dim * n.element;
  t.read_bytes += asks.lse_delta * queries.rows * 2 * kFloat;
  t.write_bytes += 2 * n.kv_rows * n.head_dim * n.element;
  return t;
}

// 03: the LSE by all 32 lanes of a warp; LSE and delta by each of 8 warps.
Traffic online_softmax_backward(const Sizes& n) { return fused_backward(n, {3, 32, 8}); }

// 04_register_tiles: dO once more, for delta; the LSE by the 8 lanes that share a row; LSE and
// delta once for every 4 keys of the block.
Traffic register_tiles_backward(const Sizes& n) {
  return fused_backward(n, {4, 8, std::uint64_t(n.tile.owned / 4)});
}

// 06_forward_backward: every datum of a tile once.
Traffic forward_backward_backward(const Sizes& n) { return fused_backward(n, {3, 1, 1}); }

struct Entry {
  std::string_view stage;
  Traffic (*forward)(const Sizes&);
  Traffic (*backward)(const Sizes&);  // null: the stage has no backward pass
};

// A new stage adds its row here.
constexpr Entry kFormulas[] = {
    {"01_naive", naive_forward, naive_backward},
    {"02_tiled", tiled_forward, nullptr},
    {"03_online_softmax", online_softmax_forward, online_softmax_backward},
    {"04_register_tiles", online_softmax_forward, register_tiles_backward},
    {"05_wmma", online_softmax_forward, nullptr},
    {"06_forward_backward", online_softmax_forward, forward_backward_backward},
};

}  // namespace

std::uint64_t visible_pairs(const Problem& p) {
  if (!p.causal) return std::uint64_t(p.seq_q) * p.seq_kv;
  std::uint64_t pairs = 0;
  for (int i = 0; i < p.seq_q; ++i) {
    pairs += std::clamp(i + (p.seq_kv - p.seq_q) + 1, 0, p.seq_kv);
  }
  return pairs;
}

std::optional<Traffic> predicted_traffic(const Stage& stage, Pass pass, const Problem& p) {
  for (const Entry& entry : kFormulas) {
    if (entry.stage != stage.name) continue;
    const auto formula = pass == CUFLASH_FORWARD ? entry.forward : entry.backward;
    if (formula != nullptr) return formula(Sizes(p, stage.tile(pass, p)));
  }
  return std::nullopt;
}

}  // namespace cuflash::harness
