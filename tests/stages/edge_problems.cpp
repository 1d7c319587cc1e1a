// A kernel finds the first and the last tile that a block needs, and those of them that need no
// mask, from the first and the last row of the block, moved by the mask's first or last diagonal.
// An error of one row changes a tile only if the result is a multiple of the tile's extent, or one
// more or less. That is so where an edge of the mask passes the corner of four tiles at a distance
// of at most two diagonals.
#include "cuflash/workload.h"
#include "problems.h"

namespace cuflash::tests {
namespace {

using harness::Tile;

// Two lengths and a corner: the first query and the first key of the last of its four tiles.
struct Corner {
  int seq_q, seq_kv, query, key;

  int diagonal() const { return key - query; }
  int offset() const { return seq_kv - seq_q; }  // the diagonal on which the last query lies
};

// The nth corner, of three that take turns: the lengths are those of whole tiles, one more, or one
// less. The corner lies between two blocks' rows. What the blocks stream goes on behind it, so that
// no tile of the corner is the one that they take first, which some kernels mask in any case:
// forward the last tile of keys, backward the first of queries.
Corner corner_of(Pass pass, const Tile& tile, int n) {
  const int rows = tile.owned, step = tile.streamed;
  const int owned[] = {2 * rows, rows + 1, 2 * rows - 1};
  const int streamed[] = {2 * step + 1, 3 * step, 3 * step - 1};
  n %= 3;
  if (pass == CUFLASH_BACKWARD) return {streamed[n], owned[n], 2 * step, rows};
  int first_rows = rows;  // of the first block
  if (tile.end_multiple != 0 && owned[n] <= rows + tile.end_multiple)
    first_rows = tile.end_multiple;
  return {owned[n], streamed[n], first_rows, step};
}

// The same corner, with as many streamed rows as put the last query on this diagonal.
Corner with_offset(Pass pass, Corner at, int offset) {
  if (pass == CUFLASH_FORWARD) {
    at.seq_kv = at.seq_q + offset;
  } else {
    at.seq_q = at.seq_kv - offset;
  }
  return at;
}

}  // namespace

std::vector<TestProblem> edge_problems(Pass pass, const Tile& tile, const Problem& like) {
  const bool forward = pass == CUFLASH_FORWARD;
  const int queries = forward ? tile.owned : tile.streamed;
  const int keys = forward ? tile.streamed : tile.owned;
  std::vector<TestProblem> problems;
  const auto add = [&](const char* intent, const Corner& at, Problem p) {
    p.seq_q = at.seq_q, p.seq_kv = at.seq_kv;
    TestProblem test{intent, {}};
    test.c.problem = p;
    problems.push_back(test);
  };

  for (int n = 0; n < 4; ++n) {
    Corner at = corner_of(pass, tile, n);
    const int first_diagonal = at.diagonal() + n - 1;
    while (at.offset() < first_diagonal) at.seq_kv += keys;
    Problem p = like;
    p.window_left = at.offset() - first_diagonal;
    add("a window's left edge at a tile's corner", at, p);
  }
  for (int n = 0; n < 4; ++n) {
    Corner at = corner_of(pass, tile, n);
    const int last_diagonal = at.diagonal() + n - 2;
    Problem p = like;
    p.causal = n % 2 == 1;
    if (p.causal) {
      add("a causal edge at a tile's corner", with_offset(pass, at, last_diagonal), p);
      continue;
    }
    while (at.offset() > last_diagonal) at.seq_q += queries;
    p.window_right = last_diagonal - at.offset();
    add("a window's right edge at a tile's corner", at, p);
  }
  for (int n = 0; n < 3; ++n) {
    const Corner at = corner_of(pass, tile, n);
    Problem p = like;
    p.heads_q = 2;
    p.window_left = p.window_right = 0;
    add("a window of one diagonal at a tile's corner", with_offset(pass, at, at.diagonal() + n - 1),
        p);
  }
  return problems;
}

}  // namespace cuflash::tests
