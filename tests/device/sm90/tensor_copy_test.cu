// cp.async.bulk.tensor: which elements arrive where.
#include <algorithm>
#include <array>
#include <string>

#include "../support.h"
#include "device/host/tile_map.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "device/swizzle.h"
#include "tensor_layout.h"

namespace cuflash {
namespace {

class TensorCopies : public DeviceTest {
 protected:
  TensorCopies() : DeviceTest(9) {}
};

using Bits = unsigned short;

std::vector<Bits> random_bits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Bits> values(count);
  for (Bits& value : values) value = static_cast<Bits>(random());
  return values;
}

// What a box that begins at `first` must bring, in the order of its elements.
std::vector<Bits> expected_box(const std::vector<Bits>& values, const Layout& layout,
                               const int (&first)[4], const int (&box)[4]) {
  std::vector<Bits> expected;
  for (int n = 0; n < box[0] * box[1] * box[2] * box[3]; ++n) {
    const std::int64_t x[4] = {first[0] + n % box[0], first[1] + n / box[0] % box[1],
                               first[2] + n / box[0] / box[1] % box[2],
                               first[3] + n / box[0] / box[1] / box[2]};
    bool inside = true;
    std::int64_t offset = 0;
    for (int i = 0; i < 4; ++i) {
      inside = inside && x[i] >= 0 && x[i] < layout.extents[i];
      offset += x[i] * layout.strides[i];
    }
    expected.push_back(inside ? values[static_cast<std::size_t>(offset)] : Bits{0});
  }
  return expected;
}

struct Coordinates {
  int x[4];
};

// ---- One box -----------------------------------------------------------------------------------

constexpr int kThreads = 64, kMaxElements = 8192;

struct OneBox {
  alignas(1024) Bits box[kMaxElements];
  std::uint64_t full;
};

// Begins an mbarrier for all threads.
__device__ void begin(std::uint64_t* barrier, unsigned arrivals) {
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, arrivals);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

__global__ void copy_box(const __grid_constant__ TensorMap map, Coordinates first, int elements,
                         Bits* out) {
  auto& s = shared_storage<OneBox>();
  begin(&s.full, 1);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(map);
    ptx::mbarrier_arrive_expect_tx(&s.full, 2 * elements);
    ptx::tensor_copy(s.box, map, first.x[0], first.x[1], first.x[2], first.x[3], &s.full);
  }
  ptx::mbarrier_wait(&s.full, 0);
  for (int i = threadIdx.x; i < elements; i += kThreads) out[i] = s.box[i];
}

TEST_F(TensorCopies, OfAnyBox) {
  // Without gaps, with gaps, and with rows that are all the same.
  const Layout layouts[] = {{{64, 37, 3, 2}, {1, 64, 64 * 37, 64 * 37 * 3}},
                            {{24, 5, 7, 2}, {1, 40, 40 * 6, 40 * 6 * 9}},
                            {{64, 37, 3, 2}, {1, 0, 64, 64 * 3}}};
  const int boxes[][4] = {{64, 16, 1, 1}, {8, 3, 2, 2}, {24, 1, 3, 1}, {32, 40, 2, 1}};
  const Coordinates firsts[] = {{{0, 0, 0, 0}},  {{0, 32, 1, 1}},   {{8, 36, 2, 0}},
                                {{-8, 2, 0, 1}}, {{40, -2, -1, 0}}, {{0, 1000, 0, 0}}};
  for (const Layout& layout : layouts) {
    const std::vector<Bits> values = random_bits(layout.elements(), 1);
    const Array<Bits> data(values);
    for (const auto& box : boxes) {
      TensorMap map;
      ASSERT_EQ(make_tensor_map(
                    map, arguments(data.data(), CUFLASH_BF16, layout, box, TensorSwizzle::kNone)),
                "");
      const int elements = box[0] * box[1] * box[2] * box[3];
      for (const Coordinates& first : firsts) {
        const Array<Bits> out(std::vector<Bits>(elements, 7));
        run(copy_box, {1, kThreads, shared_layout<OneBox>()}, map, first, elements, out.data());
        ASSERT_EQ(out.values(), expected_box(values, layout, first.x, box));
      }
    }
  }
}

// ---- Tiles in the XOR layout -------------------------------------------------------------------

constexpr int kRows = 32;

template <int kHeadDim>
struct OneTile {
  SwizzledTile<Bits, kRows, kHeadDim> tile;
  std::uint64_t full;
};

// The tile's panels are boxes. out[row][col] is what the tile has there.
template <int kHeadDim>
__global__ void copy_tile(const __grid_constant__ TileMap map, int row, int head, int batch,
                          Bits* out) {
  auto& s = shared_storage<OneTile<kHeadDim>>();
  using Tile = decltype(s.tile);
  begin(&s.full, 1);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&s.full, sizeof(s.tile.panels));
    for (int panel = 0; panel < Tile::kPanels; ++panel) {
      ptx::tensor_copy(s.tile.panels[panel], map, panel * Tile::kPanelCols, row, head, batch,
                       &s.full);
    }
  }
  ptx::mbarrier_wait(&s.full, 0);
  for (int i = threadIdx.x; i < kRows * kHeadDim; i += kThreads) {
    out[i] = s.tile(i / kHeadDim, i % kHeadDim);
  }
}

// Strides of rows, heads and batches: in each of the six orders, and where heads or batches are all
// the same.
std::vector<std::array<std::int64_t, 3>> orders_of_strides(int head_dim, int length, int heads,
                                                           int batch) {
  const int extents[] = {length, heads, batch};
  std::vector<std::array<std::int64_t, 3>> strides;
  int order[] = {0, 1, 2};
  do {
    std::array<std::int64_t, 3>& next = strides.emplace_back();
    std::int64_t stride = head_dim;
    for (const int i : order) next[i] = stride, stride *= extents[i];
  } while (std::next_permutation(std::begin(order), std::end(order)));
  strides.push_back({head_dim, 0, head_dim * length});
  strides.push_back({head_dim * heads, head_dim, 0});
  strides.push_back({head_dim, 0, 0});
  return strides;
}

template <int kHeadDim>
void check_tile(DType dtype) {
  using Tile = Swizzle<kRows, kHeadDim>;
  constexpr int kLength = 2 * kRows + 5, kHeads = 3, kBatch = 2;
  const TensorSwizzle swizzle =
      Tile::kPanelCols == 64 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes;
  const int box[] = {Tile::kPanelCols, kRows, 1, 1}, tile[] = {kHeadDim, kRows, 1, 1};
  for (const auto& strides : orders_of_strides(kHeadDim, kLength, kHeads, kBatch)) {
    const Layout layout = {{kHeadDim, kLength, kHeads, kBatch},
                           {1, strides[0], strides[1], strides[2]}};
    const std::vector<Bits> values = random_bits(layout.elements(), kHeadDim);
    const Array<Bits> data(values);
    TileMap map;
    ASSERT_TRUE(make_map(map, arguments(data.data(), dtype, layout, box, swizzle)));
    // Past the tail of a head lie zeros, not the next head's rows.
    for (const int row : {0, kRows, 2 * kRows}) {
      const Array<Bits> out(std::vector<Bits>(kRows * kHeadDim, 7));
      run(copy_tile<kHeadDim>, {1, kThreads, shared_layout<OneTile<kHeadDim>>()}, map, row, 1, 1,
          out.data());
      const int first[] = {0, row, 1, 1};
      ASSERT_EQ(out.values(), expected_box(values, layout, first, tile)) << kHeadDim << ' ' << row;
    }
  }
}

TEST_F(TensorCopies, IntoTheSwizzle) {
  for (const DType dtype : {CUFLASH_F16, CUFLASH_BF16}) {
    check_tile<32>(dtype);
    check_tile<64>(dtype);
    check_tile<96>(dtype);
    check_tile<128>(dtype);
    check_tile<256>(dtype);
  }
}

// An extent of 1 may have any stride. The driver gets one that steps over the dimension before.
TEST_F(TensorCopies, OfAnExtentOfOne) {
  const Layout layout = {{64, 8, 1, 1}, {1, 64, 0, 3}};
  const int box[] = {64, 8, 1, 1};
  const std::vector<Bits> values = random_bits(64 * 8, 1);
  const Array<Bits> data(values), out(std::vector<Bits>(64 * 8));
  TensorMap map;
  ASSERT_EQ(
      make_tensor_map(map, arguments(data.data(), CUFLASH_F16, layout, box, TensorSwizzle::kNone)),
      "");
  run(copy_box, {1, kThreads, shared_layout<OneBox>()}, map, Coordinates{}, 64 * 8, out.data());
  EXPECT_EQ(out.values(), values);

  TensorMapArguments given = arguments(data.data(), CUFLASH_F16, layout, box, TensorSwizzle::kNone);
  EXPECT_EQ(given.stride(2), 2 * 64 * 8);
  EXPECT_EQ(given.stride(3), 2 * 64 * 8);
  given.extents[0] = 13, given.extents[1] = 1;
  EXPECT_EQ(given.stride(1), 32);  // 26 bytes, and a multiple of 16
  given.extents[2] = 3, given.strides[1] = std::int64_t{1} << 38;
  EXPECT_EQ(given.stride(3), (std::int64_t{1} << 40) - 16);  // no more
}

// ---- Maps --------------------------------------------------------------------------------------

TEST_F(TensorCopies, MapsAreRefusedWithAllArguments) {
  alignas(16) static Bits memory[16];
  const TensorMapArguments right = {memory,        CUFLASH_F16,   {64, 9, 2, 1},
                                    {64, 1024, 0}, {64, 8, 1, 1}, TensorSwizzle::k128Bytes};
  EXPECT_EQ(tensor_map_fault(right), "");
  const auto refused = [&](const std::string& sentence, auto change) {
    TensorMapArguments wrong = right;
    change(wrong);
    TensorMap map;
    const std::string fault = make_tensor_map(map, wrong);
    EXPECT_EQ(fault.rfind(sentence, 0), 0u) << fault;
    EXPECT_NE(fault.find("The arguments: data "), std::string::npos) << fault;
    return fault;
  };
  const std::string all = refused("The rows of a swizzled box must be as long",
                                  [](auto& map) { map.swizzle = TensorSwizzle::k64Bytes; });
  EXPECT_NE(all.find(", dtype f16, extents [64, 9, 2, 1], strides [64, 1024, 0], "
                     "box [64, 8, 1, 1], swizzle 64 bytes."),
            std::string::npos)
      << all;
  refused("A tensor map needs elements of 16", [](auto& map) { map.dtype = CUFLASH_F32; });
  refused("The data of a tensor map must begin", [](auto& map) { map.data = nullptr; });
  refused("The data of a tensor map must begin", [](auto& map) { map.data = memory + 1; });
  refused("The extent of dimension 1", [](auto& map) { map.extents[1] = 0; });
  refused("The extent of dimension 3",
          [](auto& map) { map.extents[3] = (std::int64_t{1} << 32) + 1; });
  refused("The stride of dimension 1", [](auto& map) { map.strides[0] = 60; });
  refused("The stride of dimension 1", [](auto& map) { map.strides[0] = -64; });
  refused("The stride of dimension 2", [](auto& map) { map.strides[1] = std::int64_t{1} << 39; });
  refused("The strides of a tensor map must ascend; that of dimension 2 does not.",
          [](auto& map) { map.strides[0] = 1024, map.strides[1] = 64; });
  refused("The strides of a tensor map must ascend; that of dimension 3 does not.", [](auto& map) {
    map.extents[1] = 1, map.extents[3] = 2;
    map.strides[2] = 0;
  });
  refused("The box of a tensor map must have 1 to 256 elements in dimension 1.",
          [](auto& map) { map.box[1] = 257; });
  refused("The box of a tensor map must have 1 to 256 elements in dimension 2.",
          [](auto& map) { map.box[2] = 0; });
  refused("The rows of a tensor map's box must be a multiple", [](auto& map) {
    map.box[0] = 60;
    map.swizzle = TensorSwizzle::kNone;
  });
}

}  // namespace
}  // namespace cuflash
