// validate(): the checks that depend on neither stage nor device. Host code only. Each kind of
// fault has one function, which returns a sentence, or an empty string if there is no such fault;
// check() runs them in the order that cuflash_error states.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <locale>
#include <sstream>
#include <utility>

#include "api/kv_extents.h"
#include "api/listed.h"
#include "cuflash/stage.h"

namespace cuflash {
namespace {

constexpr std::int64_t kAlignment = 16;              // bytes, of tensors: one vector load
constexpr std::uintptr_t kWorkspaceAlignment = 256;  // bytes, as cudaMalloc guarantees
constexpr int kPageMultiple = 16;                    // rows
constexpr int kPartMultiple = 64;                    // keys: the tiles of every stage fit a part
constexpr std::int64_t kMaxRows = (std::int64_t{1} << 31) * 64;  // 2^31 blocks of 64 rows
constexpr std::int64_t kMaxSeq = (std::int64_t{1} << 31) - 256;  // the end of the last tile, too
constexpr std::int64_t kMaxParts = std::int64_t{1} << 49;        // at 16 KB each: 2^63 bytes
constexpr std::int64_t kMaxScores = std::int64_t{1} << 59;       // at 16 bytes each: 2^63 bytes

// One tensor of a call, with its name, sizes and role.
struct Operand {
  const char* name;
  const Tensor* tensor;
  int batches, heads, seq;
  enum class Role { kInput, kOutput, kOptionalOutput } role;

  // True if the tensor has no data. Only null_pointer() checks such a tensor.
  bool absent() const { return tensor->data == nullptr; }
};

// The arguments of one call.
struct Arguments {
  const Problem& problem;
  std::initializer_list<Operand> operands;
  const float* lse = nullptr;
  bool lse_required = false;
  const void* workspace = nullptr;
  const std::int32_t *seqused_k = nullptr, *k_begin = nullptr, *kv_batch = nullptr,
                     *block_table = nullptr;
  bool table_required = false;
};

// An extent and its stride, in elements. The stride of an extent of 1 is never used and is 0 here,
// whatever the caller passes.
struct Dim {
  const char* stride_name;
  std::int64_t extent, stride;
};

std::array<Dim, 3> dims(const Operand& operand) {
  const auto dim = [](const char* name, int extent, std::int64_t stride) {
    return Dim{name, extent, extent > 1 ? stride : 0};
  };
  const Tensor& t = *operand.tensor;
  return {dim("batch_stride", operand.batches, t.batch_stride),
          dim("head_stride", operand.heads, t.head_stride),
          dim("row_stride", operand.seq, t.row_stride)};
}

// Joins its arguments into one sentence, independently of the program's locale, which may group
// digits.
template <class... Words>
std::string message(const Words&... words) {
  std::ostringstream text;
  text.exceptions(std::ios::badbit);  // out of host memory: throw, do not truncate the sentence
  text.imbue(std::locale::classic());
  (text << ... << words);
  return text.str();
}

// reach += (extent − 1) · stride; false if that overflows 64 bits.
bool extend(std::int64_t& reach, const Dim& dim) {
  std::int64_t step = 0;
  return !__builtin_mul_overflow(dim.extent - 1, dim.stride, &step) &&
         !__builtin_add_overflow(reach, step, &reach);
}

// INVALID_DIMENSION, sizes.
std::string bad_size(const Problem& p) {
  const std::pair<const char*, int> sizes[] = {{"batch", p.batch},       {"heads_q", p.heads_q},
                                               {"heads_kv", p.heads_kv}, {"seq_q", p.seq_q},
                                               {"seq_kv", p.seq_kv},     {"head_dim", p.head_dim}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) return message(name, " is ", size, "; it must be at least 1");
  }
  return {};
}

// INVALID_DIMENSION, the window.
std::string bad_window(const Problem& p) {
  const std::pair<const char*, int> sides[] = {{"window_left", p.window_left},
                                               {"window_right", p.window_right}};
  for (const auto& [name, side] : sides) {
    if (side < -1)
      return message(name, " is ", side, "; it must be at least 0, or -1 for no limit");
  }
  return {};
}

// INVALID_DIMENSION, the parts of the keys.
std::string bad_parts(const Problem& p) {
  const std::pair<const char*, int> counts[] = {{"split_keys", p.split_keys},
                                                {"num_splits", p.num_splits}};
  for (const auto& [name, count] : counts) {
    if (count < 0) {
      return message(name, " is ", count,
                     "; it must be at least 0, where 0 lets the library divide the keys");
    }
  }
  if (p.split_keys % kPartMultiple != 0) {
    return message("split_keys is ", p.split_keys, ", not a multiple of ", kPartMultiple);
  }
  if (p.split_keys != 0 && p.num_splits != 0) {
    return message("split_keys is ", p.split_keys, " and num_splits is ", p.num_splits,
                   "; one of them must be 0");
  }
  return {};
}

// INVALID_DIMENSION, the sizes of pages.
std::string bad_pages(const Problem& p) {
  if (p.page_size < 0 || p.page_size % kPageMultiple != 0) {
    return message("page_size is ", p.page_size, "; it must be a multiple of ", kPageMultiple,
                   ", or 0 for no pages");
  }
  const std::pair<const char*, int> counts[] = {{"num_pages", p.num_pages},
                                                {"pages_per_seq", p.pages_per_seq}};
  for (const auto& [name, count] : counts) {
    if (p.page_size != 0 && count < 1) {
      return message(name, " is ", count, "; with pages it must be at least 1");
    }
    if (p.page_size == 0 && count != 0) {
      return message(name, " is ", count, ", but page_size is 0: there are no pages");
    }
  }
  return {};
}

// INVALID_DIMENSION, arrays that exclude each other.
std::string bad_arrays(const Arguments& args) {
  if (args.block_table != nullptr && args.problem.page_size == 0) {
    return "block_table is given, but page_size is 0: there are no pages";
  }
  if (args.problem.page_size != 0 && args.kv_batch != nullptr) {
    return "kv_batch is given, and so are pages; block_table alone says where a sequence's keys "
           "are";
  }
  return {};
}

// INVALID_DIMENSION, strides: none is negative, and no two elements of an output share an address.
// From the smallest stride to the largest, each must step over all elements of those before it.
std::string bad_strides(const Problem& p, const Operand& operand) {
  std::array<Dim, 3> list = dims(operand);
  for (const Dim& dim : list) {
    if (dim.stride < 0) {
      return message(operand.name, "'s ", dim.stride_name, " is ", dim.stride,
                     " elements; it must not be negative");
    }
  }
  if (operand.role == Operand::Role::kInput) return {};
  // Two equal strides overlap. The shorter extent comes first, as it delays an overflow of 64 bits.
  std::sort(list.begin(), list.end(), [](const Dim& a, const Dim& b) {
    return std::pair(a.stride, a.extent) < std::pair(b.stride, b.extent);
  });
  std::int64_t last = p.head_dim - 1;  // the furthest element so far
  for (const Dim& dim : list) {
    if (dim.extent == 1) continue;
    if (dim.stride <= last) {
      return message(operand.name, "'s ", dim.stride_name, " is ", dim.stride,
                     " elements; it must be at least ", last + 1,
                     ", or the output overlaps itself");
    }
    // The number of elements exceeds 63 bits, which SIZE_OVERFLOW reports.
    if (!extend(last, dim) || last == std::numeric_limits<std::int64_t>::max()) return {};
  }
  return {};
}

// INVALID_DIMENSION.
std::string invalid_dimension(const Arguments& args) {
  std::string fault = bad_size(args.problem);
  if (fault.empty()) fault = bad_window(args.problem);
  if (fault.empty()) fault = bad_parts(args.problem);
  if (fault.empty()) fault = bad_pages(args.problem);
  if (fault.empty()) fault = bad_arrays(args);
  for (const Operand& operand : args.operands) {
    if (fault.empty() && !operand.absent()) fault = bad_strides(args.problem, operand);
  }
  return fault;
}

// DIMENSION_MISMATCH.
std::string dimension_mismatch(const Arguments& args) {
  const Problem& p = args.problem;
  if (p.heads_q % p.heads_kv == 0) return {};
  return message("heads_q is ", p.heads_q, ", not a multiple of heads_kv, which is ", p.heads_kv);
}

// UNSUPPORTED_DTYPE.
std::string unsupported_dtype(const Arguments& args) {
  const DType dtype = args.problem.dtype;
  if (find_dtype(dtype) != nullptr) return {};
  std::string known;
  for (const DTypeFacts& facts : kDTypeFacts) {
    known +=
        message(known.empty() ? "" : ", ", facts.name, " (", static_cast<int>(facts.dtype), ")");
  }
  return message("dtype is ", static_cast<int>(dtype), "; it must be one of ", known);
}

// UNSUPPORTED_HEAD_DIM.
std::string unsupported_head_dim(const Arguments& args) {
  const int head_dim = args.problem.head_dim;
  const auto end = std::end(kHeadDims);
  if (std::find(std::begin(kHeadDims), end, head_dim) != end) return {};
  std::vector<std::string> known;
  for (const int one : kHeadDims) known.push_back(std::to_string(one));
  return message("head_dim is ", head_dim, "; it must be ", listed(known, "or"));
}

// The shortest decimal number that reads as this float.
std::string shortest(float number) {
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), number);
  return {text, end};
}

// INVALID_SCALE.
std::string invalid_scale(const Arguments& args) {
  const float scale = args.problem.softmax_scale;
  if (std::isfinite(scale) && scale > 0.f) return {};
  return message("softmax_scale is ", shortest(scale), "; it must be finite and positive");
}

// NULL_POINTER.
std::string null_pointer(const Arguments& args) {
  for (const Operand& operand : args.operands) {
    if (operand.absent() && operand.role != Operand::Role::kOptionalOutput) {
      return message(operand.name, " is null");
    }
  }
  if (args.table_required && args.block_table == nullptr) return "block_table is null";
  return args.lse_required && args.lse == nullptr ? "LSE is null" : std::string();
}

// MISALIGNED, one address.
std::string bad_address(const char* name, const void* address, std::uintptr_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment == 0) return {};
  return message(name, " is at address ", address, ", not a multiple of ", alignment, " bytes");
}

// MISALIGNED, one tensor.
std::string bad_alignment(const Problem& p, const Operand& operand) {
  const std::int64_t multiple = kAlignment / static_cast<std::int64_t>(element_bytes(p.dtype));
  for (const Dim& dim : dims(operand)) {
    if (dim.stride % multiple != 0) {
      return message(operand.name, "'s ", dim.stride_name, " is ", dim.stride,
                     " elements, not a multiple of ", multiple, " (", kAlignment, " bytes)");
    }
  }
  return bad_address(operand.name, operand.tensor->data, kAlignment);
}

// MISALIGNED.
std::string misaligned(const Arguments& args) {
  std::string fault;
  for (const Operand& operand : args.operands) {
    if (fault.empty() && !operand.absent()) fault = bad_alignment(args.problem, operand);
  }
  if (fault.empty()) fault = bad_address("LSE", args.lse, alignof(float));
  if (fault.empty()) fault = bad_address("the workspace", args.workspace, kWorkspaceAlignment);
  const std::pair<const char*, const std::int32_t*> arrays[] = {{"seqused_k", args.seqused_k},
                                                                {"k_begin", args.k_begin},
                                                                {"kv_batch", args.kv_batch},
                                                                {"block_table", args.block_table}};
  for (const auto& [name, array] : arrays) {
    if (fault.empty()) fault = bad_address(name, array, alignof(std::int32_t));
  }
  return fault;
}

// SIZE_OVERFLOW, the counts that grids and workspaces depend on. Each stage also checks its grids.
std::string too_many(const char* what, std::initializer_list<int> factors, std::int64_t limit) {
  std::int64_t count = 1;
  for (const int factor : factors) {
    if (__builtin_mul_overflow(count, std::int64_t{factor}, &count) || count >= limit) {
      return message("the problem has too many ", what, ": it must have fewer than ", limit);
    }
  }
  return {};
}

// SIZE_OVERFLOW, one tensor: its size in bytes fits 63 bits, and its last byte has an address.
std::string too_large(const Problem& p, const Operand& operand) {
  std::int64_t end = p.head_dim - 1;
  bool fits = true;
  for (const Dim& dim : dims(operand)) fits = fits && extend(end, dim);
  const auto element = static_cast<std::int64_t>(element_bytes(p.dtype));
  auto address = reinterpret_cast<std::uintptr_t>(operand.tensor->data);
  fits = fits && !__builtin_add_overflow(end, std::int64_t{1}, &end) &&
         !__builtin_mul_overflow(end, element, &end) &&
         !__builtin_add_overflow(address, end, &address);
  return fits ? std::string() : message(operand.name, " ends beyond the largest 64-bit address");
}

// SIZE_OVERFLOW.
std::string size_overflow(const Arguments& args) {
  const Problem& p = args.problem;
  std::string fault = too_many("queries per head", {p.seq_q}, kMaxSeq);
  if (fault.empty()) fault = too_many("keys per head", {p.seq_kv}, kMaxSeq);
  if (fault.empty()) fault = too_many("query rows", {p.batch, p.heads_q, p.seq_q}, kMaxRows);
  if (fault.empty()) fault = too_many("key rows", {p.batch, p.heads_kv, p.seq_kv}, kMaxRows);
  if (fault.empty()) {
    fault = too_many("parts of query rows",
                     {p.batch, p.heads_q, p.seq_q, std::max(p.num_splits, 1)}, kMaxParts);
  }
  if (fault.empty()) {
    fault = too_many("scores", {p.batch, p.heads_q, p.seq_q, p.seq_kv}, kMaxScores);
  }
  for (const Operand& operand : args.operands) {
    if (fault.empty() && !operand.absent()) fault = too_large(p, operand);
  }
  return fault;
}

// The first fault, in the order that FlashAttentionError states.
Support check(const Arguments& args) {
  using Error = FlashAttentionError;
  constexpr std::pair<Error, std::string (*)(const Arguments&)> kChecks[] = {
      {Error::INVALID_DIMENSION, invalid_dimension},
      {Error::DIMENSION_MISMATCH, dimension_mismatch},
      {Error::UNSUPPORTED_DTYPE, unsupported_dtype},
      {Error::UNSUPPORTED_HEAD_DIM, unsupported_head_dim},
      {Error::INVALID_SCALE, invalid_scale},
      {Error::NULL_POINTER, null_pointer},
      {Error::MISALIGNED, misaligned},
      {Error::SIZE_OVERFLOW, size_overflow},
  };
  for (const auto& [error, fault_in] : kChecks) {
    std::string fault = fault_in(args);
    if (!fault.empty()) return {error, std::move(fault)};
  }
  return {};
}

}  // namespace

Support validate(const Problem& problem) { return check({problem, {}}); }

Support validate(const Problem& p, const Forward& args) {
  using Role = Operand::Role;
  const KvExtents kv = kv_extents(p, args);
  return check({p,
                {{"Q", &args.q, p.batch, p.heads_q, p.seq_q, Role::kInput},
                 {"K", &args.k, kv.batches, p.heads_kv, kv.seq, Role::kInput},
                 {"V", &args.v, kv.batches, p.heads_kv, kv.seq, Role::kInput},
                 {"O", &args.o, p.batch, p.heads_q, p.seq_q, Role::kOutput}},
                args.lse,
                false,
                args.workspace,
                args.seqused_k,
                args.k_begin,
                args.kv_batch,
                args.block_table,
                p.page_size != 0});
}

Support validate(const Problem& p, const Backward& args) {
  using Role = Operand::Role;
  return check({p,
                {{"Q", &args.q, p.batch, p.heads_q, p.seq_q, Role::kInput},
                 {"K", &args.k, p.batch, p.heads_kv, p.seq_kv, Role::kInput},
                 {"V", &args.v, p.batch, p.heads_kv, p.seq_kv, Role::kInput},
                 {"O", &args.o, p.batch, p.heads_q, p.seq_q, Role::kInput},
                 {"dO", &args.d_o, p.batch, p.heads_q, p.seq_q, Role::kInput},
                 {"dQ", &args.dq, p.batch, p.heads_q, p.seq_q, Role::kOptionalOutput},
                 {"dK", &args.dk, p.batch, p.heads_kv, p.seq_kv, Role::kOptionalOutput},
                 {"dV", &args.dv, p.batch, p.heads_kv, p.seq_kv, Role::kOptionalOutput}},
                args.lse,
                true,
                args.workspace});
}

}  // namespace cuflash
