#include "timeline/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "cuflash/workload.h"

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
  if (recorded.plain_ms) json["plain_ms"] = *recorded.plain_ms;
  auto& blocks = json["blocks"] = nlohmann::ordered_json::array();
  for (const RecordedBlock& block : recorded.blocks) {
    blocks.push_back(json_of(block, recorded.blocks.front().begin));
  }
  return json;
}

std::string trimmed(const std::string& line) {
  const auto begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

// A line of the kernel and the comment that stands before it.
nlohmann::ordered_json code_of(const std::vector<std::string>& kernel, int line) {
  const auto text = [&](int n) { return trimmed(kernel.at(n - 1)); };
  int title = line;
  while (title > 0 && text(title).rfind("//", 0) != 0) --title;
  return {{"code", text(line)}, {"title", title > 0 ? text(title) : ""}};
}

nlohmann::ordered_json lines_of(const std::vector<std::string>& kernel,
                                const std::vector<Timeline>& timelines) {
  std::set<int> lines;
  for (const Timeline& recorded : timelines) {
    for (const RecordedBlock& block : recorded.blocks) {
      for (const auto& [warp, spans] : block.warps) {
        for (const Span& span : spans) lines.insert(span.line);
      }
    }
  }
  nlohmann::ordered_json json;
  for (const int line : lines) json[std::to_string(line)] = code_of(kernel, line);
  return json;
}

}  // namespace

nlohmann::ordered_json report(const Provenance& provenance, const std::string& stage,
                              unsigned globaltimer_step, const std::vector<std::string>& kernel,
                              const std::vector<Timeline>& timelines) {
  nlohmann::ordered_json json = {{"provenance", to_json(provenance)},
                                 {"stage", stage},
                                 {"globaltimer_step_ns", globaltimer_step},
                                 {"lines", lines_of(kernel, timelines)}};
  auto& all = json["timelines"] = nlohmann::ordered_json::array();
  for (const Timeline& recorded : timelines) all.push_back(json_of(recorded));
  return json;
}

std::optional<double> ladder_ms(const std::vector<std::string>& files, const std::string& stage,
                                Pass pass, const std::string& problem) {
  for (const std::string& file : files) {
    const auto json = nlohmann::json::parse(std::ifstream(file));
    for (const auto& row : json.at("rows")) {
      if (row.contains("ms") && row.at("stage") == stage && row.at("pass") == pass_name(pass) &&
          row.at("problem") == problem) {
        return row.at("ms").get<double>();
      }
    }
  }
  return std::nullopt;
}

}  // namespace cuflash::bench
