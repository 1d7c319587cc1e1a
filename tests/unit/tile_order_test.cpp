// The order in rounds: how even it is on 132 multiprocessors, with 16,384 tokens and a hidden size
// of 2,048, for the tiles of stage 14_persistent. That each tile comes once is proved where it is
// compiled.
#include "device/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "device/warpgroup.h"

namespace cuflash {
namespace {

constexpr int kBlocks = 132, kTokens = 16384, kHidden = 2048;

// The least and the most that a block has, and what all have.
struct Loads {
  int least, most, all;
};
Loads loads(const TileRounds& order, const std::function<int(int)>& of_tile) {
  Loads found{kTokens * kHidden, 0, 0};
  for (int block = 0; block < order.blocks; ++block) {
    int mine = 0;
    for (int round = 0; order.at(block, round).head < order.heads; ++round) {
      mine += of_tile(order.at(block, round).tile);
    }
    found = {std::min(found.least, mine), std::max(found.most, mine), found.all + mine};
  }
  return found;
}

TEST(TileRoundsTest, WithoutAMaskTheFirstTilesAreDealtOut) {
  for (const int queries : {512, 1024, 2048, 4096}) {
    const int tiles = (queries + 191) / 192;
    const auto first = loads(tile_rounds(kTokens / queries * kHidden / 128, tiles, kBlocks, false),
                             [](int tile) { return tile == 0 ? 1 : 0; });
    EXPECT_LE(first.most, first.least + 1) << queries;
  }
}

TEST(TileRoundsTest, UnderACausalMaskBlocksEndTogether) {
  for (const int rows : {192, 256}) {
    for (int queries = 512; queries <= kTokens; queries *= 2) {
      const int tiles = (queries + rows - 1) / rows, heads = kTokens / queries * kHidden / 128;
      // Tiles of 64 keys, and one more for the ends of a tile of queries.
      const auto keys = loads(tile_rounds(heads, tiles, kBlocks, true), [&](int tile) {
        const int end = first_query(queries, rows, tiles, tile) + rows;
        return 1 + (std::min(end, queries) + 63) / 64;
      });
      EXPECT_LE(1000 * keys.most * kBlocks, 1032 * keys.all) << queries << " queries, " << rows;
    }
  }
}

TEST(TileRoundsTest, PairsTakeEquallyLongAndNeighboursShareHeads) {
  for (const int tiles : {3, 2, 4, 16, 22, 43}) {
    const TileRounds order = tile_rounds(kTokens / tiles, tiles, kBlocks, true);
    ASSERT_GE(order.pairs, kBlocks) << tiles << " tiles";
    for (int round = 0; round < order.pairs / kBlocks * 2; round += 2) {
      int heads = order.at(0, round).head / 2, changes = 0;
      for (int block = 0; block < kBlocks; ++block) {
        const HeadTile first = order.at(block, round), second = order.at(block, round + 1);
        ASSERT_EQ(first.tile + second.tile, tiles - 1) << tiles << " tiles, round " << round;
        ASSERT_GE(first.tile, second.tile) << tiles << " tiles, round " << round;
        ASSERT_EQ(first.head ^ 1, second.head) << tiles << " tiles, round " << round;
        changes += first.head / 2 != heads ? 1 : 0;
        heads = first.head / 2;
      }
      ASSERT_LE(changes, (kBlocks - 1) / tiles + 1) << tiles << " tiles, round " << round;
    }
  }
}

}  // namespace
}  // namespace cuflash
