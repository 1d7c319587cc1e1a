#include "ladder/stage_list.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cuflash/problem.h"
#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "json_file.h"
#include "measure.h"
#include "table.h"

namespace cuflash::bench {
namespace {

std::vector<std::string> dtypes_of(const PassFacts& facts) {
  std::vector<std::string> names;
  for (const DType dtype : kDTypes) {
    if (facts.dtypes.has(dtype)) names.push_back(dtype_name(dtype));
  }
  return names;
}

std::vector<int> head_dims_of(const PassFacts& facts) {
  std::vector<int> head_dims;
  for (const int head_dim : kHeadDims) {
    if (facts.head_dims.has(head_dim)) head_dims.push_back(head_dim);
  }
  return head_dims;
}

std::string arch_of(const PassFacts& facts) {
  return fmt::format("sm_{}{}", facts.arch.compute_capability, facts.arch.exact ? "a" : "+");
}

// Bytes beyond a call's tensors, by length, with 16,384 tokens, 32 heads and head_dim 64 in f16.
nlohmann::ordered_json extra_bytes_of(const Stage& stage, Pass pass) {
  nlohmann::ordered_json bytes;
  for (int seq = 512; seq <= 16384; seq *= 2) {
    const Problem problem = {16384 / seq,      32, 32, seq, seq, 64, CUFLASH_F16, false,
                             default_scale(64)};
    bytes[std::to_string(seq)] = extra_bytes(stage, pass, problem);
  }
  return bytes;
}

// Calls f(stage, pass, true if it is the stage's first pass) for each pass of each stage.
template <class F>
void for_each_pass(F&& f) {
  for (const Stage* stage : stages()) {
    bool first = true;
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      if (stage->has(pass)) f(*stage, pass, std::exchange(first, false));
    }
  }
}

void print_table() {
  Table table({{"stage", false},
               {"adds", false, 52, 16},
               {"what limits it now", false, 30, 24, 4},
               {"pass", false},
               {"dtypes", false, 0, 0, 1},
               {"for", false, 0, 0, 2},
               {"keeps", false, 0, 0, 3}});
  for_each_pass([&](const Stage& stage, Pass pass, bool first) {
    const PassFacts& facts = stage.facts(pass);
    std::string dtypes;
    for (const std::string& name : dtypes_of(facts)) dtypes += (dtypes.empty() ? "" : " ") + name;
    table.add({first ? stage.name : "", first ? stage.teaches : "", first ? stage.limiter : "",
               pass_name(pass), dtypes, arch_of(facts), facts.keeps_scores ? "S" : ""});
  });
  fmt::print("{}", table.text());
}

void write_facts(const std::string& path) {
  auto json = nlohmann::ordered_json::array();
  for_each_pass([&](const Stage& stage, Pass pass, bool) {
    const PassFacts& facts = stage.facts(pass);
    json.push_back({{"stage", stage.name},
                    {"limiter", stage.limiter},
                    {"pass", pass_name(pass)},
                    {"dtypes", dtypes_of(facts)},
                    {"head_dims", head_dims_of(facts)},
                    {"arch", arch_of(facts)},
                    {"keeps_scores", facts.keeps_scores},
                    {"any_order", facts.any_order},
                    {"deterministic", facts.features.has(Feature::kDeterministic)},
                    {"follows", facts.follows},
                    {"repeats", facts.repeats},
                    {"extra_bytes", extra_bytes_of(stage, pass)}});
  });
  write_json(path, json);
}

}  // namespace

void list_stages(const std::string& json) {
  if (json.empty()) {
    print_table();
  } else {
    write_facts(json);
  }
}

}  // namespace cuflash::bench
