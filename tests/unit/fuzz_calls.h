// Random calls of the C interface: a valid call with its memory, and the faults put into it.
#ifndef CUFLASH_TESTS_UNIT_FUZZ_CALLS_H_
#define CUFLASH_TESTS_UNIT_FUZZ_CALLS_H_

#include <cstring>
#include <deque>
#include <random>

#include "fuzz_model.h"
#include "guarded_memory.h"

namespace cuflash::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::uint64_t bits() { return bits_(); }
  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  int between(int first, int last) { return first + int(below(std::uint64_t(last - first + 1))); }
  bool one_in(int n) { return below(std::uint64_t(n)) == 0; }
  template <class List>
  auto pick(const List& list) {
    return *(std::begin(list) + std::ptrdiff_t(below(std::size(list))));
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }
  Flush flush() { return one_in(4) ? Flush::kStart : Flush::kEnd; }

 private:
  std::mt19937_64 bits_;
};

// ---- A valid call ------------------------------------------------------------------------------

// The stage's full name, its number or its word.
inline std::string some_name_of(const Stage& stage, Random& random) {
  const std::string name = stage.name;
  const std::size_t line = name.find('_');
  return random.pick({name, name, name.substr(0, line), name.substr(line + 1)});
}

// Any layout: [B,H,S,D] or [B,S,H,D], some with gaps, and inputs that repeat rows.
inline cuflash_tensor random_layout(const cuflash_problem& p, const Operand& operand,
                                    Random& random) {
  const int heads = operand.of_queries ? p.heads_q : p.heads_kv;
  const int seq = operand.of_queries ? p.seq_q : p.seq_kv;
  const bool dense = random.one_in(2);
  const auto gap = [&] { return dense ? 0 : 16 / element_size(p) * random.between(0, 3); };
  cuflash_tensor t{};
  if (random.one_in(2)) {
    t.row_stride = p.head_dim + gap();
    t.head_stride = t.row_stride * seq + gap();
    t.batch_stride = t.head_stride * heads + gap();
  } else {
    t.head_stride = p.head_dim + gap();
    t.row_stride = t.head_stride * heads + gap();
    t.batch_stride = t.row_stride * seq + gap();
  }
  std::int64_t* const strides[] = {&t.batch_stride, &t.head_stride, &t.row_stride};
  if (operand.role == Role::kInput && random.one_in(8)) *random.pick(strides) = 0;
  // The stride of an extent of 1 is never used: it may have any value.
  const int extents[] = {p.batch, heads, seq};
  for (int n = 0; n < 3; ++n) {
    if (extents[n] == 1 && random.one_in(3)) *strides[n] = std::int64_t(random.bits());
  }
  return t;
}

inline FuzzCall random_call(Random& random) {
  FuzzCall call;
  call.entry =
      random.pick({Entry::kSimple, Entry::kSimple, Entry::kFull, Entry::kFull, Entry::kFull,
                   Entry::kCheckSupport, Entry::kChosenStage, Entry::kWorkspaceBytes});
  call.pass = random.between(CUFLASH_FORWARD, CUFLASH_BACKWARD);
  cuflash_problem& p = call.problem;
  p.size = sizeof(cuflash_problem);
  p.batch = random.between(1, 2);
  p.heads_kv = random.between(1, 2);
  p.heads_q = p.heads_kv * random.between(1, 2);
  p.seq_q = random.between(1, 9);
  p.seq_kv = random.between(1, 9);
  p.head_dim = random.pick({32, 64, 96, 128, 256});  // f32 takes no 96 and no 256
  p.dtype = random.pick(kDTypes);
  p.causal = random.pick({0, 1, 1, -1, std::numeric_limits<int>::min()});
  p.softmax_scale = default_scale(p.head_dim);
  for (int* side : {&p.window_left, &p.window_right}) {
    *side = random.pick({-1, -1, 0, 1, random.between(2, 9), std::numeric_limits<int>::max()});
  }
  call.args.size = std::uint32_t(args_bytes(call.pass));
  call.args.deterministic = random.pick({0, 1, -1});
  for (const Operand& operand : operands(call.pass)) {
    call.args.*operand.tensor = random_layout(p, operand, random);
  }
  complete(call);
  if (random.one_in(3)) return call;
  // A stage by name, mostly one that can run the call.
  const Stage* stage = random.pick(stages());
  for (int n = 0; n < 5 && stage_fault(*stage, call.pass, p, {}) != 0; ++n) {
    stage = random.pick(stages());
  }
  (random.one_in(4) ? call.variable : call.stage) = some_name_of(*stage, random);
  complete(call);
  return call;
}

// ---- Its memory --------------------------------------------------------------------------------

// Two bytes that no kernel writes: in each dtype a NaN that no arithmetic produces.
inline constexpr std::uint16_t kUnwritten = 0xFFFE;

inline Bytes unwritten(std::size_t bytes) {
  std::vector<std::uint16_t> words(bytes / 2, kUnwritten);
  Bytes content(bytes);
  std::memcpy(content.data(), words.data(), bytes);
  return content;
}

// Finite numbers below 1 in the given dtype: a random sign and mantissa, and a small exponent.
inline Bytes random_numbers(std::size_t bytes, int dtype, Random& random) {
  Bytes content(bytes);
  const bool f16 = dtype == CUFLASH_F16;
  const std::uint16_t exponent = f16 ? 0x2C00 : 0x3E80;
  const std::uint16_t mantissa = f16 ? 0x83FF : 0x807F;
  for (std::size_t n = 0; n + 8 <= bytes; n += 8) {
    const std::uint64_t bits = random.bits();
    std::uint16_t words[4];
    std::memcpy(words, &bits, 8);
    // The upper half of an f32 is a bf16; its lower half may be anything.
    for (int w = 0; w < 4; ++w) {
      if (dtype != CUFLASH_F32 || w % 2 == 1) words[w] = (words[w] & mantissa) | exponent;
    }
    std::memcpy(content.data() + n, words, 8);
  }
  return content;
}

// One buffer of a call, with its operand's name.
struct Buffer {
  Buffer(std::string operand, Bytes content, std::size_t alignment, Flush flush)
      : name(std::move(operand)), memory(std::move(content), alignment, flush) {}
  std::string name;
  GuardedDevice memory;
};

// The memory of a call; sets the pointers in its args.
class Memory {
 public:
  Memory(FuzzCall& call, Random& random) {
    const cuflash_problem& p = call.problem;
    for (const Operand& operand : operands(call.pass)) {
      if (operand.role == Role::kOptionalOutput && random.one_in(4)) continue;
      cuflash_tensor& t = call.args.*operand.tensor;
      const auto bytes = std::size_t(reach(p, shape(p, operand, t))) * element_size(p);
      t.data = add(
          operand.name,
          operand.role == Role::kInput ? random_numbers(bytes, p.dtype, random) : unwritten(bytes),
          16, random);
    }
    if (call.pass == CUFLASH_BACKWARD || !random.one_in(4)) {
      const std::size_t bytes = std::size_t(p.batch) * p.heads_q * p.seq_q * sizeof(float);
      Bytes numbers = random_numbers((bytes + 7) / 8 * 8, CUFLASH_F32, random);
      numbers.resize(bytes);
      call.args.lse = reinterpret_cast<float*>(
          add("LSE", call.pass == CUFLASH_BACKWARD ? numbers : unwritten(bytes), 4, random));
    }
  }

  // Scratch memory of the size that the library asks for, even if that is 0.
  void add_workspace(FuzzCall& call, std::size_t bytes, Random& random) {
    call.args.workspace = add("workspace", unwritten(bytes), 256, random);
    call.args.workspace_bytes = bytes;
  }

  // True if [address, address + bytes) lies in one buffer.
  bool holds(const void* address, Wide bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    for (const Buffer& b : buffers_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(b.memory.data());
      if (first >= begin && bytes + first <= Wide{begin} + b.memory.before().size()) return true;
    }
    return false;
  }

  const std::deque<Buffer>& buffers() const { return buffers_; }

 private:
  std::byte* add(const char* name, Bytes content, std::size_t alignment, Random& random) {
    buffers_.emplace_back(name, std::move(content), alignment, random.flush());
    return buffers_.back().memory.data();
  }
  std::deque<Buffer> buffers_;  // never moves its elements
};

// ---- Faults ------------------------------------------------------------------------------------

inline constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
inline constexpr int kMin = std::numeric_limits<int>::min();
inline constexpr int kInts[] = {
    0,     1,       2,       3,       5,          8,          -1,         -2,         31,
    48,    64,      96,      128,     160,        192,        256,        512,        65535,
    65536, 1 << 24, 1 << 28, 1 << 30, 0x7fffff00, 0x7ffffeff, 0x7fffffff, -(1 << 30), kMin};
inline constexpr std::int64_t kStrides[] = {0,
                                            1,
                                            4,
                                            -1,
                                            -16,
                                            33,
                                            64,
                                            128,
                                            std::int64_t{1} << 31,
                                            std::int64_t{1} << 32,
                                            std::int64_t{1} << 59,
                                            std::int64_t{1} << 61,
                                            std::int64_t{1} << 62,
                                            kMax64,
                                            kMax64 - 15,
                                            ~kMax64};

inline void change_size(FuzzCall& call, Random& random) {
  cuflash_problem& p = call.problem;
  *random.pick({&p.batch, &p.heads_q, &p.heads_kv, &p.seq_q, &p.seq_kv, &p.head_dim}) =
      random.pick(kInts);
}

inline cuflash_tensor& some_tensor(FuzzCall& call, Random& random) {
  return call.args.*random.pick(operands(call.pass)).tensor;
}

inline void change_stride(FuzzCall& call, Random& random) {
  cuflash_tensor& t = some_tensor(call, random);
  *random.pick({&t.batch_stride, &t.head_stride, &t.row_stride}) =
      random.one_in(3) ? 8 * random.between(0, 200) : random.pick(kStrides);
}

// Changes two strides of one tensor: both equal, or both large.
inline void change_two_strides(FuzzCall& call, Random& random) {
  cuflash_tensor& t = some_tensor(call, random);
  const std::int64_t stride = random.pick(kStrides);
  random.pick({&t.row_stride, &t.head_stride})[0] = stride;
  t.batch_stride = random.one_in(2) ? stride : random.pick(kStrides);
}

template <class T>
void shift(T*& pointer, std::uintptr_t bytes) {
  pointer = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

inline void change_pointer(FuzzCall& call, Random& random) {
  void*& data = some_tensor(call, random).data;
  switch (random.below(8)) {
    case 0:
      call.args.lse = nullptr;
      break;
    case 1:
      shift(call.args.lse, random.pick({1u, 2u, 3u}));
      break;
    case 2:
      shift(call.args.workspace, random.pick({1u, 16u, 128u}));
      break;
    case 3:
      data = reinterpret_cast<void*>(
          random.pick({~std::uintptr_t{15}, ~std::uintptr_t{0xffff}, std::uintptr_t{1} << 63}));
      break;
    case 4:
      data = nullptr;
      break;
    case 5:
      call.args.workspace_bytes /= 2;
      break;
    default:
      shift(data, std::uintptr_t(random.between(1, 15)));
  }
}

inline void change_dtype(FuzzCall& call, Random& random) {
  if (call.entry == Entry::kSimple) return;  // there the function's name says it
  call.problem.dtype =
      cuflash_dtype(random.pick({-1, int(kDTypes.size()), 31, 32, 33, 64, 0x7fffffff, kMin}));
}

inline void change_window(FuzzCall& call, Random& random) {
  cuflash_problem& p = call.problem;
  *random.pick({&p.window_left, &p.window_right}) = random.pick(kInts);
}

inline void change_scale(FuzzCall& call, Random& random) {
  using Limits = std::numeric_limits<float>;
  call.problem.softmax_scale =
      random.pick({0.f, -0.f, -1.f, Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                   Limits::denorm_min(), -Limits::denorm_min(), Limits::max()});
}

// Changes the size of a struct, and adds the bytes after it unless the size is out of range.
inline void change_struct(std::uint32_t& size, std::vector<std::byte>& after, std::uint32_t known,
                          Random& random) {
  size = random.pick({0u, 3u, 4u, known - 8, known - 8, known - 4, known - 1, known + 1, known + 4,
                      known + 8, known + 8, 4096u, 4097u, 0x80000000u, 0xffffffffu});
  after.assign(size > known && size <= 4096 ? size - known : 0, std::byte{});
  if (!after.empty() && random.one_in(2)) after[random.below(after.size())] = std::byte{1};
}

inline void change_structs(FuzzCall& call, Random& random) {
  switch (random.below(4)) {
    case 0:
      call.null_problem = true;
      break;
    case 1:
      call.null_args = true;
      break;
    case 2:
      change_struct(call.problem.size, call.after_problem, sizeof(cuflash_problem), random);
      break;
    default:
      change_struct(call.args.size, call.after_args, std::uint32_t(args_bytes(call.pass)), random);
  }
}

inline std::string no_stage(Random& random) {
  const std::string name = random.pick(stages())->name;
  return random.pick({std::string(), std::string("_"), std::string("0"), std::string("%s%n"),
                      std::string("\xff\xfe\x80"), std::string(100000, 'a'), name + "\n",
                      name.substr(0, 3), name + name});
}

inline void change_stage(FuzzCall& call, Random& random) {
  const std::string name =
      random.one_in(3) ? some_name_of(*random.pick(stages()), random) : no_stage(random);
  (random.one_in(4) ? call.variable : call.stage) = name;
}

inline void change_machine(FuzzCall& call, Random& random) {
  if (random.one_in(2)) {
    call.earlier_error = true;
  } else if (simt::kSimulated) {
    call.no_memory = true;
    call.args.workspace = nullptr;
  }
}

inline void change_pass(FuzzCall& call, Random& random) {
  if (is_question(call.entry)) call.pass = random.pick({-1, 2, 256, 0x7fffffff, kMin});
}

inline void make_wrong(FuzzCall& call, Random& random) {
  using Change = void (*)(FuzzCall&, Random&);
  constexpr Change kChanges[] = {change_size,    change_size,    change_stride,  change_stride,
                                 change_pointer, change_pointer, change_scale,   change_dtype,
                                 change_structs, change_stage,   change_machine, change_two_strides,
                                 change_structs, change_pass,    change_window};
  random.pick(kChanges)(call, random);
  complete(call);
}

// ---- What the library cannot check -------------------------------------------------------------

// True if an accepted call would access memory outside its buffers, or run for minutes. The library
// does not know the sizes of buffers, so such a call must not be made.
inline bool goes_too_far(const FuzzCall& call, const Memory& memory, std::size_t workspace) {
  if (is_question(call.entry)) return false;
  const cuflash_problem& p = call.problem;
  const Wide rows = Wide{p.batch} * p.heads_q * p.seq_q;
  if (rows * p.seq_kv > 4096 || Wide{p.batch} * p.heads_kv * p.seq_kv > 4096) return true;
  for (const Operand& operand : operands(call.pass)) {
    const cuflash_tensor& t = call.args.*operand.tensor;
    if (t.data == nullptr) continue;
    const Wide bytes = reach(p, shape(p, operand, t)) * element_size(p);
    if (!memory.holds(t.data, bytes)) return true;
  }
  const void* lse = call.args.lse;
  const void* scratch = call.args.workspace;
  return (lse != nullptr && !memory.holds(lse, rows * Wide{sizeof(float)})) ||
         (scratch != nullptr && !memory.holds(scratch, workspace));
}

// Changes the call so that it is refused, by the first check after the sizes or by the last.
inline void keep_from_running(FuzzCall& call, Random& random) {
  if (call.entry != Entry::kSimple && random.one_in(2)) {
    call.stage = "no such stage";
  } else {
    call.problem.softmax_scale = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace cuflash::fuzz

#endif  // CUFLASH_TESTS_UNIT_FUZZ_CALLS_H_
