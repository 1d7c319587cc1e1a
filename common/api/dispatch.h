// The API's calls, as c_api.cpp makes them once it has read the caller's structs. The public C++
// API is inline over the C interface, so every call of either comes through here.
#ifndef CUFLASH_API_DISPATCH_H_
#define CUFLASH_API_DISPATCH_H_

#include "cuflash/stage.h"

namespace cuflash::api {

// Check, choose, provide the workspace, queue. The result's sentence is last_error_message()'s.
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

// The workspace that every call of the problem can do with: what a call's arguments ask for may
// lead to another stage than the problem does. The problem has passed choose().
std::size_t workspace_bytes(Pass pass, const Problem& problem, const char* stage);

}  // namespace cuflash::api

#endif  // CUFLASH_API_DISPATCH_H_
