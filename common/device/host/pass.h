// Builds a pass of a stage's description from its kernels. A stage writes a template
//
//     template <class T, int kHeadDim>
//     struct ForwardKernels {
//       static constexpr std::size_t kSharedBytes = …;  // shared memory of the largest block
//       static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream);
//     };
//
// and forward_pass<ForwardKernels, Types, HeadDims>() instantiates it for each type and head
// dimension, and declares only those. The pass has no workspace unless the stage sets one. If the
// grid depends on the device, the function is run(p, device, stream).
#ifndef CUFLASH_DEVICE_HOST_PASS_H_
#define CUFLASH_DEVICE_HOST_PASS_H_

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "cuflash/stage.h"
#include "device/index.h"
#include "device/instances.h"
#include "device/tensor.h"
#include "device/types.h"

namespace cuflash {

// Workspaces: none, and one float per row of Q (delta).
inline std::size_t no_workspace(const Problem&) { return 0; }
inline std::size_t one_float_per_row(const Problem& p) {
  return static_cast<std::size_t>(num_rows(p)) * sizeof(float);
}

// A number of matrix products that does not depend on the problem.
template <int kNumber>
int products(const Problem&) {
  return kNumber;
}

template <class Args, class Params, template <class, int> class Kernels, class Types, class Dims>
struct Instances {
  static FlashAttentionError run(const Problem& p, const Args& args, const Device& device,
                                 cudaStream_t stream) {
    constexpr auto kOtherwise = FlashAttentionError::UNSUPPORTED_BY_STAGE;
    return dispatch(Types{}, Dims{}, p, kOtherwise, [&](auto type, auto head_dim) {
      using Instance = Kernels<typename decltype(type)::Type, head_dim()>;
      using Run = decltype(Instance::run);
      const Params params(p, args);
      if constexpr (std::is_invocable_v<Run, const Params&, const Device&, cudaStream_t>) {
        return Instance::run(params, device, stream);
      } else {
        return Instance::run(params, stream);
      }
    });
  }

  static std::size_t shared_bytes(const Problem& p) {
    return dispatch(Types{}, Dims{}, p, std::size_t{0}, [](auto type, auto head_dim) {
      return Kernels<typename decltype(type)::Type, head_dim()>::kSharedBytes;
    });
  }

  static constexpr PassOf<Args> pass() {
    PassOf<Args> pass;
    pass.dtypes = Types::kSet;
    pass.head_dims = Dims::kSet;
    pass.shared_bytes = shared_bytes;
    pass.workspace_bytes = no_workspace;
    pass.run = run;
    return pass;
  }
};

// The shared memory of the largest block, bytes, over all types and head dimensions.
template <template <class, int> class Kernels, class T, int... Ns>
constexpr std::size_t largest_block(TypeTag<T>, IntList<Ns...>) {
  return std::max({Kernels<T, Ns>::kSharedBytes...});
}
template <template <class, int> class Kernels, class... Ts, int... Ns>
constexpr std::size_t largest_block(TypeList<Ts...>, IntList<Ns...> dims) {
  return std::max({largest_block<Kernels>(TypeTag<Ts>{}, dims)...});
}

template <template <class, int> class Kernels, class Types, class Dims>
constexpr PassOf<Forward> forward_pass() {
  using Instantiated = InstancesOfPass<CUFLASH_FORWARD, Types>;
  return Instances<Forward, ForwardParams, Kernels, Instantiated, Dims>::pass();
}
template <template <class, int> class Kernels, class Types, class Dims>
constexpr PassOf<Backward> backward_pass() {
  using Instantiated = InstancesOfPass<CUFLASH_BACKWARD, Types>;
  return Instances<Backward, BackwardParams, Kernels, Instantiated, Dims>::pass();
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_PASS_H_
