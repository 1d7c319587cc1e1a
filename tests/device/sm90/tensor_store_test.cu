// cp.async.bulk.tensor from shared to global memory: which elements go where, and when they are
// there.
#include "../support.h"
#include "device/host/tile_map.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/tensor_store.h"
#include "device/swizzle.h"
#include "tensor_layout.h"

namespace cuflash {
namespace {

class TensorStores : public DeviceTest {
 protected:
  TensorStores() : DeviceTest(9) {}
};

using Bits = unsigned short;
constexpr int kThreads = 64, kRows = 32;

TensorMapArguments arguments_of(const Bits* data, const Layout& layout, int box_cols,
                                int box_rows) {
  return arguments(data, CUFLASH_BF16, layout, {box_cols, box_rows, 1, 1},
                   box_cols == 64 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes);
}

TensorMap map_of(const Bits* data, const Layout& layout, int box_cols, int box_rows) {
  TensorMap map;
  EXPECT_EQ(make_tensor_map(map, arguments_of(data, layout, box_cols, box_rows)), "");
  return map;
}

// ---- One tile ----------------------------------------------------------------------------------

// Element (row, col) of the tile is 1 + row · kHeadDim + col. The tile's panels are boxes.
template <int kHeadDim>
__global__ void store_tile(const __grid_constant__ TileMap map, int col, int row, int head,
                           int batch) {
  using Tile = SwizzledTile<Bits, kRows, kHeadDim>;
  auto& tile = shared_storage<Tile>();
  for (int i = threadIdx.x; i < kRows * kHeadDim; i += kThreads) {
    tile(i / kHeadDim, i % kHeadDim) = static_cast<Bits>(1 + i);
  }
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
    ptx::tensor_store(map, col + panel * Tile::kPanelCols, row, head, batch, tile.panels[panel]);
  }
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read<0>();
}

// Where a tile of rows begins in a head, and a name for it.
struct First {
  const char* name;
  int col, row;
};

template <int kHeadDim>
void check_tile(const First& first, bool rows_beside_heads) {
  using Tile = SwizzledTile<Bits, kRows, kHeadDim>;
  constexpr int kLength = kRows + 5, kHeads = 3, kBatch = 2, kAll = kHeadDim * kLength * kHeads;
  const Layout by_head = {{kHeadDim, kLength, kHeads, kBatch},
                          {1, kHeadDim, kHeadDim * kLength, kAll}};
  const Layout by_row = {{kHeadDim, kLength, kHeads, kBatch},
                         {1, kHeadDim * kHeads, kHeadDim, kAll}};
  const Layout& layout = rows_beside_heads ? by_row : by_head;
  const auto& strides = layout.strides;
  const Array<Bits> data(std::vector<Bits>(kAll * kBatch));
  TileMap map;
  ASSERT_TRUE(make_map(map, arguments_of(data.data(), layout, Tile::kPanelCols, kRows)));
  run(store_tile<kHeadDim>, {1, kThreads, shared_layout<Tile>()}, map, first.col, first.row, 1, 1);
  std::vector<Bits> expected(kAll * kBatch);
  for (int i = 0; i < kRows * kHeadDim; ++i) {
    const int r = first.row + i / kHeadDim, c = first.col + i % kHeadDim;
    if (r >= kLength || c >= kHeadDim) continue;
    expected[strides[3] + strides[2] + r * strides[1] + c] = static_cast<Bits>(1 + i);
  }
  EXPECT_EQ(data.values(), expected) << kHeadDim;
}

class TensorStoresFrom : public TensorStores, public testing::WithParamInterface<First> {};

// Past the tail of a head nothing is written: there the next head's rows may lie.
TEST_P(TensorStoresFrom, OfATileInTheSwizzle) {
  for (const bool rows_beside_heads : {false, true}) {
    check_tile<32>(GetParam(), rows_beside_heads);
    check_tile<64>(GetParam(), rows_beside_heads);
    check_tile<96>(GetParam(), rows_beside_heads);
    check_tile<128>(GetParam(), rows_beside_heads);
  }
}

// Each is a test of its own, since a store that faults ends the process's use of the device.
INSTANTIATE_TEST_SUITE_P(Firsts, TensorStoresFrom,
                         testing::Values(First{"inside", 0, 0}, First{"tail", 0, kRows},
                                         First{"right", 8, 2}, First{"outside", 0, kRows + 5}),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- The end of a store ------------------------------------------------------------------------

constexpr int kCols = 64, kTiles = 40;
using Tile = SwizzledTile<Bits, kRows, kCols>;

// The value of an element of a tile.
__host__ __device__ Bits value(int tile, int element) {
  return static_cast<Bits>(977 * tile + 3 * element);
}

struct OneTile {
  Tile tile;
  std::uint64_t full;
};

// A tile is stored, and copied back into its place; after it, the next one.
__global__ void store_and_copy(const __grid_constant__ TensorMap map, Bits* out) {
  auto& s = shared_storage<OneTile>();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.full, 1);
    ptx::fence_mbarrier_init();
  }
  for (int n = 0; n < kTiles; ++n) {
    for (int i = threadIdx.x; i < kRows * kCols; i += kThreads) {
      s.tile(i / kCols, i % kCols) = value(n, i);
    }
    ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::tensor_store(map, 0, n % 2 * kRows, 0, 0, &s.tile);
      ptx::tensor_store_commit();
      ptx::tensor_store_wait<0>();
      ptx::mbarrier_arrive_expect_tx(&s.full, sizeof(s.tile.panels));
      ptx::tensor_copy(&s.tile, map, 0, n % 2 * kRows, 0, 0, &s.full);
    }
    ptx::mbarrier_wait(&s.full, n % 2);
    for (int i = threadIdx.x; i < kRows * kCols; i += kThreads) {
      out[n * kRows * kCols + i] = s.tile(i / kCols, i % kCols);
    }
    __syncthreads();
  }
}

TEST_F(TensorStores, CanBeCopiedBackAfterTheirEnd) {
  const Layout layout = {{kCols, 2 * kRows, 1, 1}, {1, kCols, 0, 0}};
  const Array<Bits> data(std::vector<Bits>(kCols * 2 * kRows));
  const Array<Bits> out(std::vector<Bits>(kTiles * kRows * kCols));
  run(store_and_copy, {1, kThreads, shared_layout<OneTile>()},
      map_of(data.data(), layout, kCols, kRows), out.data());
  std::vector<Bits> expected;
  for (int i = 0; i < kTiles * kRows * kCols; ++i) {
    expected.push_back(value(i / (kRows * kCols), i % (kRows * kCols)));
  }
  EXPECT_EQ(out.values(), expected);
}

}  // namespace
}  // namespace cuflash
