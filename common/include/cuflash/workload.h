/// @file workload.h
/// A problem as tests and benchmarks describe it: its name, its operations, its bytes. Not part of
/// the installed library.
#ifndef CUFLASH_WORKLOAD_H_
#define CUFLASH_WORKLOAD_H_

#include <string>
#include <string_view>

#include "cuflash/problem.h"

namespace cuflash {

/// The name of an element type: "f16".
const char* dtype_name(DType dtype);

/// "forward" or "backward".
const char* pass_name(Pass pass);

/// True if one side of the mask is bounded by a window, whether or not that hides a key.
constexpr bool has_window(const Problem& problem) {
  return problem.window_left >= 0 || problem.window_right >= 0;
}

/// The name of a problem in test ids, benchmark ids and logs:
/// `b2_h4x1_q77k131_d64_f16_causal_left16` (batch, query heads x KV heads, lengths, head_dim,
/// dtype, mask). The mask is `_causal`, `_left16` and `_right3`, in this order; a part that does
/// not apply is omitted, and so is an unlimited side of the window. `h4` stands for `h4x4`. When a
/// name is read, `q77` stands for `q77k77`. `_split512` and `_parts4` at the end are split_keys and
/// num_splits, if they are not 0, and `_page16` stands for in_pages(). The scale is not part of the
/// name.
std::string problem_name(const Problem& problem);

/// The problem with K and V in pages of so many rows: each sequence has the pages that seq_kv keys
/// need, and three pages belong to no sequence. 0 stands for no pages.
Problem in_pages(const Problem& problem, int page_size);

/// Parses a name from problem_name(); the dtype and each part after it may be omitted (they keep
/// the values of `problem`). Sets softmax_scale to default_scale(head_dim). Returns false, and
/// leaves `problem` unchanged, if the text is not a problem's name.
bool parse_problem(std::string_view text, Problem& problem);

/// Parses a name from dtype_name(); returns false for anything else.
bool parse_dtype(std::string_view text, DType& dtype);

/// Floating-point operations by the field's convention: forward 4·B·Hq·Sq·Skv·D, halved when
/// causal; backward 2.5 times that (FlashAttention-2, section 4.1). With a window, Sq·Skv is
/// replaced by the number of pairs (query, key) that the mask lets through, and nothing is halved.
double attention_flops(Pass pass, const Problem& problem);

/// Bytes that must move at least once: every input read once, every output written once, LSE
/// included ("compulsory" traffic). The mask is ignored, although a window may leave keys that no
/// query sees.
double compulsory_bytes(Pass pass, const Problem& problem);

}  // namespace cuflash

#endif  // CUFLASH_WORKLOAD_H_
