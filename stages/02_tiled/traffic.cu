// What 02_tiled asks for: K and V for every tile of queries, not for every query.
#include "harness/traffic.h"
#include "kernel.cuh"

namespace cuflash::tiled {
namespace {

using namespace harness;

Tile tile(const Problem&) { return {Config<float>::kBlockQ, Config<float>::kBlockKV}; }

Traffic forward(const Problem& p) {
  const Sizes n(p);
  const Streamed keys = streamed_keys(p, tile(p));
  Traffic t;
  // scores: Q, then tiles of K; S of every tile.
  t.read_bytes += (n.rows + keys.rows) * n.row_bytes;
  t.write_bytes += keys.pairs * kFloat;
  // softmax: three walks over the visible part of S; P and LSE are written.
  t.read_bytes += 3 * n.visible * kFloat;
  t.write_bytes += n.visible * kFloat + n.rows * kFloat;
  // output: the visible part of P, tiles of V.
  t.read_bytes += n.visible * kFloat + keys.rows * n.row_bytes;
  t.write_bytes += n.rows * n.row_bytes;
  return t;
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, tile}, {}};

}  // namespace cuflash::tiled
