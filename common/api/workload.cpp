// Problems: their names, and what they cost.
#include "cuflash/workload.h"

#include <charconv>

namespace cuflash {
namespace {

constexpr DType kDTypes[] = {CUFLASH_F32, CUFLASH_F16, CUFLASH_BF16};

// Takes `prefix` off the front of `text`; false, and nothing taken, where it does not stand there.
bool take(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes `prefix` and a number ≥ 1, without sign or leading zeros, off the front of `text`.
bool take_size(std::string_view& text, std::string_view prefix, int& size) {
  if (!take(text, prefix) || text.empty() || text[0] < '1' || text[0] > '9') return false;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return error == std::errc();
}

// As take_size(); where the prefix is missing, the size is `same`: h4 stands for h4x4.
bool take_size_or(std::string_view& text, std::string_view prefix, int same, int& size) {
  size = same;
  return text.substr(0, prefix.size()) != prefix || take_size(text, prefix, size);
}

// Takes "_f16" and its like off the front of `text`; leaves both alone where there is none.
void take_dtype(std::string_view& text, DType& dtype) {
  for (const DType candidate : kDTypes) {
    if (take(text, std::string("_") + dtype_name(candidate))) {
      dtype = candidate;
      return;
    }
  }
}

}  // namespace

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case CUFLASH_F32:
      return "f32";
    case CUFLASH_F16:
      return "f16";
    case CUFLASH_BF16:
      return "bf16";
  }
  return "unknown";
}

const char* pass_name(Pass pass) { return pass == CUFLASH_FORWARD ? "forward" : "backward"; }

std::string problem_name(const Problem& p) {
  std::string name = "b" + std::to_string(p.batch) + "_h" + std::to_string(p.heads_q);
  if (p.heads_kv != p.heads_q) name += "x" + std::to_string(p.heads_kv);
  name += "_q" + std::to_string(p.seq_q) + "k" + std::to_string(p.seq_kv);
  name += "_d" + std::to_string(p.head_dim) + "_" + dtype_name(p.dtype);
  return p.causal ? name + "_causal" : name;
}

bool parse_problem(std::string_view text, Problem& problem) {
  Problem p = problem;
  const bool sizes = take_size(text, "b", p.batch) && take_size(text, "_h", p.heads_q) &&
                     take_size_or(text, "x", p.heads_q, p.heads_kv) &&
                     take_size(text, "_q", p.seq_q) && take_size_or(text, "k", p.seq_q, p.seq_kv) &&
                     take_size(text, "_d", p.head_dim);
  if (!sizes) return false;
  take_dtype(text, p.dtype);
  if (take(text, "_causal")) p.causal = true;
  if (!text.empty()) return false;
  p.softmax_scale = default_scale(p.head_dim);
  problem = p;
  return true;
}

bool parse_dtype(std::string_view text, DType& dtype) {
  for (const DType candidate : kDTypes) {
    if (text == dtype_name(candidate)) {
      dtype = candidate;
      return true;
    }
  }
  return false;
}

double attention_flops(Pass pass, const Problem& p) {
  const double scores = double(p.batch) * p.heads_q * p.seq_q * p.seq_kv;
  const double forward = 4 * scores * p.head_dim * (p.causal ? 0.5 : 1.0);
  return pass == CUFLASH_FORWARD ? forward : 2.5 * forward;
}

double compulsory_bytes(Pass pass, const Problem& p) {
  const double rows = double(p.batch) * p.heads_q * p.seq_q;  // of Q, O, dO, dQ and LSE
  const double kv_rows = double(p.batch) * p.heads_kv * p.seq_kv;
  const double row_bytes = double(p.head_dim) * element_bytes(p.dtype);
  const double tensors = (rows + kv_rows) * row_bytes * (pass == CUFLASH_FORWARD ? 2 : 4);
  return tensors + rows * sizeof(float);
}

}  // namespace cuflash
