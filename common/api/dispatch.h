// The API's calls, as c_api.cpp makes them once it has read the caller's structs. The public C++
// API is inline over the C interface, so every call of either comes through here.
#ifndef CUFLASH_API_DISPATCH_H_
#define CUFLASH_API_DISPATCH_H_

#include "cuflash/stage.h"

namespace cuflash::api {

// Checks the call, chooses a stage, provides the workspace and queues the work.
// last_error_message() returns the sentence of the result.
FlashAttentionError forward(const Problem& problem, const Forward& args, cudaStream_t stream,
                            const char* stage);
FlashAttentionError backward(const Problem& problem, const Backward& args, cudaStream_t stream,
                             const char* stage);

// A stage that supports the problem, or the reason why there is none.
struct Choice {
  const Stage* stage = nullptr;
  Support support;
};

// The stage that a call would run. The problem need not be valid.
Choice choose(Pass pass, const Problem& problem, const char* stage);

// The size of a workspace that suffices for every call of the problem without a cache or a huge
// stride: a call's arguments may lead to another stage than the problem alone. The problem has
// passed choose().
std::size_t workspace_bytes(Pass pass, const Problem& problem, const char* stage);

}  // namespace cuflash::api

#endif  // CUFLASH_API_DISPATCH_H_
