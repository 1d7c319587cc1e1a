// supports() and fits(): the only place that decides whether a stage can run a problem on a device.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "api/kv_extents.h"
#include "api/listed.h"
#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {
namespace {

// 90 → "9.0", as NVIDIA writes compute capabilities.
std::string capability(int value) {
  return std::to_string(value / 10) + "." + std::to_string(value % 10);
}

// True if the device has this capability and the library contains code for it.
bool has(const Device& device, int needed) {
  return device.compute_capability >= needed && device.newest_code >= needed;
}

std::string needs(const Stage& stage, int needed, const char* what_for, const Device& device) {
  const int present = device.compute_capability;
  return std::string(stage.name) + " needs compute capability " + capability(needed) +
         " or higher" + what_for +
         (present < needed ? "; this device has " + capability(present)
                           : "; this library was built for " + capability(device.newest_code));
}

// Checks whether this device can run the pass. Here and below, no(error, sentence) makes a negative
// result. The sentence is a function, which fits() never calls.
template <class No>
Support on_device(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
                  No no) {
  constexpr auto kError = FlashAttentionError::UNSUPPORTED_DEVICE;
  const PassFacts& facts = stage.facts(pass);
  const int needed = facts.arch.compute_capability;
  const int present = device.compute_capability;
  if (present == 0) {
    return no(kError, [&] { return std::string("there is no CUDA device: ") + device.fault; });
  }
  if (device.newest_code == 0) {
    return no(kError, [&] {
      return "this library was built for newer devices; this one has compute capability " +
             capability(present);
    });
  }
  if (facts.arch.exact && (present != needed || !device.exact_code)) {
    return no(kError, [&] {
      const std::string architecture = "sm_" + std::to_string(needed) + 'a';
      return std::string(stage.name) + " needs " + architecture + " (compute capability " +
             capability(needed) + " exactly); this " +
             (present != needed ? "device has " + capability(present)
                                : "library was built without code for " + architecture);
    });
  }
  if (!facts.arch.exact && !has(device, needed)) {
    return no(kError, [&] { return needs(stage, needed, "", device); });
  }
  if (problem.dtype == CUFLASH_BF16 && !has(device, facts.arch.for_bf16)) {
    return no(kError, [&] { return needs(stage, facts.arch.for_bf16, " for bf16", device); });
  }
  const std::size_t shared_bytes = facts.shared_bytes != nullptr ? facts.shared_bytes(problem) : 0;
  if (shared_bytes > device.shared_bytes) {
    return no(kError, [&] {
      return std::string(stage.name) + " needs " + std::to_string(shared_bytes) +
             " bytes of shared memory per block; this device has " +
             std::to_string(device.shared_bytes);
    });
  }
  return {};
}

// Checks whether the stage supports this problem.
template <class No>
Support by_stage(const Stage& stage, Pass pass, const Problem& problem, Features needed, No no) {
  constexpr auto kError = FlashAttentionError::UNSUPPORTED_BY_STAGE;
  const PassFacts& facts = stage.facts(pass);
  if (!stage.has(pass)) {
    return no(kError,
              [&] { return std::string(stage.name) + " has no " + pass_name(pass) + " pass"; });
  }
  if (!facts.dtypes.has(problem.dtype)) {
    return no(kError, [&] {
      return std::string(stage.name) + " does not support " + dtype_name(problem.dtype) +
             "; it supports " + listed(words_of(facts.dtypes), "and");
    });
  }
  if (!facts.head_dims.has(problem.head_dim)) {
    return no(kError, [&] {
      return std::string(stage.name) + " does not support head_dim " +
             std::to_string(problem.head_dim) + "; it supports " +
             listed(words_of(facts.head_dims), "and");
    });
  }
  for (const FeatureName& feature : kFeatureNames) {
    if (needed.has(feature.feature) && !facts.features.has(feature.feature)) {
      return no(kError, [&] {
        return std::string(stage.name) + "'s " + pass_name(pass) + " pass does not support " +
               feature.name;
      });
    }
  }
  return {};
}

template <class No>
Support check(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
              Features also, No no) {
  const Support support = on_device(stage, pass, problem, device, no);
  if (!support) return support;
  return by_stage(stage, pass, problem, {features_of(problem).bits | also.bits}, no);
}

// A feature, and whether a call needs it.
struct Condition {
  Feature feature;
  bool holds;
};
Features features_where(std::initializer_list<Condition> conditions) {
  Features set;
  for (const Condition& condition : conditions) {
    if (condition.holds) set.bits |= static_cast<unsigned>(condition.feature);
  }
  return set;
}
Features both(Features a, Features b) { return {a.bits | b.bits}; }

// True if a stride of the tensor exceeds a tensor map's limit (device/host/tensor_map_arguments.h).
bool has_huge_stride(const Problem& p, const Tensor& tensor, int batches, int heads, int seq) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 40;  // bytes
  const auto most = kLimit / static_cast<std::int64_t>(element_bytes(p.dtype));
  const auto huge = [&](int extent, std::int64_t stride) { return extent > 1 && stride >= most; };
  return tensor.data != nullptr &&
         (huge(batches, tensor.batch_stride) || huge(heads, tensor.head_stride) ||
          huge(seq, tensor.row_stride));
}
bool has_huge_stride(const Problem& p, std::initializer_list<Tensor> like_q,
                     std::initializer_list<Tensor> like_k, KvExtents kv) {
  const auto of_queries = [&](const Tensor& tensor) {
    return has_huge_stride(p, tensor, p.batch, p.heads_q, p.seq_q);
  };
  const auto of_keys = [&](const Tensor& tensor) {
    return has_huge_stride(p, tensor, kv.batches, p.heads_kv, kv.seq);
  };
  return std::any_of(like_q.begin(), like_q.end(), of_queries) ||
         std::any_of(like_k.begin(), like_k.end(), of_keys);
}

}  // namespace

Features features_of(const Problem& p) {
  return features_where({{Feature::kCausal, p.causal != 0},
                         {Feature::kWindow, p.window_left >= 0 || p.window_right >= 0},
                         {Feature::kGroupedHeads, p.heads_q != p.heads_kv},
                         {Feature::kCrossLengths, p.seq_q != p.seq_kv},
                         {Feature::kSplits, p.split_keys != 0 || p.num_splits != 0},
                         {Feature::kPages, p.page_size != 0}});
}

Features features_of(const Problem& p, const Forward& args) {
  const bool huge = has_huge_stride(p, {args.q, args.o}, {args.k, args.v}, kv_extents(p, args));
  const bool lengths = args.seqused_k != nullptr || args.k_begin != nullptr;
  return both(features_of(p), features_where({{Feature::kAnyStride, huge},
                                              {Feature::kLengths, lengths},
                                              {Feature::kKvBatch, args.kv_batch != nullptr}}));
}

Features features_of(const Problem& p, const Backward& args) {
  const bool huge = has_huge_stride(p, {args.q, args.o, args.d_o, args.dq},
                                    {args.k, args.v, args.dk, args.dv}, {p.batch, p.seq_kv});
  const bool null = args.dq.data == nullptr || args.dk.data == nullptr || args.dv.data == nullptr;
  return both(features_of(p), features_where({{Feature::kDeterministic, args.deterministic != 0},
                                              {Feature::kAnyStride, huge},
                                              {Feature::kNullGradients, null}}));
}

Support supports(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
                 Features also) {
  return check(stage, pass, problem, device, also, [](FlashAttentionError error, auto sentence) {
    return Support{error, sentence()};
  });
}

bool fits(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
          Features also) {
  return bool(check(stage, pass, problem, device, also, [](FlashAttentionError error, auto) {
    return Support{error, {}};
  }));
}

}  // namespace cuflash
