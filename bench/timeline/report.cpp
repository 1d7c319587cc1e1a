#include "timeline/report.h"

#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

namespace cuflash::bench {
namespace {

constexpr int kWarpgroupWarps = 4;

// By kind; 0 is none.
constexpr std::array kKindNames = {"",          "block",   "registers", "tile",
                                   "last_tile", "request", "wait",      "named_barrier",
                                   "fence",     "commit",  "products"};

// A tile's number may be negative.
std::string text_of(const Span& s, std::int64_t origin) {
  return fmt::format("{} {} {} {} {}", s.line, kKindNames.at(static_cast<std::size_t>(s.kind)),
                     s.begin - origin, s.end - origin, static_cast<int>(s.data));
}

nlohmann::ordered_json json_of(const RecordedBlock& block, std::int64_t origin) {
  auto warpgroups = nlohmann::ordered_json::array();
  for (const auto& [warp, spans] : block.warps) {
    if (warp % kWarpgroupWarps != 0) continue;
    auto events = nlohmann::ordered_json::array();
    for (const Span& span : spans) events.push_back(text_of(span, origin));
    warpgroups.push_back({{"warpgroup", warp / kWarpgroupWarps}, {"events", std::move(events)}});
  }
  return {{"block", block.number}, {"warpgroups", std::move(warpgroups)}};
}

nlohmann::ordered_json json_of(const Timeline& recorded) {
  nlohmann::ordered_json json = {{"problem", recorded.problem},
                                 {"clock_ghz", recorded.clock_ghz},
                                 {"recorded_ms", recorded.recorded_ms}};
  auto& blocks = json["blocks"] = nlohmann::ordered_json::array();
  for (const RecordedBlock& block : recorded.blocks) {
    blocks.push_back(json_of(block, recorded.blocks.front().begin));
  }
  return json;
}

}  // namespace

nlohmann::ordered_json report(const Provenance& provenance, const std::string& stage,
                              const std::vector<Timeline>& timelines) {
  nlohmann::ordered_json json = {{"provenance", to_json(provenance)}, {"stage", stage}};
  auto& all = json["timelines"] = nlohmann::ordered_json::array();
  for (const Timeline& recorded : timelines) all.push_back(json_of(recorded));
  return json;
}

}  // namespace cuflash::bench
