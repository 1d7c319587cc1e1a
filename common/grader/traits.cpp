#include "cuflash/workload.h"
#include "reference/layout.h"
#include "sample.h"

namespace cuflash::exercises {
namespace {

constexpr const char* kRowOfMatrix =
    "A partial tile that is the only one is right: compare the row's number in the matrix with the "
    "end, which is the first row of the tile plus that in the tile.";

bool grouped(const Sample& s) { return s.problem.heads_q != s.problem.heads_kv; }
bool ragged_keys(const Sample& s) {
  return s.walk.block_kv > 0 && s.problem.seq_kv % s.walk.block_kv != 0;
}
bool ragged_queries(const Sample& s) {
  return s.walk.block_q > 0 && s.problem.seq_q % s.walk.block_q != 0;
}
bool several_kv_tiles(const Sample& s) {
  return s.walk.block_kv > 0 && s.problem.seq_kv > s.walk.block_kv;
}
bool several_q_tiles(const Sample& s) {
  return s.walk.block_q > 0 && s.problem.seq_q > s.walk.block_q;
}
bool ragged_later_keys(const Sample& s) { return ragged_keys(s) && several_kv_tiles(s); }
bool ragged_later_queries(const Sample& s) { return ragged_queries(s) && several_q_tiles(s); }
bool causal(const Sample& s) { return s.problem.causal; }
bool causal_rectangle(const Sample& s) {
  return s.problem.causal && s.problem.seq_q != s.problem.seq_kv;
}
bool window(const Sample& s) { return has_window(s.problem); }
bool empty_rows(const Sample& s) { return reference::visible_keys(s.problem, 0).count == 0; }
bool large_scores(const Sample& s) { return s.input == harness::InputKind::kLargeQ; }
bool gaps(const Sample& s) { return s.layout != harness::Layout::kBHSD; }
bool f16(const Sample& s) { return s.problem.dtype == CUFLASH_F16; }
template <int kHeadDim>
bool has_head_dim(const Sample& s) {
  return s.problem.head_dim == kHeadDim;
}

constexpr const char* kOfHeadDim =
    "Look at what depends on head_dim: the shape of the block's work, the layout of a row, and how "
    "many buffers there are.";

}  // namespace

const std::vector<Trait>& traits() {
  static const std::vector<Trait> list = {
      {"empty-rows", "those with rows that see no key",
       "A row that sees no key has an empty sum: its O is 0 and its LSE -inf. -inf - (-inf) is "
       "NaN, so "
       "no difference with such an LSE or maximum may be taken.",
       empty_rows},
      {"large-scores", "those with large scores",
       "Large scores overflow exp unless the row's maximum is subtracted first.", large_scores},
      {"grouped-heads", "those with grouped heads",
       "Look at which KV head a query head reads, kv_head(p, h), and at sums over a group.",
       grouped},
      {"causal-rectangle", "those with a causal mask and seq_q != seq_kv",
       "Look at the mask's alignment: query i sees key j <= i + seq_kv - seq_q.", causal_rectangle},
      {"window", "those with a window",
       "Look at the window: query i sees key j if j - (i + seq_kv - seq_q) lies between "
       "-window_left and window_right, and a negative side has no bound. The first tile that a "
       "block needs may not be the first of all.",
       window},
      {"causal", "those with a causal mask", "Look at the mask.", causal},
      {"masked", "those with a mask", "Look at the mask.",
       [](const Sample& s) { return causal(s) || window(s); }},
      {"gaps", "those whose tensors have gaps between the rows",
       "A row begins row_stride elements after the one before it, a head head_stride elements: "
       "rows<T>(tensor, b, h)(i, d) finds an element by the strides.",
       gaps},
      {"unmasked", "those without `causal`",
       "Look for a rule of the causal mask that is applied without `causal`, too.",
       [](const Sample& s) { return !causal(s); }},
      {"several-kv-tiles", "those with more than one KV tile",
       "What is carried from tile to tile is suspect: the maximum, the sum, O; or the first row of "
       "a tile.",
       several_kv_tiles,
       "What changes from tile to tile is suspect: the first row of a tile, and what is added to "
       "O."},
      {"ragged-keys", "those whose last KV tile is partial",
       "Look at the tail: a key j >= seq_kv must weigh nothing.", ragged_keys},
      {"ragged-queries", "those whose last Q tile is partial",
       "Look at the tail: a query i >= seq_q has no row to read or write.", ragged_queries},
      {"ragged", "those in which a tile is partial",
       "Look at the tail: what a tile holds past the end of the sequence.",
       [](const Sample& s) { return ragged_keys(s) || ragged_queries(s); }},
      {"ragged-later-keys", "those whose last KV tile is partial and not the first", kRowOfMatrix,
       ragged_later_keys},
      {"ragged-later-queries", "those whose last Q tile is partial and not the first", kRowOfMatrix,
       ragged_later_queries},
      {"several-q-tiles", "those with more than one Q tile",
       "Look at how a block finds its first query.", several_q_tiles},
      {"f16", "those in f16", "Look for sums kept in half.", f16},
      {"narrowest", "those with head_dim 32", kOfHeadDim, has_head_dim<32>},
      {"head-dim-128", "those with head_dim 128", kOfHeadDim, has_head_dim<128>},
      {"widest", "those with head_dim 256", kOfHeadDim, has_head_dim<256>},
  };
  return list;
}

}  // namespace cuflash::exercises
