#include "harness/stage_call.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "cuflash/workload.h"
#include "harness/device_tensor.h"

namespace cuflash::harness {
namespace {

constexpr std::size_t kGuardBytes = 256;  // Keeps the alignment of cudaMalloc.

// The layout of one tensor of a call: the LSE has no strides, and only K and V can be expanded.
Layout layout_of(const std::string& name, Layout layout) {
  const bool expands = name == "K" || name == "V";
  return name == "LSE" || (layout == Layout::kExpanded && !expands) ? Layout::kBHSD : layout;
}

// The rows of K or V, [batch, heads_kv, seq_kv, head_dim], in pages: [num_pages, heads_kv,
// page_size, head_dim]. Rows that no sequence has are NaN.
std::vector<float> paged_rows(const Problem& p, const std::vector<float>& rows) {
  const std::vector<std::int32_t> table = block_table(p);
  const std::size_t page = std::size_t(p.heads_kv) * p.page_size;  // rows of all heads
  std::vector<float> paged(p.num_pages * page * p.head_dim,
                           std::numeric_limits<float>::quiet_NaN());
  for (std::size_t row = 0; row < rows.size() / p.head_dim; ++row) {
    const std::size_t j = row % p.seq_kv, h = row / p.seq_kv % p.heads_kv;
    const std::size_t b = row / p.seq_kv / p.heads_kv;
    if (static_cast<int>(j) / p.page_size >= p.pages_per_seq) continue;  // too short a table
    const std::size_t to =
        table[b * p.pages_per_seq + j / p.page_size] * page + h * p.page_size + j % p.page_size;
    std::copy_n(&rows[row * p.head_dim], p.head_dim, &paged[to * p.head_dim]);
  }
  return paged;
}

// The simulator has red zones instead of guards.
std::size_t bytes_of_guard(bool guards) {
  return guards && !simt::counts_accesses() ? kGuardBytes : 0;
}

}  // namespace

Features CallOptions::features() const {
  const auto needs = [](bool condition, Feature feature) {
    return condition ? static_cast<unsigned>(feature) : 0u;
  };
  return {needs(!dq || !dk || !dv, Feature::kNullGradients) |
          needs(!cache.seqused_k.empty() || !cache.k_begin.empty(), Feature::kLengths) |
          needs(!cache.kv_batch.empty(), Feature::kKvBatch)};
}

std::vector<std::int32_t> block_table(const Problem& p) {
  std::vector<std::int32_t> pages(p.num_pages);
  std::iota(pages.begin(), pages.end(), 0);
  std::mt19937 bits(1);
  for (std::size_t n = pages.size(); n > 1; --n) std::swap(pages[n - 1], pages[bits() % n]);
  pages.resize(std::size_t(p.batch) * p.pages_per_seq);
  return pages;
}

Device told_device(const CallOptions& options) {
  Device device = current_device();
  if (options.sms != 0) device.sms = options.sms;
  return device;
}

StageCall::StageCall(const Stage& stage, Pass pass, const Problem& p, const Inputs& in,
                     const CallOptions& options)
    : stage_(stage),
      pass_(pass),
      problem_(p),
      device_(told_device(options)),
      guards_(options.guards) {
  const std::size_t guard_bytes = bytes_of_guard(options.guards);
  const bool paged = p.page_size != 0;
  const auto make = [&](const std::string& name, int heads, int seq, int head_dim) {
    const bool of_pages = paged && (name == "K" || name == "V");
    return std::make_unique<DeviceTensor>(
        DeviceTensor::Shape{of_pages ? p.num_pages : p.batch, heads, of_pages ? p.page_size : seq,
                            head_dim},
        name == "LSE" ? CUFLASH_F32 : p.dtype, layout_of(name, options.layout),
        outputs_.count(name) ? guard_bytes : 0, name);
  };
  const auto input = [&](const std::string& name, const std::vector<float>& values, int heads,
                         int seq, int head_dim) {
    if (layout_of(name, options.layout) == Layout::kExpanded &&
        !std::equal(values.begin() + seq * head_dim, values.end(), values.begin())) {
      throw std::logic_error(name + " differs between batches or heads; sharedkv inputs must not");
    }
    auto& tensor = inputs_[name] = make(name, heads, seq, head_dim);
    const bool of_pages = paged && (name == "K" || name == "V");
    tensor->upload(of_pages ? paged_rows(p, values) : values);
    return tensor->view();
  };
  const auto output = [&](const std::string& name, bool wanted, int heads, int seq, int head_dim) {
    if (!wanted) return Tensor{};
    auto& tensor = outputs_[name];
    tensor = make(name, heads, seq, head_dim);
    if (options.guards) tensor->poison();
    return tensor->view();
  };

  const Tensor q = input("Q", in.q, p.heads_q, p.seq_q, p.head_dim);
  const Tensor k = input("K", in.k, p.heads_kv, p.seq_kv, p.head_dim);
  const Tensor v = input("V", in.v, p.heads_kv, p.seq_kv, p.head_dim);
  make_workspace(stage);

  if (pass == CUFLASH_FORWARD) {
    const Tensor o = output("O", true, p.heads_q, p.seq_q, p.head_dim);
    const Tensor lse = output("LSE", options.lse, p.heads_q, p.seq_q, 1);
    forward_ = {q, k, v, o, static_cast<float*>(lse.data)};
    const auto numbers = [&](const char* name, const std::vector<std::int32_t>& values) {
      DeviceBuffer& buffer = cache_numbers_.emplace_back(values.size() * sizeof values[0], name);
      check(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice),
            "cudaMemcpy to the device");
      return reinterpret_cast<const std::int32_t*>(buffer.data());
    };
    forward_.seqused_k = numbers("seqused_k", options.cache.seqused_k);
    forward_.k_begin = numbers("k_begin", options.cache.k_begin);
    forward_.kv_batch = numbers("kv_batch", options.cache.kv_batch);
    forward_.block_table =
        numbers("block_table",
                options.cache.block_table.empty() ? block_table(p) : options.cache.block_table);
    return;
  }
  backward_.q = q, backward_.k = k, backward_.v = v;
  backward_.o = input("O", in.o, p.heads_q, p.seq_q, p.head_dim);
  backward_.d_o = input("dO", in.d_o, p.heads_q, p.seq_q, p.head_dim);
  backward_.lse = static_cast<float*>(input("LSE", in.lse, p.heads_q, p.seq_q, 1).data);
  backward_.dq = output("dQ", options.dq, p.heads_q, p.seq_q, p.head_dim);
  backward_.dk = output("dK", options.dk, p.heads_kv, p.seq_kv, p.head_dim);
  backward_.dv = output("dV", options.dv, p.heads_kv, p.seq_kv, p.head_dim);
  const bool has_fixed_order = stage.backward.features.has(Feature::kDeterministic);
  backward_.deterministic = options.deterministic && has_fixed_order;
}

StageCall::~StageCall() = default;

void StageCall::make_workspace(const Stage& stage) {
  const std::size_t bytes = stage.facts(pass_).workspace_bytes(problem_);
  if (workspace_ != nullptr && workspace_->bytes() >= bytes) return;
  const std::size_t guard_bytes = bytes_of_guard(guards_);
  workspace_ = std::make_unique<GuardedBuffer>(bytes, guard_bytes, "workspace");
  if (guard_bytes > 0) workspace_->fill_nan();
}

void StageCall::queue(const Stream& stream, const Stage& stage) {
  make_workspace(stage);
  void* workspace = workspace_->bytes() > 0 ? workspace_->data() : nullptr;
  forward_.workspace = backward_.workspace = workspace;
  const FlashAttentionError error =
      pass_ == CUFLASH_FORWARD ? stage.forward.run(problem_, forward_, device_, stream.get())
                               : stage.backward.run(problem_, backward_, device_, stream.get());
  if (error == FlashAttentionError::SUCCESS) return;
  throw std::runtime_error(std::string(stage.name) + ", " + pass_name(pass_) + " of " +
                           problem_name(problem_) + ": " + get_error_string(error));
}

Outputs StageCall::outputs() const {
  Outputs out;
  out.damage = workspace_->damage();
  for (const auto& [name, tensor] : outputs_) {
    std::string damage;
    out.tensors[name] = tensor->download(guards_ ? &damage : nullptr);
    if (!damage.empty()) out.damage = damage;
  }
  return out;
}

Outputs run(const Stage& stage, Pass pass, const Problem& problem, const Inputs& inputs,
            const CallOptions& options) {
  StageCall call(stage, pass, problem, inputs, options);
  const Stream stream;
  call.queue(stream);
  stream.synchronize();
  return call.outputs();
}

}  // namespace cuflash::harness
