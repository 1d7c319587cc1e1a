// The memory traffic of each stage, as a closed formula of the problem.
//
// "Requested" bytes are the bytes that the threads load and store, before any cache. The CPU
// simulator counts them; the tests demand that the count equals the formula, and the ladder prints
// both. A stage's formulas are in its folder, in traffic.cu; this header declares their building
// blocks.
#ifndef CUFLASH_HARNESS_TRAFFIC_H_
#define CUFLASH_HARNESS_TRAFFIC_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cuflash/stage.h"

namespace cuflash::harness {

struct Traffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t bank_conflicts = 0;  // wavefronts of shared memory beyond the minimum
};

// The tile of a kernel's main loop, in rows. A block owns some rows of one sequence and streams the
// rows of the other.
struct Tile {
  int owned = 0;     // 0: no tiles
  int streamed = 0;  // at a time
  // If not 0, the last block's rows end with the sequence, rounded up to a multiple of this number,
  // and the first block may own fewer rows. If 0, the first block's rows begin with the sequence.
  int end_multiple = 0;
};

// A stage's formulas for one pass: the traffic when every output is wanted, and the tile that its
// kernels share. `resident` is the additional traffic that depends on the number of persistent
// blocks.
struct PassTraffic {
  Traffic (*traffic)(const Problem&) = nullptr;
  Tile (*tile)(const Problem&) = nullptr;                        // null: no tiles
  Traffic (*resident)(const Problem&, const Device&) = nullptr;  // null: nothing
};

// The type of kTraffic, which a stage's traffic.cu defines in the stage's namespace.
struct StageTraffic {
  PassTraffic forward, backward;
};

// True if the stage has a formula for this pass.
bool has_traffic_formula(const Stage& stage, Pass pass);

// The traffic of a stage for a problem that the pass supports. Empty if the stage has no formula.
std::optional<Traffic> predicted_traffic(const Stage& stage, Pass pass, const Problem& problem,
                                         const Device& device = current_device());

// The tile of a stage's pass; {0, 0} if it has no tile or no formula.
Tile main_tile(const Stage& stage, Pass pass, const Problem& problem);

// ---- Building blocks of formulas ---------------------------------------------------------------

inline constexpr std::uint64_t kFloat = sizeof(float);

// The rows begin, …, end − 1; none where end <= begin.
struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return std::max<std::int64_t>(0, end - begin); }
};
// The keys that are visible to any of the queries [begin, end). They form a span.
Span keys_of(const Problem& problem, std::int64_t begin, std::int64_t end);

// The number of pairs (query, key) of one head that the mask leaves visible.
std::uint64_t visible_pairs(const Problem& problem);

// The counts of a problem.
struct Sizes {
  explicit Sizes(const Problem& p);

  std::uint64_t row_bytes;  // of one row of Q, K, V or O
  std::uint64_t element;    // bytes of one element
  std::uint64_t head_dim;
  std::uint64_t rows;     // of Q, O and LSE
  std::uint64_t kv_rows;  // of K and V
  std::uint64_t scores;   // elements of S
  std::uint64_t visible;  // elements of S that the mask leaves visible
};

// The rows that blocks stream, summed over the blocks of all heads: whole tiles, but only tiles
// with visible pairs.
struct Streamed {
  std::uint64_t rows = 0;
  std::uint64_t pairs = 0;  // of a streamed row and a row that its block owns
  std::uint64_t tiles = 0;  // of `rows`; the last of a sequence may have fewer rows than the others
};
// A block owns queries and streams keys, or owns keys and streams queries.
Streamed streamed_keys(const Problem& problem, const Tile& tile);
Streamed streamed_queries(const Problem& problem, const Tile& tile);

// A fused forward pass, without S and P: Q once, K and V for each tile of queries; O and LSE.
Traffic fused_forward(const Problem& problem, const Tile& tile);

// The numbers of reads of tensors and rows by the two kernels of a fused backward pass.
struct Asks {
  std::uint64_t row_tensors;  // reads of Q, O and dO by query_gradient, in whole tensors
  std::uint64_t lse;          // for the LSE of a row, by query_gradient
  std::uint64_t lse_delta;    // for LSE and delta of a streamed query, by key_value_gradient
};
Traffic fused_backward(const Problem& problem, const Tile& tile, const Asks& asks);

// A backward pass whose blocks own keys and add tiles to dQ (device/dq_sum.h), each in `shares`
// parts in a fixed order; with 0 shares in any order.
Traffic added_backward(const Problem& problem, const Tile& tile, int shares = 1);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_TRAFFIC_H_
