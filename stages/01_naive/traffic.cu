// What 01_naive asks for, kernel by kernel. Every thread reads its operands from global memory, one
// by one.
#include "harness/traffic.h"

namespace cuflash::naive {
namespace {

using namespace harness;

Traffic forward(const Problem& p) {
  const Sizes n(p);
  Traffic t;
  // scores: a row of Q and a row of K for each visible score; S is written whole.
  t.read_bytes += n.visible * 2 * n.row_bytes;
  t.write_bytes += n.scores * kFloat;
  // softmax: three walks over S; P and LSE are written.
  t.read_bytes += 3 * n.scores * kFloat;
  t.write_bytes += n.scores * kFloat + n.rows * kFloat;
  // output: an element of P and one of V for each term of each element of O.
  t.read_bytes += n.visible * n.head_dim * (kFloat + n.element);
  t.write_bytes += n.rows * n.row_bytes;
  return t;
}

Traffic backward(const Problem& p) {
  const Sizes n(p);
  Traffic t;
  // delta: a row of O and a row of dO for each row.
  t.read_bytes += n.rows * 2 * n.row_bytes;
  t.write_bytes += n.rows * kFloat;
  // score_gradients: rows of Q, K, V and dO, LSE and delta for each visible score; P and dS.
  t.read_bytes += n.visible * (4 * n.row_bytes + 2 * kFloat);
  t.write_bytes += n.visible * 2 * kFloat;
  // dQ, dK and dV: an element of dS or P and one of K, Q or dO for each term.
  t.read_bytes += 3 * n.visible * n.head_dim * (kFloat + n.element);
  t.write_bytes += (n.rows + 2 * n.kv_rows) * n.row_bytes;
  return t;
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, nullptr}, {backward, nullptr}};

}  // namespace cuflash::naive
