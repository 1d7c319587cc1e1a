#include "timeline/report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cuflash::bench {
namespace {

using timeline::Kind;

constexpr int kWarpgroupWarps = 4;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kBlock:
      return "block";
    case Kind::kRegisters:
      return "registers";
    case Kind::kTile:
      return "tile";
    case Kind::kLastTile:
      return "last_tile";
    case Kind::kRequest:
      return "request";
    case Kind::kWait:
      return "wait";
    case Kind::kNamedBarrier:
      return "named_barrier";
    case Kind::kFence:
      return "fence";
    case Kind::kCommit:
      return "commit";
    case Kind::kProducts:
      return "products";
  }
  throw std::runtime_error("An event has no kind.");
}

// A tile's number may be negative.
std::string text_of(const Span& s, std::int64_t origin) {
  return fmt::format("{} {} {} {} {}", s.line, name_of(s.kind), s.begin - origin, s.end - origin,
                     static_cast<int>(s.data));
}

nlohmann::ordered_json json_of(const RecordedBlock& block, std::int64_t origin) {
  auto warpgroups = nlohmann::ordered_json::array();
  for (const auto& [warp, spans] : block.warps) {
    if (warp % kWarpgroupWarps != 0) continue;
    auto events = nlohmann::ordered_json::array();
    for (const Span& span : spans) events.push_back(text_of(span, origin));
    warpgroups.push_back({{"warpgroup", warp / kWarpgroupWarps}, {"events", std::move(events)}});
  }
  return {{"block", block.number},
          {"begin", block.begin - origin},
          {"end", block.end - origin},
          {"warpgroups", std::move(warpgroups)}};
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
                              unsigned globaltimer_step, const std::vector<Timeline>& timelines) {
  nlohmann::ordered_json json = {{"provenance", to_json(provenance)},
                                 {"stage", stage},
                                 {"globaltimer_step_ns", globaltimer_step}};
  auto& all = json["timelines"] = nlohmann::ordered_json::array();
  for (const Timeline& recorded : timelines) all.push_back(json_of(recorded));
  return json;
}

}  // namespace cuflash::bench
