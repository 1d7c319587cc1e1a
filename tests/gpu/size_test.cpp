// Tensors of more than 2^31 elements and grids of more than 65,535 blocks in each direction.
//
// The large tensors repeat the rows of a small problem. A query's results depend on no other query,
// so each row of O, LSE and dQ must equal that of the small problem. For dK and dV the same holds
// for keys, because the backward pass is given its LSE. The harness knows the small problem's
// results and limits. Results are compared where offsets pass 2^31 bytes and 2^31 elements (in f16
// also 2^32 bytes), and at both ends.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cuflash/workload.h"
#include "device_rows.h"
#include "harness/reference_outputs.h"
#include "large.h"
#include "support/api_call.h"
#include "support/expect.h"

namespace cuflash {
namespace {

using harness::Outputs;
using harness::ReferenceOutputs;

// A prime: neither a tile nor a power of two, by which an offset may be wrong, is a multiple of it.
constexpr int kPeriod = 4099;
constexpr int kRows = 8539 * kPeriod;        // of 64 elements: 2.24e9; 547,000 tiles of 64 rows
constexpr int kRowAt2To30 = (1 << 30) / 64;  // the row that element 2^30 begins
constexpr int kRowAt2To31 = 2 * kRowAt2To30;
static_assert(std::int64_t{kRows} * 64 > (std::int64_t{1} << 31) + 2 * 64 * kPeriod);

// The first row of a repetition of the small problem.
constexpr int period_of(int row) { return row / kPeriod * kPeriod; }

// The rows where results are compared.
std::set<int> places() {
  return {0,
          period_of(kRowAt2To30),
          period_of(kRowAt2To31 - 1),
          period_of(kRowAt2To31),
          period_of(kRowAt2To31) + kPeriod,
          kRows - kPeriod};
}

class Size : public Large {};

// True if dQ, or dK and dV, may be null: what is not compared would be a sum over kRows rows, for
// which some stages take minutes.
bool takes_null_gradients(const char* stage, const Problem& problem) {
  return stage == nullptr || supports(*find_stage(stage), CUFLASH_BACKWARD, problem,
                                      current_device(), {unsigned(Feature::kNullGradients)});
}

// ---- Many queries -------------------------------------------------------------------------------

// kRows queries and 3 keys.
struct ManyQueries {
  Problem period = problem_of("b1_h1_q4099k3_d64_f16"), whole = period;
  std::shared_ptr<const ReferenceOutputs> output =
      harness::reference_outputs(CUFLASH_FORWARD, period, {});
  std::shared_ptr<const ReferenceOutputs> gradients =
      harness::reference_outputs(CUFLASH_BACKWARD, period, {});
  const harness::Inputs& in = gradients->inputs;
  DeviceRows q = rows(in.q), k = keys(in.k), v = keys(in.v), o = rows(in.o), d_o = rows(in.d_o);
  DeviceRows lse{CUFLASH_F32, kRows, 1, in.lse};

  ManyQueries() { whole.seq_q = kRows; }
  static DeviceRows rows(const std::vector<float>& values) {
    return {CUFLASH_F16, kRows, 64, values};
  }
  static DeviceRows keys(const std::vector<float>& values) { return {CUFLASH_F16, 3, 64, values}; }

  Backward backward_args() const {
    Backward args;
    args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor();
    args.o = o.tensor(), args.d_o = d_o.tensor(), args.lse = lse.floats();
    return args;
  }
};

TEST_F(Size, QueriesBeyond2To31Elements) {
  CUFLASH_NEED(36);
  const ManyQueries m;
  const DeviceRows o(CUFLASH_F16, kRows, 64), lse(CUFLASH_F32, kRows, 1),
      dq(CUFLASH_F16, kRows, 64), dk(CUFLASH_F16, 3, 64), dv(CUFLASH_F16, 3, 64);
  for (const char* stage : ways_to_run(CUFLASH_FORWARD, m.whole)) {
    SCOPED_TRACE(shown(stage));
    o.fill(0xff), lse.fill(0xff);
    expect_success(forward(m.whole,
                           {m.q.tensor(), m.k.tensor(), m.v.tensor(), o.tensor(), lse.floats()},
                           nullptr, stage));
    finish();
    for (const int row : places()) {
      SCOPED_TRACE("rows from " + std::to_string(row) + " on");
      expect_right({{{"O", o.read(row, kPeriod)}, {"LSE", lse.read(row, kPeriod)}}, ""}, *m.output);
    }
  }
  for (const char* stage : ways_to_run(CUFLASH_BACKWARD, m.whole)) {
    SCOPED_TRACE(shown(stage));
    dq.fill(0xff);
    Backward args = m.backward_args();
    args.dq = dq.tensor();
    if (!takes_null_gradients(stage, m.whole)) args.dk = dk.tensor(), args.dv = dv.tensor();
    args.deterministic = has_fixed_order(stage);
    expect_success(backward(m.whole, args, nullptr, stage));
    finish();
    for (const int row : places()) {
      SCOPED_TRACE("rows from " + std::to_string(row) + " on");
      expect_right({{{"dQ", dq.read(row, kPeriod)}}, ""}, *m.gradients);
    }
  }
}

// dK and dV are sums over all queries. dO is 0 except in two repetitions, around element 2^31 and
// at the end, so the sums are twice the small problem's, and so are the errors allowed.
TEST_F(Size, SumsOverQueriesBeyond2To31Elements) {
  CUFLASH_NEED(28);
  const ManyQueries m;
  m.d_o.fill(0);
  for (const int row : {period_of(kRowAt2To31), kRows - kPeriod}) m.d_o.write(row, m.in.d_o);
  const DeviceRows dk(CUFLASH_F16, 3, 64), dv(CUFLASH_F16, 3, 64);
  Backward args = m.backward_args();
  args.dk = dk.tensor(), args.dv = dv.tensor();
  expect_success(backward(m.whole, args));
  finish();
  ReferenceOutputs twice = *m.gradients;
  for (harness::ReferenceTensor& tensor : twice.tensors) {
    tensor.limit *= 2;
    for (double& value : tensor.values) value *= 2;
  }
  expect_right({{{"dK", dk.read(0, 3)}, {"dV", dv.read(0, 3)}}, ""}, twice);
}

// ---- Many keys ----------------------------------------------------------------------------------

DeviceRows many_keys(const std::vector<float>& values) { return {CUFLASH_F16, kRows, 64, values}; }
DeviceRows three_queries(const std::vector<float>& values) { return {CUFLASH_F16, 3, 64, values}; }

TEST_F(Size, KeysBeyond2To31Elements) {
  CUFLASH_NEED(24);
  const Problem period = problem_of("b1_h1_q3k4099_d64_f16");
  Problem whole = period;
  whole.seq_kv = kRows;
  const auto want = harness::reference_outputs(CUFLASH_BACKWARD, period, {});
  const harness::Inputs& in = want->inputs;
  const DeviceRows q = three_queries(in.q), o = three_queries(in.o), d_o = three_queries(in.d_o);
  const DeviceRows k = many_keys(in.k), v = many_keys(in.v), lse(CUFLASH_F32, 3, 1, in.lse);
  const DeviceRows dk(CUFLASH_F16, kRows, 64), dv(CUFLASH_F16, kRows, 64), dq(CUFLASH_F16, 3, 64);
  Backward args;
  args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor(), args.o = o.tensor();
  args.d_o = d_o.tensor(), args.lse = lse.floats(), args.dk = dk.tensor(), args.dv = dv.tensor();
  for (const char* stage : ways_to_run(CUFLASH_BACKWARD, whole)) {
    SCOPED_TRACE(shown(stage));
    dk.fill(0xff), dv.fill(0xff);
    args.dq = takes_null_gradients(stage, whole) ? Tensor{} : dq.tensor();
    args.deterministic = has_fixed_order(stage);
    expect_success(backward(whole, args, nullptr, stage));
    finish();
    for (const int row : places()) {
      SCOPED_TRACE("rows from " + std::to_string(row) + " on");
      expect_right({{{"dK", dk.read(row, kPeriod)}, {"dV", dv.read(row, kPeriod)}}, ""}, *want);
    }
  }
}

// Each query must find one key among all others: S is 72 there and 0 elsewhere, so the weights of
// the others, 35 million times e^-72, vanish in f32 and O is that key's row of V.
TEST_F(Size, FindsKeysBeyond2To31Elements) {
  CUFLASH_NEED(12);
  Problem whole = problem_of("b1_h1_q3k4099_d64_f16");
  const harness::Inputs in = harness::make_inputs(whole, {});
  whole.seq_kv = kRows;
  std::vector<float> one_hot(3 * 64, 0.f);
  for (int i = 0; i < 3; ++i) one_hot[65 * i] = 24.f;  // 24 · 24 / √64 = 72
  const DeviceRows q = three_queries(one_hot), k(CUFLASH_F16, kRows, 64), v = many_keys(in.v);
  const DeviceRows o(CUFLASH_F16, 3, 64), lse(CUFLASH_F32, 3, 1);
  const int keys[] = {kRowAt2To31 - 1, kRowAt2To31, kRows - 1};
  k.fill(0);
  for (int i = 0; i < 3; ++i) {
    k.write(keys[i], {one_hot.begin() + 64 * i, one_hot.begin() + 64 * (i + 1)});
  }
  expect_success(forward(whole, {q.tensor(), k.tensor(), v.tensor(), o.tensor(), lse.floats()}));
  finish();
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE("key " + std::to_string(keys[i]));
    EXPECT_EQ(o.read(i, 1), v.read(keys[i], 1));
    EXPECT_NEAR(lse.read(i, 1)[0], 72.f, 1e-4f);  // of floats at 72, 1e-4 is 13 units
  }
}

// ---- Many batches and heads ---------------------------------------------------------------------

// The tests above cover queries and keys, with 547,000 tiles of 64.
void every_stage_computes(const char* name) {
  const Problem problem = problem_of(name);
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    const auto want = harness::reference_outputs(pass, problem, {});
    const ApiCall call(pass, problem, want->inputs);
    for (const char* stage : ways_to_run(pass, problem)) {
      SCOPED_TRACE(std::string(shown(stage)) + ", " + pass_name(pass) + " pass");
      call.poison();
      expect_success(call.queue(nullptr, stage));
      harness::check(cudaDeviceSynchronize(), "the kernels");
      expect_right(call.outputs(), *want);
    }
  }
}

TEST_F(Size, SeventyThousandBatches) { every_stage_computes("b70000_h1_q1k3_d64_f16"); }
TEST_F(Size, SeventyThousandHeads) { every_stage_computes("b1_h70000x35000_q1k3_d64_f16"); }

}  // namespace
}  // namespace cuflash
