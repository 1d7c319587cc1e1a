// Tensor maps of a pass's tensors: TMA copies and stores boxes, each of which is a panel of a tile.
#ifndef CUFLASH_DEVICE_HOST_TILE_MAP_H_
#define CUFLASH_DEVICE_HOST_TILE_MAP_H_

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "cuflash/error.h"
#include "cuflash/problem.h"
#include "device/host/tensor_map.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/tensor_store.h"

namespace cuflash {

// The map of a [batch, heads, length, head_dim] tensor in boxes of a panel of Tile. It keeps all
// four dimensions, so that a copy past the last row of a head yields zeros, not the next head's
// rows.
template <class Tile>
TensorMapArguments tile_map(const Tensor& t, DType dtype, int batch, int heads, int length,
                            int head_dim) {
  TensorMapArguments map;
  map.data = t.data;
  map.dtype = dtype;
  map.extents[0] = head_dim, map.extents[1] = length;
  map.extents[2] = heads, map.extents[3] = batch;
  map.strides[0] = t.row_stride, map.strides[1] = t.head_stride;
  map.strides[2] = t.batch_stride;
  map.box[0] = Tile::kPanelCols, map.box[1] = Tile::kTileRows;
  map.box[2] = map.box[3] = 1;
  map.swizzle = Tile::kPanelCols == 64 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes;
  return map;
}

// A map whose dimensions 1 to 3 are rows, heads and batches in the order of their strides, which
// must ascend for the driver. Passed to kernels as a __grid_constant__ parameter.
struct TileMap {
  TensorMap map;
  int rows_at;       // the position of rows among the three, 0 to 2
  bool heads_first;  // true if heads come before batches
  // Masks of the head and batch index: all bits, or none if the stride is 0, since the map then has
  // an extent of 1.
  int head_bits, batch_bits;

  struct Place {
    int x1, x2, x3;
  };
  // The coordinates of a row in the map.
  __device__ __forceinline__ Place place(int row, int head, int batch) const {
    head &= head_bits, batch &= batch_bits;
    const int inner = heads_first ? head : batch, outer = heads_first ? batch : head;
    const int x1 = rows_at == 0 ? row : inner, x3 = rows_at == 2 ? row : outer;
    const int x2 = rows_at == 0 ? inner : rows_at == 1 ? row : outer;
    return {x1, x2, x3};
  }
};

namespace ptx {

// Copy and store a box that begins at a column and a row of a head, in whatever order the map has
// its dimensions.
__device__ __forceinline__ void tensor_copy(SharedAddress shared, const TileMap& map, int column,
                                            int row, int head, int batch, SharedAddress barrier) {
  const auto [x1, x2, x3] = map.place(row, head, batch);
  tensor_copy(shared, map.map, column, x1, x2, x3, barrier);
}

__device__ __forceinline__ void tensor_store(const TileMap& map, int column, int row, int head,
                                             int batch, SharedAddress shared) {
  const auto [x1, x2, x3] = map.place(row, head, batch);
  tensor_store(map.map, column, x1, x2, x3, shared);
}

}  // namespace ptx

// The maps of a forward pass, passed to kernels as a __grid_constant__ parameter.
struct ForwardMaps {
  TileMap q, k, v;
};

// Makes a map of a tensor whose dimensions are columns, rows, heads and batches. If that fails,
// although supports() has accepted the strides, it prints the driver's error with all arguments and
// returns false.
inline bool make_map(TileMap& map, TensorMapArguments tensor) {
  for (const int i : {2, 3}) {
    if (tensor.strides[i - 1] == 0) tensor.extents[i] = 1;
  }
  int order[] = {1, 2, 3};  // the tensor's dimensions; those of extent 1 come last
  const auto key = [&](int i) { return std::pair(tensor.extents[i] == 1, tensor.strides[i - 1]); };
  std::stable_sort(std::begin(order), std::end(order),
                   [&](int a, int b) { return key(a) < key(b); });
  TensorMapArguments sorted = tensor;
  int place_of[4] = {};
  for (int place = 0; place < 3; ++place) {
    const int i = order[place];
    place_of[i] = place;
    sorted.extents[place + 1] = tensor.extents[i];
    sorted.strides[place] = tensor.strides[i - 1];
    sorted.box[place + 1] = tensor.box[i];
  }
  map.rows_at = place_of[1];
  map.heads_first = place_of[2] < place_of[3];
  map.head_bits = tensor.extents[2] == 1 ? 0 : ~0;
  map.batch_bits = tensor.extents[3] == 1 ? 0 : ~0;
  const std::string fault = make_tensor_map(map.map, sorted);
  if (!fault.empty()) std::fprintf(stderr, "cuflash: %s\n", fault.c_str());
  return fault.empty();
}

// Makes the maps for tiles of these types, or returns CUDA_ERROR.
template <class QTile, class KVTile>
FlashAttentionError make_maps(ForwardMaps& maps, const Problem& p, const Forward& args) {
  const auto kv = [&](const Tensor& t) {
    return tile_map<KVTile>(t, p.dtype, p.batch, p.heads_kv, p.seq_kv, p.head_dim);
  };
  const bool all =
      make_map(maps.q, tile_map<QTile>(args.q, p.dtype, p.batch, p.heads_q, p.seq_q, p.head_dim)) &&
      make_map(maps.k, kv(args.k)) && make_map(maps.v, kv(args.v));
  return all ? FlashAttentionError::SUCCESS : FlashAttentionError::CUDA_ERROR;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_TILE_MAP_H_
