// One call of a stage: its tensors in device memory, poisoned and guarded, and its outputs.
#ifndef CUFLASH_HARNESS_STAGE_CALL_H_
#define CUFLASH_HARNESS_STAGE_CALL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "harness/inputs.h"
#include "harness/owners.h"

namespace cuflash::harness {

// The layout of a tensor in memory.
enum class Layout {
  kBHSD,      // [batch, heads, seq, head_dim] without gaps
  kBSHD,      // [batch, seq, heads, head_dim] without gaps
  kPadded,    // gaps after every row, head and batch; no two tensors have the same strides
  kSpaced,    // a gap of a tile's rows after every head
  kFar,       // batches 2^31 elements apart: an offset needs 64 bits
  kExpanded,  // as kBHSD, but all batches and heads share one K and one V: strides of 0
};

inline constexpr const char* kLayoutNames[] = {"bhsd",   "bshd", "padded",
                                               "spaced", "far",  "expanded"};
inline const char* layout_name(Layout layout) { return kLayoutNames[static_cast<int>(layout)]; }

// The numbers of a call with a cache, [batch], which lie on the device. An empty list is a null
// pointer.
struct CacheNumbers {
  std::vector<std::int32_t> seqused_k, k_begin, kv_batch;
  // Of a problem with pages; if it is empty, it is block_table().
  std::vector<std::int32_t> block_table;
};

struct CallOptions {
  Layout layout = Layout::kBHSD;
  bool lse = true;  // true if the call passes the LSE; otherwise a null pointer
  bool dq = true, dk = true, dv = true;
  // True if gradients have the same bits in every run, if the stage has a fixed order.
  bool deterministic = true;
  // True if the outputs and the workspace are poisoned and have guard bytes around them. Otherwise
  // an allocation is as long as its contents and uninitialised, for compute-sanitizer. The CPU
  // simulator has red zones and its own checks instead of guards and a poisoned workspace.
  bool guards = true;
  // The number of SMs that the stage gets as the device's; 0: all of them. With few SMs, each block
  // of a persistent kernel does much work.
  int sms = 0;
  CacheNumbers cache;

  // The features that these options require of a stage.
  Features features() const;
};

// The pages of each sequence, [batch, pages_per_seq], in a random order that is the same on every
// machine. Empty without pages.
std::vector<std::int32_t> block_table(const Problem& problem);

// The device that is passed to the stage.
Device told_device(const CallOptions& options);

// The outputs of a call, by name (O, LSE, dQ, dK, dV): [batch, heads, seq, head_dim] without gaps.
struct Outputs {
  std::map<std::string, std::vector<float>> tensors;
  std::string damage;  // a sentence if a byte outside the outputs was written, else empty
};

class DeviceTensor;
class GuardedBuffer;

class StageCall {
 public:
  // Allocates and uploads. For the backward pass, inputs.o and inputs.lse must be there.
  StageCall(const Stage& stage, Pass pass, const Problem& problem, const Inputs& inputs,
            const CallOptions& options = {});
  ~StageCall();

  // Queues the call; it may be queued again. Throws if the stage returns an error.
  void queue(const Stream& stream) { queue(stream, stage_); }
  // Queues another stage's call with the same tensors.
  void queue(const Stream& stream, const Stage& stage);
  // Copies the outputs back. The stream must have been synchronised.
  Outputs outputs() const;

 private:
  // Makes the workspace large enough for a stage.
  void make_workspace(const Stage& stage);

  const Stage& stage_;
  Pass pass_;
  Problem problem_;
  Device device_;
  bool guards_;
  std::map<std::string, std::unique_ptr<DeviceTensor>> inputs_, outputs_;
  std::unique_ptr<GuardedBuffer> workspace_;
  std::vector<DeviceBuffer> cache_numbers_;
  Forward forward_;
  Backward backward_;
};

// Queues one call, waits for it, and returns its outputs.
Outputs run(const Stage& stage, Pass pass, const Problem& problem, const Inputs& inputs,
            const CallOptions& options = {});

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_STAGE_CALL_H_
