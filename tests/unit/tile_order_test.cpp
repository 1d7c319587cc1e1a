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
      EXPECT_LE(100 * keys.most * kBlocks, 104 * keys.all) << queries << " queries, " << rows;
    }
  }
}

TEST(TileRoundsTest, AShortTileFollowsALongOneIfGroupsFillTwoRounds) {
  for (const int tiles : {2, 3, 4, 6, 8, 11, 22}) {
    const TileRounds order = tile_rounds(4 * 2 * kBlocks / tiles, tiles, kBlocks, true);
    for (int block = 0; block < kBlocks; ++block) {
      for (int round = 0; round < 8; round += 2) {
        const int first = order.at(block, round).tile, second = order.at(block, round + 1).tile;
        ASSERT_EQ(first + second, tiles - 1) << tiles << " tiles, round " << round;
        ASSERT_GE(first, second) << tiles << " tiles, round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace cuflash
