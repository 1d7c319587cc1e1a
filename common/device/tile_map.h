// The tensor maps of a forward pass: TMA copies Q, K and V in boxes that are the panels of tiles.
#ifndef CUFLASH_DEVICE_TILE_MAP_H_
#define CUFLASH_DEVICE_TILE_MAP_H_

#include <cstdio>
#include <string>

#include "cuflash/error.h"
#include "cuflash/problem.h"
#include "device/tensor_map.h"

namespace cuflash {

// A [batch, heads, length, head_dim] tensor in boxes of a panel of Tile. It keeps its four
// dimensions: past the last row of a head lie zeros, and not the next head's rows.
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

// A kernel's parameter, __grid_constant__.
struct ForwardMaps {
  TensorMap q, k, v;
};

// Makes a map. Where that fails, although supports() has accepted the strides, it prints the
// driver's error and all arguments, and returns false.
inline bool make_map(TensorMap& map, const TensorMapArguments& arguments) {
  const std::string fault = make_tensor_map(map, arguments);
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

#endif  // CUFLASH_DEVICE_TILE_MAP_H_
