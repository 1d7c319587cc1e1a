// The names of places in dynamic shared memory, in reports and memory maps, and its padding.
#include <cuda_fp16.h>

#include <cstddef>
#include <thread>

#include "device/swizzle.h"
#include "support.h"

namespace cuflash::simt {
namespace {

// ---- Elements of the storage -------------------------------------------------------------------

struct Best {
  float value;
  int key;
};

struct Storage {
  float sK[32][33];
  __half sV[16][40];
  Best best[3];
  char flag;
  alignas(16) float total[2];
};

// Threads 4 and 41 both write the T that lies there.
template <class T, bool kBarrier>
__global__ void meet(int offset) {
  const auto place = reinterpret_cast<T*>(shared_memory + offset);
  if (threadIdx.x == 4) *place = T{};
  if constexpr (kBarrier) __syncthreads();
  if (threadIdx.x == 41) *place = T{};
}

class Elements : public AccessTest {
 protected:
  static constexpr int kSV = offsetof(Storage, sV);
  static constexpr int kBest = offsetof(Storage, best);
  static constexpr int kFlag = offsetof(Storage, flag);
  static constexpr int kTotal = offsetof(Storage, total);

  // The race is reported as one of `element`, and with a barrier there is none.
  template <class T>
  void expect_element(int offset, const std::string& array, const std::string& element,
                      const SharedLayout& layout = shared_layout<Storage>()) {
    SCOPED_TRACE(element);
    run(meet<T, true>, {1, 64, layout}, offset);
    run(meet<T, false>, {1, 64, layout}, offset);
    const Finding race = only_finding(FindingKind::kSharedRace);
    EXPECT_EQ(race.array, array);
    EXPECT_EQ(race.text().substr(0, race.text().find('\n')), "  " + element);
  }
};

TEST_F(Elements, ByTheirIndices) {
  expect_element<float>(0, "sK", "sK[0][0]");
  expect_element<float>((17 * 33 + 4) * 4, "sK", "sK[17][4]");
  expect_element<float>((31 * 33 + 32) * 4, "sK", "sK[31][32]");
  expect_element<__half>(kSV, "sV", "sV[0][0]");
  expect_element<__half>(kSV + (3 * 40 + 39) * 2, "sV", "sV[3][39]");
  expect_element<float>(kTotal + 4, "total", "total[1]");
  expect_element<char>(kFlag, "flag", "flag");
}

TEST_F(Elements, WiderAndSmallerAccesses) {
  expect_element<float4>(kSV + (3 * 40 + 8) * 2, "sV", "sV[3][8] (16 bytes)");
  expect_element<__half>((17 * 33 + 4) * 4 + 2, "sK", "sK[17][4] + 2 bytes");
  expect_element<int2>(kBest + 2 * 8, "best", "best[2]");
  expect_element<int>(kBest + 2 * 8, "best", "best[2].value");
  expect_element<int>(kBest + 1 * 8 + 4, "best", "best[1].key");
  expect_element<char>(kBest + 1 * 8 + 6, "best", "best[1].key + 2 bytes");
}

struct SwizzledTiles {
  SwizzledTile<__half, 16, 128> sQ;
  SwizzledTile<__half, 8, 32> sV[3];
};

TEST_F(Elements, OfSwizzledTilesByRowAndColumn) {
  const auto expect = [&](auto value, std::size_t begin, int index, const std::string& array,
                          const std::string& element) {
    const int offset = static_cast<int>(begin) + 2 * index;
    expect_element<decltype(value)>(offset, array, element, shared_layout<SwizzledTiles>());
  };
  using Q = decltype(SwizzledTiles::sQ);
  using V = SwizzledTile<__half, 8, 32>;
  constexpr std::size_t kV = offsetof(SwizzledTiles, sV), kV1 = kV + sizeof(V);
  expect(__half(), 0, Q::index(0, 0), "sQ", "sQ(0, 0)");
  expect(__half(), 0, Q::index(9, 77), "sQ", "sQ(9, 77)");
  expect(float4(), 0, Q::index(15, 120), "sQ", "sQ(15, 120) (16 bytes)");
  expect(char(), 2 * Q::index(5, 3) + 1, 0, "sQ", "sQ(5, 3) + 1 bytes");
  expect(__half(), kV, V::index(7, 31), "sV", "sV[0](7, 31)");
  expect(__half(), kV1, V::index(6, 9), "sV", "sV[1](6, 9)");
}

TEST_F(Elements, OfABareCountOfBytes) {
  expect_element<float>(64, "shared_memory", "shared_memory[16] (elements of 4 bytes)", 1024);
}

__global__ void read_total(int index, float* out) {
  auto& s = shared_storage<Storage>();
  if (threadIdx.x < 2) s.total[threadIdx.x] = 1.f;
  __syncthreads();
  *out = (&s.total[0])[index];
}

TEST_F(Elements, PastTheEnd) {
  const Array<float> out(1);
  run(read_total, {1, 1, shared_layout<Storage>()}, 0, out.data());
  const int past = (sizeof(Storage) - kTotal) / sizeof(float);
  run(read_total, {1, 1, shared_layout<Storage>()}, past, out.data());
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "total");
  says(finding, "\n  total[" + std::to_string(past) + "]\n");
  says(finding, "It reaches 4 bytes past the end of the " + std::to_string(sizeof(Storage)));
}

TEST_F(Elements, PaddingBelongsToNoArray) {
  // Two floats and the padding behind them, in one vector; then the padding alone.
  run(meet<float4, true>, {1, 64, shared_layout<Storage>()}, kTotal);
  run(meet<char, true>, {1, 32, shared_layout<Storage>()}, kFlag + 1);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "flag");
  says(finding, "It lies in the padding between the arrays of dynamic shared memory.");
}

TEST_F(Elements, RacesInTwoArraysAreTwoFindings) {
  void (*kernel)(bool) = [](bool meet) {
    auto& s = shared_storage<Storage>();
    const int t = threadIdx.x;
    for (float* array : {&s.sK[0][0], &s.total[0]}) array[meet ? 0 : t] = 1.f;
  };
  run(kernel, {1, 2, shared_layout<Storage>()}, false);
  run(kernel, {1, 2, shared_layout<Storage>()}, true);
  const std::vector<Finding> races = take_findings();
  ASSERT_EQ(races.size(), 2u);
  EXPECT_EQ(races[0].array, "sK");
  EXPECT_EQ(races[1].array, "total");
}

// ---- Structs, unions and typedefs in a storage -------------------------------------------------

struct Tiles {
  float sK[8][9];
  __half sV[4][40];
};

struct KeyValueTile {
  alignas(64) __half sK[8][24];
  float scale;
};

using Scratch = float[4][5];
template <class T>
using Operand = T[2][3];

struct Nested {
  float first[6];
  Tiles tiles;
  KeyValueTile stages[3];
  Scratch scratch[3];
  Operand<const double*> pointers[2];
};

TEST_F(Elements, OfANestedStruct) {
  constexpr auto layout = shared_layout<Nested>();
  const int tiles = offsetof(Nested, tiles);
  expect_element<float>(5 * 4, "first", "first[5]", layout);
  expect_element<float>(tiles + (1 * 9 + 2) * 4, "tiles.sK", "tiles.sK[1][2]", layout);
  expect_element<int2>(tiles + offsetof(Tiles, sV) + (3 * 40 + 8) * 2, "tiles.sV",
                       "tiles.sV[3][8] (8 bytes)", layout);
}

TEST_F(Elements, OfAnArrayOfStructs) {
  constexpr auto layout = shared_layout<Nested>();
  const int last = offsetof(Nested, stages) + 2 * sizeof(KeyValueTile);
  expect_element<__half>(last + (3 * 24 + 5) * 2, "stages", "stages[2].sK[3][5]", layout);
  expect_element<float>(last + offsetof(KeyValueTile, scale), "stages", "stages[2].scale", layout);
}

TEST_F(Elements, OfAnArrayBehindTypedefs) {
  constexpr auto layout = shared_layout<Nested>();
  expect_element<float>(offsetof(Nested, scratch) + ((2 * 4 + 3) * 5 + 4) * 4, "scratch",
                        "scratch[2][3][4]", layout);
  expect_element<double>(offsetof(Nested, pointers) + ((1 * 2 + 0) * 3 + 2) * 8, "pointers",
                         "pointers[1][0][2]", layout);
}

// The output takes the place of Q, or of the probabilities and V.
struct Unions {
  union {
    float sQ[16][8];
    __half sO[16][16];
  } tile;
  union {
    struct {
      float sP[4][8];
      __half sV[8][16];
    };
    double sum[40];
  };
  union Word {
    float value;
    int bits;
  } words[3];
};

TEST_F(Elements, OfANamedUnion) {
  constexpr auto layout = shared_layout<Unions>();
  expect_element<float>((1 * 8 + 2) * 4, "tile.sQ / tile.sO",
                        "tile.sQ[1][2] / tile.sO[1][4] (4 bytes)", layout);
  const int words = offsetof(Unions, words);
  expect_element<float>(words + 2 * 4, "words", "words[2]", layout);
  expect_element<__half>(words + 1 * 4 + 2, "words",
                         "words[1].value + 2 bytes / words[1].bits + 2 bytes", layout);
}

TEST_F(Elements, OfAnAnonymousUnion) {
  constexpr auto layout = shared_layout<Unions>();
  const int sP = offsetof(Unions, sP), sV = offsetof(Unions, sV);
  expect_element<double>(sP + (3 * 8 + 4) * 4, "sP / sum", "sP[3][4] (8 bytes) / sum[14]", layout);
  expect_element<double>(sV + (2 * 16 + 8) * 2, "sV / sum", "sV[2][8] (8 bytes) / sum[26]", layout);
  expect_element<double>(offsetof(Unions, sum) + 39 * 8, "sV / sum",
                         "sV[5][12] (8 bytes) / sum[39]", layout);
  expect_element<double>(sV + (7 * 16 + 12) * 2, "sV", "sV[7][12] (8 bytes)", layout);
}

// A class with private data counts as one value.
class Counter {
 public:
  int get() const { return low_ + high_; }

 private:
  int low_, high_;
};

struct Values {
  Counter counters[4];
  float4 vectors[2];
};

TEST_F(Elements, OfAClass) {
  constexpr auto layout = shared_layout<Values>();
  expect_element<int>(3 * 8 + 4, "counters", "counters[3] + 4 bytes", layout);
  expect_element<float>(offsetof(Values, vectors) + 16 + 8, "vectors", "vectors[1].z", layout);
  expect_element<float4>(offsetof(Values, vectors) + 16, "vectors", "vectors[1]", layout);
  expect_element<float>(4 * 7, "shared_memory", "shared_memory[7]", shared_layout<float[8]>());
}

struct Base {
  float sK[4][8];
};
struct Derived : Base {
  float sV[4][8];
};

TEST_F(Elements, OfABaseClass) {
  constexpr auto layout = shared_layout<Derived>();
  expect_element<float>((3 * 8 + 5) * 4, "sK", "sK[3][5]", layout);
  expect_element<float>(sizeof(Base) + (1 * 8 + 2) * 4, "sV", "sV[1][2]", layout);
}

// Storages that differ only in names.
struct OneName {
  float sA[64];
};
struct OtherName {
  float sB[64];
};

TEST_F(Elements, OfStoragesThatLookAlike) {
  expect_element<float>(4, "sA", "sA[1]", shared_layout<OneName>());
  expect_element<float>(4, "sB", "sB[1]", shared_layout<OtherName>());
}

// ---- Padding -----------------------------------------------------------------------------------

struct Padded {
  char flag;  // and 7 bytes
  union {     // of which sO fills 12 bytes
    char sQ[9];
    int sO[3];
  };
  alignas(64) KeyValueTile one;  // after 44 bytes
  short last;                    // and 62 bytes
};

class Padding : public AccessTest {
 protected:
  static void touch(int offset) { run(meet<char, true>, {1, 32, shared_layout<Padded>()}, offset); }
};

TEST_F(Padding, IsFound) {
  const int before_union = 1, after_union = offsetof(Padded, sO) + sizeof(Padded::sO);
  const int at_the_end = offsetof(Padded, last) + sizeof(short);
  for (const int offset : {before_union, after_union, after_union + 1, at_the_end,
                           static_cast<int>(sizeof(Padded)) - 1}) {
    SCOPED_TRACE(offset);
    touch(offset);
    const Finding finding = only_finding(FindingKind::kOutOfBounds);
    says(finding, "It lies in the padding between the arrays of dynamic shared memory.");
  }
}

TEST_F(Padding, IsNotFoundWhereAnArrayIs) {
  touch(0);
  for (int i = 0; i < 12; ++i) touch(offsetof(Padded, sQ) + i);  // the last of them are sO's alone
  touch(offsetof(Padded, last) + 1);
}

TEST_F(Padding, WithinAMemberIsTheMembers) {
  // A kernel may copy the struct as a whole.
  touch(offsetof(Padded, one) + offsetof(KeyValueTile, scale) + sizeof(float));
  touch(offsetof(Padded, one) + sizeof(KeyValueTile) - 1);
}

// ---- Alignment ---------------------------------------------------------------------------------

struct Swizzled {
  char flag;
  alignas(1024) __half sK[8][64];
  alignas(1024) __half sV[8][64];
};

__global__ void place_of(unsigned long long* out) {
  auto& s = shared_storage<Swizzled>();
  out[threadIdx.x] = reinterpret_cast<unsigned long long>(threadIdx.x == 0 ? s.sK : s.sV);
}

TEST_F(Elements, AlignedTo1024Bytes) {
  const auto expect_aligned = [] {
    const Array<unsigned long long> out(2);
    run(place_of, {1, 2, shared_layout<Swizzled>()}, out.data());
    for (const unsigned long long address : out.values()) EXPECT_EQ(address % 1024, 0u);
  };
  expect_aligned();
  // Each host thread has shared memory of its own.
  for (int i = 0; i < 3; ++i) std::thread(expect_aligned).join();
  expect_element<__half>(1024 + (3 * 64 + 9) * 2, "sK", "sK[3][9]", shared_layout<Swizzled>());
  expect_element<__half>(2048, "sV", "sV[0][0]", shared_layout<Swizzled>());
}

// ---- Maps --------------------------------------------------------------------------------------

class Maps : public SimulatorTest {};

TEST_F(Maps, OfEachKernelOnce) {
  const auto first = meet<float, true>, second = meet<int, true>;
  run(first, {1, 32, 1024}, 0);
  EXPECT_TRUE(shared_maps().empty());  // bytes without a type
  run(first, {1, 32, shared_layout<Storage>()}, 0);
  run(second, {1, 32, shared_layout<Storage>()}, 0);
  run(first, {1, 32, shared_layout<Storage>()}, 0);
  const std::vector<SharedMap> maps = shared_maps();
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].kernel, "cuflash::simt::(anonymous namespace)::meet<float, true>");
  EXPECT_EQ(maps[1].kernel, "cuflash::simt::(anonymous namespace)::meet<int, true>");
  EXPECT_EQ(maps[0].bytes, sizeof(Storage));
  ASSERT_EQ(maps[0].arrays.size(), 5u);
  const SharedArray& sV = maps[0].arrays[1];
  EXPECT_EQ(sV.name, "sV");
  EXPECT_EQ(sV.offset, offsetof(Storage, sV));
  EXPECT_EQ(sV.element_bytes, 2u);
  EXPECT_EQ(sV.extents, (std::vector<int>{16, 40}));
  EXPECT_TRUE(maps[0].arrays[3].extents.empty());  // flag
  reset_counts();
  EXPECT_TRUE(shared_maps().empty());
}

struct Bits {
  int counts[4];
  unsigned done : 8;
};

TEST_F(Maps, OfABitField) {
  run(meet<float, true>, {1, 32, shared_layout<Bits>()}, 0);
  const std::vector<SharedMap> maps = shared_maps();
  ASSERT_EQ(maps.size(), 1u);
  ASSERT_EQ(maps[0].arrays.size(), 2u);
  EXPECT_EQ(maps[0].arrays[1].name, "done");
  EXPECT_EQ(maps[0].arrays[1].offset, sizeof(int[4]));
}

TEST_F(Maps, OfNestedStructsUnionsAndSwizzledTiles) {
  run(meet<float, true>, {1, 32, shared_layout<Nested>()}, 0);
  run(meet<int, true>, {1, 32, shared_layout<Unions>()}, 0);
  run(meet<char, true>, {1, 32, shared_layout<SwizzledTiles>()}, 0);
  const std::vector<SharedMap> maps = shared_maps();
  ASSERT_EQ(maps.size(), 3u);
  const auto text = [](const SharedMap& map) {
    std::string lines;
    for (const SharedArray& array : map.arrays) {
      lines += array.name;
      for (const int extent : array.extents) lines += '[' + std::to_string(extent) + ']';
      lines += ' ' + std::to_string(array.element_bytes) + " bytes at " +
               std::to_string(array.offset) + '\n';
    }
    return lines;
  };
  EXPECT_EQ(text(maps[0]),
            "first[6] 4 bytes at 0\n"
            "tiles.sK[8][9] 4 bytes at 24\n"
            "tiles.sV[4][40] 2 bytes at 312\n"
            "stages[3] 448 bytes at 640\n"
            "scratch[3][4][5] 4 bytes at 1984\n"
            "pointers[2][2][3] 8 bytes at 2224\n");
  EXPECT_EQ(text(maps[1]),
            "tile.sQ[16][8] 4 bytes at 0\n"
            "tile.sO[16][16] 2 bytes at 0\n"
            "sP[4][8] 4 bytes at 512\n"
            "sV[8][16] 2 bytes at 640\n"
            "sum[40] 8 bytes at 512\n"
            "words[3] 4 bytes at 896\n");
  EXPECT_EQ(text(maps[2]),
            "sQ[16][128] 2 bytes at 0\n"
            "sV[3][8][32] 2 bytes at 4096\n");
}

}  // namespace
}  // namespace cuflash::simt
