#include "harness/stage_call.h"

#include <algorithm>
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
  const auto make = [&](const std::string& name, int heads, int seq, int head_dim) {
    return std::make_unique<DeviceTensor>(
        DeviceTensor::Shape{p.batch, heads, seq, head_dim}, name == "LSE" ? CUFLASH_F32 : p.dtype,
        layout_of(name, options.layout), outputs_.count(name) ? guard_bytes : 0, name);
  };
  const auto input = [&](const std::string& name, const std::vector<float>& values, int heads,
                         int seq, int head_dim) {
    if (layout_of(name, options.layout) == Layout::kExpanded &&
        !std::equal(values.begin() + seq * head_dim, values.end(), values.begin())) {
      throw std::logic_error(name + " differs between batches or heads; sharedkv inputs must not");
    }
    auto& tensor = inputs_[name] = make(name, heads, seq, head_dim);
    tensor->upload(values);
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
