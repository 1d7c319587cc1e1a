#include "harness/traffic.h"

#include <algorithm>
#include <string_view>

// Of each stage that has formulas, its namespace and name (stages/CMakeLists.txt).
#define CUFLASH_STAGE_TRAFFIC(space, name)     \
  namespace cuflash::space {                   \
  extern const harness::StageTraffic kTraffic; \
  }
#include "stage_traffic.inc"
#undef CUFLASH_STAGE_TRAFFIC

namespace cuflash::harness {
namespace {

struct Entry {
  std::string_view stage;
  const StageTraffic* traffic;
};

constexpr Entry kStages[] = {
#define CUFLASH_STAGE_TRAFFIC(space, name) {name, &space::kTraffic},
#include "stage_traffic.inc"
#undef CUFLASH_STAGE_TRAFFIC
};

PassTraffic formulas(const Stage& stage, Pass pass) {
  for (const Entry& entry : kStages) {
    if (entry.stage != stage.name) continue;
    return pass == CUFLASH_FORWARD ? entry.traffic->forward : entry.traffic->backward;
  }
  return {};
}

// The queries to which any of the keys [begin, end) is visible.
Span queries_of(const Problem& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t offset = std::int64_t{p.seq_kv} - p.seq_q;
  const std::int64_t right = p.causal ? 0 : p.window_right;
  Span span = {0, p.seq_q};
  if (right >= 0) span.begin = std::max(span.begin, begin - offset - right);
  if (p.window_left >= 0) span.end = std::min(span.end, end - 1 - offset + p.window_left + 1);
  return span;
}

// The rows of the tiles that cover a span: the last tile ends with the sequence.
std::uint64_t tile_rows(const Span& span, int tile, int seq) {
  if (span.size() == 0) return 0;
  const std::int64_t begin = span.begin / tile * tile;
  const std::int64_t end = (span.end + tile - 1) / tile * tile;
  return static_cast<std::uint64_t>(std::min<std::int64_t>(end, seq) - begin);
}

// Blocks own the `owned_seq` rows of each head. A block that owns [begin, end) streams the rows
// seen(p, begin, end) of `streamed_seq`.
Streamed streamed(const Problem& p, const Tile& tile, int owned_seq, int streamed_seq,
                  Span (*seen)(const Problem&, std::int64_t, std::int64_t)) {
  Streamed sum;
  const auto up = [](int rows, int multiple) {
    return (rows + multiple - 1) / multiple * multiple;
  };
  int first = 0;
  if (tile.end_multiple != 0) first = up(owned_seq, tile.end_multiple) - up(owned_seq, tile.owned);
  for (; first < owned_seq; first += tile.owned) {
    const Span owned = {std::max(first, 0), std::min(first + tile.owned, owned_seq)};
    const Span span = seen(p, owned.begin, owned.end);
    const std::uint64_t rows = tile_rows(span, tile.streamed, streamed_seq);
    sum.rows += rows;
    sum.pairs += rows * static_cast<std::uint64_t>(owned.size());
    sum.tiles += (rows + tile.streamed - 1) / tile.streamed;
  }
  const auto heads = std::uint64_t(p.batch) * p.heads_q;
  return {heads * sum.rows, heads * sum.pairs, heads * sum.tiles};
}

}  // namespace

Span keys_of(const Problem& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t offset = std::int64_t{p.seq_kv} - p.seq_q;
  const std::int64_t right = p.causal ? 0 : p.window_right;
  Span span = {0, p.seq_kv};
  if (p.window_left >= 0) span.begin = std::max(span.begin, begin + offset - p.window_left);
  if (right >= 0) span.end = std::min(span.end, end - 1 + offset + right + 1);
  return span;
}

bool has_traffic_formula(const Stage& stage, Pass pass) {
  return formulas(stage, pass).traffic != nullptr;
}

std::optional<Traffic> predicted_traffic(const Stage& stage, Pass pass, const Problem& p,
                                         const Device& device) {
  const PassTraffic pass_traffic = formulas(stage, pass);
  if (pass_traffic.traffic == nullptr) return std::nullopt;
  Traffic sum = pass_traffic.traffic(p);
  if (pass_traffic.resident != nullptr) {
    const Traffic more = pass_traffic.resident(p, device);
    sum.read_bytes += more.read_bytes;
    sum.write_bytes += more.write_bytes;
  }
  return sum;
}

Tile main_tile(const Stage& stage, Pass pass, const Problem& p) {
  const PassTraffic pass_traffic = formulas(stage, pass);
  return pass_traffic.tile != nullptr ? pass_traffic.tile(p) : Tile{};
}

std::uint64_t visible_pairs(const Problem& p) {
  std::uint64_t pairs = 0;
  for (int i = 0; i < p.seq_q; ++i)
    pairs += static_cast<std::uint64_t>(keys_of(p, i, i + 1).size());
  return pairs;
}

Sizes::Sizes(const Problem& p)
    : row_bytes(p.head_dim * element_bytes(p.dtype)),
      element(element_bytes(p.dtype)),
      head_dim(p.head_dim),
      rows(std::uint64_t(p.batch) * p.heads_q * p.seq_q),
      kv_rows(std::uint64_t(p.batch) * p.heads_kv * p.seq_kv),
      scores(rows * p.seq_kv),
      visible(std::uint64_t(p.batch) * p.heads_q * visible_pairs(p)) {}

Streamed streamed_keys(const Problem& p, const Tile& tile) {
  return streamed(p, tile, p.seq_q, p.seq_kv, keys_of);
}

Streamed streamed_queries(const Problem& p, const Tile& tile) {
  return streamed(p, tile, p.seq_kv, p.seq_q, queries_of);
}

Traffic fused_forward(const Problem& p, const Tile& tile) {
  const Sizes n(p);
  Traffic t;
  t.read_bytes = (n.rows + 2 * streamed_keys(p, tile).rows) * n.row_bytes;
  t.write_bytes = n.rows * (n.row_bytes + kFloat);
  return t;
}

Traffic fused_backward(const Problem& p, const Tile& tile, const Asks& asks) {
  const Sizes n(p);
  const Streamed keys = streamed_keys(p, tile);
  const Streamed queries = streamed_queries(p, tile);
  Traffic t;
  // query_gradient: Q, O, dO and LSE, tiles of K and V; delta and dQ.
  t.read_bytes += (asks.row_tensors * n.rows + 2 * keys.rows) * n.row_bytes;
  t.read_bytes += asks.lse * n.rows * kFloat;
  t.write_bytes += n.rows * (n.row_bytes + kFloat);
  // key_value_gradient: K and V, tiles of Q and dO, their LSE and delta; dK and dV.
  t.read_bytes += 2 * (n.kv_rows + queries.rows) * n.row_bytes;
  t.read_bytes += asks.lse_delta * queries.rows * 2 * kFloat;
  t.write_bytes += 2 * n.kv_rows * n.row_bytes;
  return t;
}

Traffic added_backward(const Problem& p, const Tile& tile, int shares) {
  const Sizes n(p);
  const std::uint64_t tiles = (p.seq_q - 1) / tile.streamed + 1;
  const std::uint64_t padded_rows = tiles * tile.streamed * p.batch * p.heads_q;
  const std::uint64_t sum_row_bytes = n.head_dim * kFloat;
  const Streamed queries = streamed_queries(p, tile);
  const std::uint64_t streamed_rows = queries.tiles * tile.streamed;
  Traffic t;
  // row_delta: O, dO and LSE; LSE and delta of whole tiles, and zeros for the sum of dQ.
  t.read_bytes += n.rows * (2 * n.row_bytes + kFloat);
  t.write_bytes += padded_rows * (2 * kFloat + sum_row_bytes);
  // gradients: K and V, tiles of Q and dO, their LSE and delta; the sums are read and written; dK
  // and dV.
  t.read_bytes += 2 * (n.kv_rows + queries.rows) * n.row_bytes;
  t.read_bytes += streamed_rows * (2 * kFloat + sum_row_bytes);
  t.write_bytes += streamed_rows * sum_row_bytes;
  t.write_bytes += 2 * n.kv_rows * n.row_bytes;
  // query_gradient: the sum of dQ, and dQ.
  t.read_bytes += padded_rows * sum_row_bytes;
  t.write_bytes += n.rows * n.row_bytes;
  // row_delta: zeros for the counts. gradients: a number for each block; the count of a share of a
  // tile of dQ before and after the addition. Each of these is read and written.
  const std::uint64_t count_bytes = sizeof(unsigned);
  const std::uint64_t blocks =
      std::uint64_t((p.seq_kv - 1) / tile.owned + 1) * p.batch * p.heads_kv;
  t.write_bytes += (shares * tiles * p.batch * p.heads_q + 1) * count_bytes;
  t.read_bytes += (blocks + 2 * shares * queries.tiles) * count_bytes;
  t.write_bytes += (blocks + 2 * shares * queries.tiles) * count_bytes;
  return t;
}

}  // namespace cuflash::harness
