// One call of the C interface as plain values, and the result that the documentation promises.
// Nothing here uses the library's own checks.
#ifndef CUFLASH_TESTS_UNIT_FUZZ_MODEL_H_
#define CUFLASH_TESTS_UNIT_FUZZ_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuflash/stage.h"

namespace cuflash::fuzz {

__extension__ using Wide = __int128;  // holds every size and product of a call exactly

enum class Entry { kSimple, kFull, kCheckSupport, kChosenStage, kWorkspaceBytes };

inline bool is_question(Entry entry) { return entry != Entry::kSimple && entry != Entry::kFull; }

struct FuzzCall {
  Entry entry = Entry::kFull;
  int pass = CUFLASH_FORWARD;
  cuflash_problem problem{};
  cuflash_backward_args args{};  // of the forward pass: size, q, k, v, o, lse and workspace
  bool null_problem = false, null_args = false;
  // The bytes in memory beyond the structs that this library knows.
  std::vector<std::byte> after_problem, after_args;
  std::optional<std::string> stage, variable;  // the call's name of a stage; CUFLASH_STAGE
  bool earlier_error = false;                  // a CUDA call of this thread has failed
  bool no_memory = false;                      // the device gives no workspace
};

inline std::size_t args_bytes(int pass) {
  return pass == CUFLASH_FORWARD ? sizeof(cuflash_forward_args) : sizeof(cuflash_backward_args);
}

// ---- Tensors -----------------------------------------------------------------------------------

enum class Role { kInput, kOutput, kOptionalOutput };
struct Operand {
  const char* name;
  cuflash_tensor cuflash_backward_args::*tensor;
  bool of_queries;
  Role role;
};

inline const std::vector<Operand>& operands(int pass) {
  using A = cuflash_backward_args;
  static const std::vector<Operand> forward = {{"Q", &A::q, true, Role::kInput},
                                               {"K", &A::k, false, Role::kInput},
                                               {"V", &A::v, false, Role::kInput},
                                               {"O", &A::o, true, Role::kOutput}};
  static const std::vector<Operand> backward = {{"Q", &A::q, true, Role::kInput},
                                                {"K", &A::k, false, Role::kInput},
                                                {"V", &A::v, false, Role::kInput},
                                                {"O", &A::o, true, Role::kInput},
                                                {"dO", &A::d_o, true, Role::kInput},
                                                {"dQ", &A::dq, true, Role::kOptionalOutput},
                                                {"dK", &A::dk, false, Role::kOptionalOutput},
                                                {"dV", &A::dv, false, Role::kOptionalOutput}};
  return pass == CUFLASH_FORWARD ? forward : backward;
}

inline int element_size(const cuflash_problem& p) { return int(element_bytes(p.dtype)); }

// Extents and strides of batch, heads and rows.
struct Shape {
  Wide extent[3], stride[3];
};
inline Shape shape(const cuflash_problem& p, const Operand& operand, const cuflash_tensor& t) {
  return {{p.batch, operand.of_queries ? p.heads_q : p.heads_kv,
           operand.of_queries ? p.seq_q : p.seq_kv},
          {t.batch_stride, t.head_stride, t.row_stride}};
}

// Fills in what a caller of the simple form does not give; it follows from the arguments.
inline void complete(FuzzCall& call) {
  if (call.entry != Entry::kSimple) return;
  cuflash_problem& p = call.problem;
  p.size = sizeof(cuflash_problem);
  p.heads_kv = p.heads_q;
  p.seq_kv = p.seq_q;
  p.window_left = p.window_right = -1;
  call.args.size = std::uint32_t(args_bytes(call.pass));
  call.args.workspace = nullptr;
  call.null_problem = call.null_args = false;
  call.after_problem.clear();
  call.after_args.clear();
  call.stage.reset();
  // If heads are further apart than 64 bits can express, the stride is the largest possible.
  const Wide most = std::numeric_limits<std::int64_t>::max() & ~std::int64_t{15};
  const std::int64_t head_stride = std::int64_t{p.seq_q} * p.head_dim;
  const auto batch_stride = std::int64_t(std::min(most, Wide{head_stride} * p.heads_q));
  for (const Operand& operand : operands(call.pass)) {
    cuflash_tensor& t = call.args.*operand.tensor;
    t = {t.data, batch_stride, head_stride, p.head_dim};
  }
}

// The number of elements from the first to the last, both included; strides are not negative.
inline Wide reach(const cuflash_problem& p, const Shape& s) {
  Wide last = p.head_dim - 1;
  for (int n = 0; n < 3; ++n) {
    if (s.extent[n] > 1) last += (s.extent[n] - 1) * s.stride[n];
  }
  return last + 1;
}

// True if an output overlaps itself. From the smallest stride to the largest, each must step over
// all elements of those before it. If these are more elements than 63 bits can count, the output is
// too large, and its larger strides do not matter.
inline bool overlaps_itself(const cuflash_problem& p, const Shape& s) {
  std::vector<std::pair<Wide, Wide>> dims;  // stride, extent
  for (int n = 0; n < 3; ++n) {
    if (s.extent[n] > 1) dims.emplace_back(s.stride[n], s.extent[n]);
  }
  std::sort(dims.begin(), dims.end());
  Wide inside = p.head_dim;
  for (const auto& [stride, extent] : dims) {
    if (inside > std::numeric_limits<std::int64_t>::max()) return false;
    if (stride < inside) return true;
    inside += (extent - 1) * stride;
  }
  return false;
}

// ---- Faults, in any order ----------------------------------------------------------------------

using Faults = std::set<int>;

// A problem as the library reads it: if the struct ends before a side of the window, that side has
// no limit.
inline cuflash_problem as_read(cuflash_problem p) {
  if (p.size < 44) p.window_left = -1;
  if (p.size < 48) p.window_right = -1;
  return p;
}

inline bool sizes_are_positive(const cuflash_problem& p) {
  return std::min({p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_kv, p.head_dim}) >= 1;
}

// True if one of the counts that grids and workspaces depend on is too large.
inline bool too_many(const cuflash_problem& p) {
  const Wide rows = Wide{p.batch} * p.heads_q * p.seq_q;
  const Wide kv_rows = Wide{p.batch} * p.heads_kv * p.seq_kv;
  return std::max(p.seq_q, p.seq_kv) >= 0x80000000ll - 256 ||
         std::max(rows, kv_rows) >= Wide{1} << 37 || rows * p.seq_kv >= Wide{1} << 59;
}

inline Faults problem_faults(const cuflash_problem& p) {
  Faults faults;
  if (!sizes_are_positive(p)) return {CUFLASH_INVALID_DIMENSION};
  if (std::min(p.window_left, p.window_right) < -1) faults.insert(CUFLASH_INVALID_DIMENSION);
  if (p.heads_q % p.heads_kv != 0) faults.insert(CUFLASH_DIMENSION_MISMATCH);
  if (p.dtype < 0 || p.dtype >= int(kDTypes.size())) faults.insert(CUFLASH_UNSUPPORTED_DTYPE);
  if (std::set<int>{32, 64, 96, 128, 256}.count(p.head_dim) == 0) {
    faults.insert(CUFLASH_UNSUPPORTED_HEAD_DIM);
  }
  if (!std::isfinite(p.softmax_scale) || p.softmax_scale <= 0) {
    faults.insert(CUFLASH_INVALID_SCALE);
  }
  if (too_many(p)) faults.insert(CUFLASH_SIZE_OVERFLOW);
  return faults;
}

inline Faults tensor_faults(const cuflash_problem& p, const Operand& operand,
                            const cuflash_tensor& t) {
  Faults faults;
  if (t.data == nullptr) {
    return operand.role == Role::kOptionalOutput ? Faults{} : Faults{CUFLASH_NULL_POINTER};
  }
  const Shape s = shape(p, operand, t);
  const auto address = reinterpret_cast<std::uintptr_t>(t.data);
  if (address % 16 != 0) faults.insert(CUFLASH_MISALIGNED);
  for (int n = 0; n < 3; ++n) {
    if (s.extent[n] == 1) continue;
    if (s.stride[n] < 0) return {CUFLASH_INVALID_DIMENSION};
    if (s.stride[n] * element_size(p) % 16 != 0) faults.insert(CUFLASH_MISALIGNED);
  }
  if (operand.role != Role::kInput && overlaps_itself(p, s)) {
    faults.insert(CUFLASH_INVALID_DIMENSION);
  }
  const Wide bytes = reach(p, s) * element_size(p);
  if (bytes > std::numeric_limits<std::int64_t>::max() ||
      bytes + address > std::numeric_limits<std::uintptr_t>::max()) {
    faults.insert(CUFLASH_SIZE_OVERFLOW);
  }
  return faults;
}

inline Faults args_faults(const FuzzCall& call) {
  Faults faults;
  for (const Operand& operand : operands(call.pass)) {
    faults.merge(tensor_faults(call.problem, operand, call.args.*operand.tensor));
  }
  // A contiguous output cannot overlap itself, even if its strides exceed 64 bits.
  if (call.entry == Entry::kSimple) faults.erase(CUFLASH_INVALID_DIMENSION);
  if (call.pass == CUFLASH_BACKWARD && call.args.lse == nullptr) {
    faults.insert(CUFLASH_NULL_POINTER);
  }
  const auto misaligned = [](const void* address, std::uintptr_t alignment) {
    return reinterpret_cast<std::uintptr_t>(address) % alignment != 0;
  };
  if (misaligned(call.args.lse, 4) || misaligned(call.args.workspace, 256)) {
    faults.insert(CUFLASH_MISALIGNED);
  }
  return faults;
}

// ---- Stages ------------------------------------------------------------------------------------

// Finds a stage by name ("01_naive"), number ("01") or word ("naive").
inline const Stage* stage_called(const std::string& text) {
  for (const Stage* stage : stages()) {
    if (text == stage->name) return stage;
  }
  for (const Stage* stage : stages()) {
    const std::string name = stage->name;
    const std::size_t line = name.find('_');
    if (text == name.substr(0, line) || text == name.substr(line + 1)) return stage;
  }
  return nullptr;
}

// True if two neighbours of some tensor are 2^40 bytes or more apart.
inline bool has_huge_stride(const FuzzCall& call) {
  for (const Operand& operand : operands(call.pass)) {
    const cuflash_tensor& t = call.args.*operand.tensor;
    if (t.data == nullptr) continue;
    const Shape s = shape(call.problem, operand, t);
    for (int n = 0; n < 3; ++n) {
      const Wide bytes = s.stride[n] * element_size(call.problem);
      if (s.extent[n] > 1 && bytes >= Wide{1} << 40) return true;
    }
  }
  return false;
}

// What a call asks for that not every pass can do.
struct Asked {
  bool huge_stride = false, same_bits = false;
};
inline Asked asked(const FuzzCall& call) {
  if (is_question(call.entry)) return {};
  const bool same_bits = call.pass == CUFLASH_BACKWARD &&
                         (call.entry == Entry::kSimple || call.args.deterministic != 0);
  return {has_huge_stride(call), same_bits};
}

// True if the pass is written for the problem, and for what the call asks.
inline bool takes(const PassFacts& facts, const cuflash_problem& p, const Asked& asked) {
  return facts.dtypes.has(p.dtype) && facts.head_dims.has(p.head_dim) &&
         (!asked.huge_stride || facts.features.has(Feature::kAnyStride)) &&
         (!asked.same_bits || facts.features.has(Feature::kDeterministic));
}

// The error if a stage cannot run the problem here; 0 if it can.
inline int stage_fault(const Stage& stage, int pass, const cuflash_problem& p, const Asked& asked) {
  const Device device = current_device();
  const int present = device.compute_capability;
  const PassFacts& facts = stage.facts(Pass(pass));
  const ArchRequirement& arch = facts.arch;
  Problem problem;
  static_cast<cuflash_problem&>(problem) = p;
  const std::size_t shared_bytes = stage.has(Pass(pass)) ? facts.shared_bytes(problem) : 0;
  const bool wrong_arch = arch.exact
                              ? present != arch.compute_capability || !device.exact_code
                              : std::min(present, device.newest_code) < arch.compute_capability;
  if (present == 0 || device.newest_code == 0 || wrong_arch || shared_bytes > device.shared_bytes ||
      (p.dtype == CUFLASH_BF16 && std::min(present, device.newest_code) < arch.for_bf16)) {
    return CUFLASH_UNSUPPORTED_DEVICE;
  }
  const bool fits = stage.has(Pass(pass)) && takes(facts, p, asked);
  return fits ? CUFLASH_SUCCESS : CUFLASH_UNSUPPORTED_BY_STAGE;
}

// The name that decides: the call's, else the environment's; nullopt if the library chooses.
inline std::optional<std::string> wanted_stage(const FuzzCall& call) {
  if (call.stage) return call.stage;
  return call.variable && !call.variable->empty() ? call.variable : std::nullopt;
}

// The error of the choice of a stage, for a problem without faults.
inline int choice_fault(const FuzzCall& call) {
  const Asked all = asked(call);
  if (const auto name = wanted_stage(call)) {
    const Stage* stage = stage_called(*name);
    return stage == nullptr ? int{CUFLASH_UNKNOWN_STAGE}
                            : stage_fault(*stage, call.pass, as_read(call.problem), all);
  }
  const cuflash_problem p = as_read(call.problem);
  const int first = stage_fault(*stages().front(), call.pass, p, all);
  bool written = false;  // a stage that the library chooses takes the problem, here or elsewhere
  for (const Stage* stage : stages()) {
    if (stage_fault(*stage, call.pass, p, all) == CUFLASH_SUCCESS) {
      return CUFLASH_SUCCESS;
    }
    const PassFacts& facts = stage->facts(Pass(call.pass));
    written = written || (facts.rank != nullptr && takes(facts, p, all));
  }
  return first == CUFLASH_UNSUPPORTED_BY_STAGE && written ? int{CUFLASH_UNSUPPORTED_DEVICE} : first;
}

// ---- The answer --------------------------------------------------------------------------------

// `first` is the struct's size in the first version, `alignment` the alignment of its fields.
inline bool bad_struct(std::uint32_t size, std::size_t first, std::uint32_t alignment,
                       const std::vector<std::byte>& after) {
  return size < first || size > 4096 || size % alignment != 0 ||
         std::any_of(after.begin(), after.end(), [](std::byte b) { return b != std::byte{}; });
}

inline bool has_work(const FuzzCall& call) {
  return call.pass == CUFLASH_FORWARD || call.args.dq.data != nullptr ||
         call.args.dk.data != nullptr || call.args.dv.data != nullptr;
}

// The code that the call must return. `workspace` is cuflash_workspace_bytes() of the call.
inline int expected_code(const FuzzCall& call, std::size_t workspace) {
  // The structs come before their contents; a question's pass comes before everything.
  const bool question = is_question(call.entry);
  if (call.pass != CUFLASH_FORWARD && call.pass != CUFLASH_BACKWARD) {
    return CUFLASH_UNSUPPORTED_BY_STAGE;
  }
  if (call.null_problem || (!question && call.null_args)) return CUFLASH_NULL_POINTER;
  if (bad_struct(call.problem.size, 40, 4, call.after_problem) ||
      (!question && bad_struct(call.args.size, args_bytes(call.pass), 8, call.after_args))) {
    return CUFLASH_INVALID_DIMENSION;
  }

  // All faults of the arguments; the first in the documented order counts.
  Faults faults = problem_faults(as_read(call.problem));
  if (!question && sizes_are_positive(call.problem)) faults.merge(args_faults(call));
  for (const int code :
       {CUFLASH_INVALID_DIMENSION, CUFLASH_DIMENSION_MISMATCH, CUFLASH_UNSUPPORTED_DTYPE,
        CUFLASH_UNSUPPORTED_HEAD_DIM, CUFLASH_INVALID_SCALE, CUFLASH_NULL_POINTER,
        CUFLASH_MISALIGNED, CUFLASH_SIZE_OVERFLOW}) {
    if (faults.count(code) != 0) return code;
  }
  if (const int fault = choice_fault(call); fault != CUFLASH_SUCCESS) return fault;

  // While the work is queued.
  if (question || !has_work(call)) return CUFLASH_SUCCESS;
  if (call.earlier_error) return CUFLASH_CUDA_ERROR;
  const bool allocates = call.args.workspace == nullptr;
  const bool lacks = allocates ? call.no_memory : call.args.workspace_bytes < workspace;
  return workspace > 0 && lacks ? CUFLASH_OUT_OF_MEMORY : CUFLASH_SUCCESS;
}

}  // namespace cuflash::fuzz

#endif  // CUFLASH_TESTS_UNIT_FUZZ_MODEL_H_
