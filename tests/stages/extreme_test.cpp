#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/convert.h"
#include "harness/device_tensor.h"
#include "harness/inputs.h"
#include "harness/reference_outputs.h"
#include "harness/stage_call.h"
#include "stage_test.h"

namespace cuflash::tests {
namespace {

using harness::Inputs;
using harness::Outputs;

Inputs all_zero(const Problem& p) {
  const std::size_t q = std::size_t(p.batch) * p.heads_q * p.seq_q * p.head_dim;
  const std::size_t kv = std::size_t(p.batch) * p.heads_kv * p.seq_kv * p.head_dim;
  Inputs in;
  in.q = in.d_o = in.o = std::vector<float>(q);
  in.k = in.v = std::vector<float>(kv);
  in.lse = std::vector<float>(q / p.head_dim);
  return in;
}

// Memory that is allocated only where it is touched.
class MappedMemory {
 public:
  explicit MappedMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() { munmap(data_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::int64_t kFarApart = std::int64_t{1} << 29;  // elements between rows

// A tensor of one head.
class FarTensor {
 public:
  FarTensor(DType dtype, int rows, int head_dim)
      : dtype_(dtype),
        rows_(rows),
        head_dim_(head_dim),
        memory_(((rows - 1) * kFarApart + head_dim) * element_bytes(dtype)) {}
  FarTensor(DType dtype, int head_dim, const std::vector<float>& values)
      : FarTensor(dtype, static_cast<int>(values.size()) / head_dim, head_dim) {
    for (int i = 0; i < rows_; ++i) {
      harness::encode(dtype, &values[i * head_dim], head_dim, row(i));
    }
  }

  Tensor view() const {
    Tensor t = contiguous(memory_.data(), 1, 1, head_dim_);
    t.row_stride = kFarApart;
    t.head_stride = t.batch_stride = rows_ * kFarApart;
    return t;
  }
  std::vector<float> values() const {
    std::vector<float> values(rows_ * head_dim_);
    for (int i = 0; i < rows_; ++i) {
      harness::decode(dtype_, row(i), head_dim_, &values[i * head_dim_]);
    }
    return values;
  }

 private:
  std::byte* row(int i) const { return memory_.data() + i * kFarApart * element_bytes(dtype_); }

  DType dtype_;
  int rows_, head_dim_;
  MappedMemory memory_;
};

// Queues a pass with a workspace.
template <class Args>
FlashAttentionError call(const PassOf<Args>& pass, const Problem& p, Args args) {
  const harness::DeviceBuffer workspace(pass.workspace_bytes(p), "workspace");
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  const FlashAttentionError error = pass.run(p, args, current_device(), nullptr);
  harness::check(cudaDeviceSynchronize(), "the kernels");
  return error;
}

}  // namespace

void scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  Inputs in = all_zero(problem);
  std::fill(in.q.begin(), in.q.end(), 96.f);
  std::fill(in.k.begin(), in.k.end(), -96.f);
  for (int j = 0; j < problem.seq_kv; ++j) {
    std::fill_n(&in.v[j * problem.head_dim], problem.head_dim, static_cast<float>(j));
  }
  const Outputs out = harness::run(stage, pass, problem, in);
  // All keys that a query sees weigh the same: O is the mean of first, …, i.
  const double score = -96. * 96. * problem.head_dim * problem.softmax_scale;
  for (int i = 0; i < problem.seq_q; ++i) {
    const int first = problem.window_left < 0 ? 0 : std::max(0, i - problem.window_left);
    const double o = (first + i) / 2., lse = score + std::log(i - first + 1.);
    const double limit = 0.01 * i + harness::half_ulp(problem.dtype, i);
    EXPECT_NEAR(out.tensors.at("O")[i * problem.head_dim], o, limit) << "row " << i;
    EXPECT_NEAR(out.tensors.at("LSE")[i], lse, 0.02) << "row " << i;
  }
}

void an_infinite_v_stays_in_its_head(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  Inputs in = all_zero(problem);
  std::fill_n(in.v.begin(), problem.seq_kv * problem.head_dim,
              std::numeric_limits<float>::infinity());
  const Outputs out = harness::run(stage, pass, problem, in);
  const std::vector<float>& o = out.tensors.at("O");
  for (std::size_t n = std::size_t(problem.seq_q) * problem.head_dim; n < o.size(); ++n) {
    ASSERT_EQ(o[n], 0.f) << "element " << n << " of O";
  }
}

void a_row_does_not_depend_on_others(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const auto is_changed = [](int row) { return row % 8 == 3; };
  Inputs in = harness::make_inputs(problem, {});
  for (float& x : in.q) x *= 8.f;
  const Outputs before = harness::run(stage, pass, problem, in);
  for (std::size_t n = 0; n < in.q.size(); ++n) {
    if (is_changed(n / problem.head_dim)) in.q[n] *= 16.f;
  }
  const Outputs after = harness::run(stage, pass, problem, in);
  for (const auto& [name, values] : before.tensors) {
    const int columns = static_cast<int>(values.size()) / problem.seq_q;
    for (std::size_t n = 0; n < values.size(); ++n) {
      const int row = static_cast<int>(n) / columns;
      if (is_changed(row)) continue;
      ASSERT_EQ(values[n], after.tensors.at(name)[n]) << name << " has other bits in row " << row;
    }
  }
}

// Two keys, ±48 in one half of head_dim, and queries that are 1 in the other half: every score is
// 0, both keys weigh 1/2, and with dO = 1 and V = ±32 dS is ±1024. Two bits of significand hold
// all of it.
void gradients_large_before_the_scale(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const int D = problem.head_dim, half = D / 2;
  Inputs in = all_zero(problem);
  std::fill(in.d_o.begin(), in.d_o.end(), 1.f);
  std::fill(in.lse.begin(), in.lse.end(), std::log(2.f));
  for (int i = 0; i < problem.seq_q; ++i) std::fill_n(&in.q[i * D + half], half, 1.f);
  for (const int j : {0, 1}) {
    std::fill_n(&in.k[j * D], half, j == 0 ? 48.f : -48.f);
    std::fill_n(&in.v[j * D], D, j == 0 ? 32.f : -32.f);
  }
  const Outputs out = harness::run(stage, pass, problem, in);
  const double sum = 1024. * 96., expected = sum * problem.softmax_scale;
  const double limit = 0.005 * expected;
  ASSERT_GT(sum, 65504.);
  for (int d = 0; d < D; ++d) {
    const bool first = d < half;
    EXPECT_NEAR(out.tensors.at("dQ")[d], first ? expected : 0., limit) << "dQ, element " << d;
    EXPECT_NEAR(out.tensors.at("dK")[d], first ? 0. : expected, limit) << "dK, element " << d;
  }
}

// All scores are equal, and so are the weights. V and dO are such that dS is ± head_dim times the
// weight, by turns along the keys: what keys bring to dQ cancels out.
void gradients_of_scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const int D = problem.head_dim;
  const double weight = 1. / problem.seq_kv, score = -96. * 96. * D * problem.softmax_scale;
  Inputs in = all_zero(problem);
  std::fill(in.q.begin(), in.q.end(), 96.f);
  std::fill(in.k.begin(), in.k.end(), -96.f);
  std::fill(in.d_o.begin(), in.d_o.end(), 1.f);
  std::fill(in.lse.begin(), in.lse.end(), static_cast<float>(score - std::log(weight)));
  for (int j = 0; j < problem.seq_kv; ++j) {
    std::fill_n(&in.v[j * D], D, j % 2 == 0 ? 1.f : -1.f);
  }
  const Outputs out = harness::run(stage, pass, problem, in);
  const double dv = weight * problem.seq_q, dk = problem.softmax_scale * dv * D * 96.;
  for (const float x : out.tensors.at("dQ")) ASSERT_NEAR(x, 0., 0.001 * dk) << "dQ";
  for (int n = 0; n < problem.seq_kv * D; ++n) {
    ASSERT_NEAR(out.tensors.at("dV")[n], dv, 0.02 * dv) << "dV, element " << n;
    ASSERT_NEAR(out.tensors.at("dK")[n], n / D % 2 == 0 ? dk : -dk, 0.02 * dk)
        << "dK, element " << n;
  }
}

void rows_far_apart(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const auto want = harness::reference_outputs(pass, problem, {});
  const Inputs& in = want->inputs;
  const DType dtype = problem.dtype;
  const int D = problem.head_dim;
  const FarTensor q(dtype, D, in.q), k(dtype, D, in.k), v(dtype, D, in.v);
  std::map<std::string, std::vector<float>> got;
  if (pass == CUFLASH_FORWARD) {
    const FarTensor o(dtype, problem.seq_q, D);
    const Forward args(q.view(), k.view(), v.view(), o.view());
    ASSERT_EQ(call(stage.forward, problem, args), FlashAttentionError::SUCCESS);
    got["O"] = o.values();
  } else {
    const FarTensor o(dtype, D, in.o), d_o(dtype, D, in.d_o);
    const FarTensor dq(dtype, problem.seq_q, D), dk(dtype, problem.seq_kv, D);
    const FarTensor dv(dtype, problem.seq_kv, D);
    const Backward args(q.view(), k.view(), v.view(), o.view(), d_o.view(), dq.view(), dk.view(),
                        dv.view(), in.lse.data());
    ASSERT_EQ(call(stage.backward, problem, args), FlashAttentionError::SUCCESS);
    got = {{"dQ", dq.values()}, {"dK", dk.values()}, {"dV", dv.values()}};
  }
  const Outputs near = harness::run(stage, pass, problem, in);
  for (const auto& [name, values] : got) EXPECT_EQ(values, near.tensors.at(name)) << name;
}

void sees_the_end_of_the_longest_head(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  constexpr auto kLayout = harness::Layout::kBHSD;
  const auto tensor = [&](int rows, int columns, DType dtype, const char* name) {
    return harness::DeviceTensor({1, 1, rows, columns}, dtype, kLayout, 256, name);
  };
  // One row in memory stands for all keys.
  const auto q = tensor(problem.seq_q, problem.head_dim, problem.dtype, "Q"),
             kv = tensor(1, problem.head_dim, problem.dtype, "K and V"),
             o = tensor(problem.seq_q, problem.head_dim, problem.dtype, "O"),
             lse = tensor(problem.seq_q, 1, CUFLASH_F32, "LSE");
  q.upload(std::vector<float>(problem.seq_q * problem.head_dim));
  kv.upload(std::vector<float>(problem.head_dim, 1.f));
  o.poison(), lse.poison();
  Tensor keys = kv.view();
  keys.row_stride = 0;
  const Forward args(q.view(), keys, keys, o.view(), static_cast<float*>(lse.view().data));
  ASSERT_EQ(call(stage.forward, problem, args), FlashAttentionError::SUCCESS);
  // Every score is 0. The last query sees the last key and those to its left in the window.
  for (const float x : o.download()) ASSERT_NEAR(x, 1.f, 0.001f);
  const std::vector<float> got = lse.download();
  for (int i = 0; i < problem.seq_q; ++i) {
    const int right = std::min(problem.window_right, problem.seq_q - 1 - i);
    EXPECT_NEAR(got[i], std::log(problem.window_left + 1. + right), 1e-5) << "row " << i;
  }
}

void refuses_too_many_blocks(const Stage& stage, Pass pass, Problem problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  problem.batch = 1 << 20;
  problem.heads_q = problem.heads_kv = 1 << 12;
  std::byte nothing[16];  // the address that all tensors get
  const Tensor t = contiguous(nothing, problem.heads_q, 1, problem.head_dim);
  FlashAttentionError error;
  if (pass == CUFLASH_FORWARD) {
    Forward args(t, t, t, t);
    args.workspace = nothing;
    error = stage.forward.run(problem, args, current_device(), nullptr);
  } else {
    Backward args(t, t, t, t, t, t, t, t, reinterpret_cast<float*>(nothing));
    args.workspace = nothing;
    error = stage.backward.run(problem, args, current_device(), nullptr);
  }
  EXPECT_EQ(error, FlashAttentionError::SIZE_OVERFLOW);
}

void asks_for_the_declared_shared_memory(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const auto want = harness::reference_outputs(pass, problem, {});
  simt::reset_counts();
  harness::run(stage, pass, problem, want->inputs);
  std::size_t most = 0;
  for (const simt::SharedMap& map : simt::shared_maps()) most = std::max(most, map.bytes);
  EXPECT_EQ(most, stage.facts(pass).shared_bytes(problem));
}

void a_wide_window_costs_nothing(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const auto want = harness::reference_outputs(pass, problem, {});
  const auto counts_of = [&](int left, int right) {
    Problem p = problem;
    p.window_left = left;
    p.window_right = right;
    simt::reset_counts();
    harness::run(stage, pass, p, want->inputs);
    return simt::counts();
  };
  const simt::Counts whole = counts_of(-1, -1), wide = counts_of(1000, 1000);
  EXPECT_EQ(wide.barriers, whole.barriers);
  EXPECT_EQ(wide.global_read_bytes, whole.global_read_bytes);
  EXPECT_EQ(wide.global_write_bytes, whole.global_write_bytes);
  EXPECT_EQ(wide.shared_read_bytes, whole.shared_read_bytes);
  EXPECT_EQ(wide.shared_write_bytes, whole.shared_write_bytes);
}

}  // namespace cuflash::tests
