// The names of problems, their operations and their bytes.
#include "cuflash/workload.h"

#include <algorithm>
#include <charconv>

namespace cuflash {
namespace {

// Takes `prefix` off the front of `text`. Returns false, and takes nothing, if it is not there.
bool take(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes a number without sign or leading zeros off the front of `text`.
bool take_number(std::string_view& text, int& number) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<std::size_t>(rest - text.data());
  const bool leading_zero = text[0] == '0' && digits > 1;
  text.remove_prefix(digits);
  return error == std::errc() && !leading_zero;
}

// Takes `prefix` and a number ≥ 1 off the front of `text`.
bool take_size(std::string_view& text, std::string_view prefix, int& size) {
  return take(text, prefix) && take_number(text, size) && size >= 1;
}

// Like take_size(), but if the prefix is missing, the size is `same`: h4 stands for h4x4.
bool take_size_or(std::string_view& text, std::string_view prefix, int same, int& size) {
  size = same;
  return text.substr(0, prefix.size()) != prefix || take_size(text, prefix, size);
}

// Takes `prefix` and a number ≥ 0 off the front of `text`; if the prefix is missing, `width` is
// unchanged.
bool take_width(std::string_view& text, std::string_view prefix, int& width) {
  return !take(text, prefix) || take_number(text, width);
}

// Takes `prefix` and a number ≥ 1 off the front of `text`; if the prefix is missing, `count` is
// unchanged.
bool take_count(std::string_view& text, std::string_view prefix, int& count) {
  return text.substr(0, prefix.size()) != prefix || take_size(text, prefix, count);
}

// Takes a dtype such as "_f16" off the front of `text`; leaves both unchanged if there is none.
void take_dtype(std::string_view& text, DType& dtype) {
  for (const DType candidate : kDTypes) {
    if (take(text, std::string("_") + dtype_name(candidate))) {
      dtype = candidate;
      return;
    }
  }
}

// Σ over i < rows of i + offset, each term clamped to [0, most].
std::int64_t sum_of_clamped(std::int64_t offset, std::int64_t rows, std::int64_t most) {
  const std::int64_t begin = std::clamp<std::int64_t>(-offset, 0, rows);      // above 0 from here
  const std::int64_t end = std::clamp<std::int64_t>(most - offset, 0, rows);  // `most` from here
  const std::int64_t ramp = (end - begin) * (begin + end - 1 + 2 * offset) / 2;
  return ramp + (rows - end) * most;
}

// The visible (query, key) pairs of one head. Query i sees the keys from i + seq_kv − seq_q − left
// up to, but not including, i + seq_kv − seq_q + right + 1.
double visible_pairs(const Problem& p) {
  const std::int64_t rows = p.seq_q, keys = p.seq_kv, offset = keys - rows;
  const int right = p.causal ? 0 : p.window_right;
  const std::int64_t ends =
      right < 0 ? rows * keys : sum_of_clamped(offset + right + 1, rows, keys);
  const std::int64_t begins =
      p.window_left < 0 ? 0 : sum_of_clamped(offset - p.window_left, rows, keys);
  return static_cast<double>(ends - begins);
}

}  // namespace

const char* dtype_name(DType dtype) {
  const DTypeFacts* const facts = find_dtype(dtype);
  return facts != nullptr ? facts->name : "unknown";
}

const char* pass_name(Pass pass) { return pass == CUFLASH_FORWARD ? "forward" : "backward"; }

std::string problem_name(const Problem& p) {
  std::string name = "b" + std::to_string(p.batch) + "_h" + std::to_string(p.heads_q);
  if (p.heads_kv != p.heads_q) name += "x" + std::to_string(p.heads_kv);
  name += "_q" + std::to_string(p.seq_q) + "k" + std::to_string(p.seq_kv);
  name += "_d" + std::to_string(p.head_dim) + "_" + dtype_name(p.dtype);
  if (p.causal) name += "_causal";
  if (p.window_left >= 0) name += "_left" + std::to_string(p.window_left);
  if (p.window_right >= 0) name += "_right" + std::to_string(p.window_right);
  if (p.split_keys != 0) name += "_split" + std::to_string(p.split_keys);
  if (p.num_splits != 0) name += "_parts" + std::to_string(p.num_splits);
  if (p.page_size != 0) name += "_page" + std::to_string(p.page_size);
  return name;
}

Problem in_pages(const Problem& problem, int page_size) {
  Problem p = problem;
  p.page_size = page_size;
  p.pages_per_seq = page_size == 0 ? 0 : (p.seq_kv - 1) / page_size + 1;
  p.num_pages = page_size == 0 ? 0 : p.batch * p.pages_per_seq + 3;
  return p;
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
  const bool window =
      take_width(text, "_left", p.window_left) && take_width(text, "_right", p.window_right);
  const bool parts =
      take_count(text, "_split", p.split_keys) && take_count(text, "_parts", p.num_splits);
  int page_size = 0;
  if (!window || !parts || !take_count(text, "_page", page_size) || !text.empty()) return false;
  p.softmax_scale = default_scale(p.head_dim);
  problem = in_pages(p, page_size);
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
  const double square = double(p.seq_q) * p.seq_kv * (p.causal ? 0.5 : 1.0);
  const double pairs = has_window(p) ? visible_pairs(p) : square;
  const double forward = 4 * (double(p.batch) * p.heads_q * pairs) * p.head_dim;
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
