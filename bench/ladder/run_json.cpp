// A recorded run as JSON. docs/player/README.md describes the format.
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuflash/workload.h"
#include "harness/convert.h"
#include "harness/json_text.h"
#include "harness/stage_check.h"
#include "json_file.h"
#include "ladder/recorded_run.h"

namespace cuflash::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "cuflash-run";
constexpr int kVersion = 1;

// In the order of simt::WarpEvent::Kind.
constexpr const char* kKinds[] = {"load",
                                  "store",
                                  "atomic",
                                  "copy load",
                                  "copy store",
                                  "box copy",
                                  "box store",
                                  "box add",
                                  "shuffle",
                                  "vote",
                                  "product",
                                  "warp sync",
                                  "barrier",
                                  "commit copies",
                                  "commit products",
                                  "commit stores",
                                  "wait for copies",
                                  "wait for products",
                                  "wait for stores",
                                  "arrive",
                                  "wait"};

// The files of the recorded lines, and their texts.
class Files {
 public:
  int number(const std::string& path) {
    const auto [known, added] = numbers_.emplace(path, static_cast<int>(json_.size()));
    if (added) {
      const auto relative = std::filesystem::path(path).lexically_relative(CUFLASH_SOURCE_DIR);
      json_.push_back({{"path", relative.string()}, {"text", text_of_file(path)}});
    }
    return known->second;
  }
  ordered_json json() const { return json_; }

 private:
  std::map<std::string, int> numbers_;
  ordered_json json_ = ordered_json::array();
};

bool is_tensor(const std::string& name) {
  for (const char* one : {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"}) {
    if (name == one) return true;
  }
  return false;
}

// The elements of an array. Elements of a tensor and other elements of 2 bytes have the problem's
// type; the rest are floats. A whole tile as an element of shared memory becomes rows of elements.
struct Elements {
  DType dtype;
  std::vector<int> extents;
};

Elements elements_of(const simt::LoggedArray& array, const Problem& p) {
  if (array.shared) {
    const auto row = static_cast<std::size_t>(p.head_dim) * element_bytes(p.dtype);
    if (array.element_bytes <= 4 || array.element_bytes % row != 0) {
      return {array.element_bytes == 2 ? p.dtype : CUFLASH_F32, array.extents};
    }
    Elements elements = {p.dtype, array.extents};
    elements.extents.push_back(static_cast<int>(array.element_bytes / row));
    elements.extents.push_back(p.head_dim);
    return elements;
  }
  const DType dtype = is_tensor(array.name) ? p.dtype : CUFLASH_F32;
  const auto count = static_cast<int>(array.bytes / element_bytes(dtype));
  if (is_tensor(array.name)) return {dtype, {count / p.head_dim, p.head_dim}};
  // A workspace that holds S.
  if (count == p.batch * p.heads_q * p.seq_q * p.seq_kv) {
    return {dtype, {count / p.seq_kv, p.seq_kv}};
  }
  return {dtype, {count}};
}

ordered_json array_json(const simt::LoggedArray& array, const Problem& p) {
  const Elements elements = elements_of(array, p);
  ordered_json json = {{"name", array.name}, {"shared", array.shared}};
  const bool is_known = !array.shared || array.element_bytes == 2 || array.element_bytes == 4 ||
                        elements.extents.size() > array.extents.size();
  json["element"] =
      is_known ? dtype_name(elements.dtype) : fmt::format("{} bytes", array.element_bytes);
  json["extents"] = elements.extents;
  if (array.shared) json["offset"] = array.offset;
  return json;
}

// Four digits are enough to read.
ordered_json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::stod(fmt::format("{:.4g}", value));
}

ordered_json values_json(const simt::WarpEvent& event, const simt::LoggedArray& array,
                         const Problem& p) {
  const Elements elements = elements_of(array, p);
  const std::size_t size = element_bytes(elements.dtype);
  std::vector<float> values(event.written.size() / size);
  harness::decode(elements.dtype, reinterpret_cast<const std::byte*>(event.written.data()),
                  values.size(), values.data());
  ordered_json json = ordered_json::array();
  for (const float value : values) json.push_back(number_json(value));
  return json;
}

ordered_json event_json(const simt::WarpEvent& event, const simt::BlockRun& run, const Problem& p) {
  using Kind = simt::WarpEvent::Kind;
  ordered_json json = {static_cast<int>(event.kind), event.place};
  if (event.kind == Kind::kArrive || event.kind == Kind::kWait) {
    json.insert(json.end(), {event.barrier, event.phase});
  } else if (event.kind == Kind::kWaitCopies || event.kind == Kind::kWaitProducts ||
             event.kind == Kind::kWaitStores) {
    json.push_back(event.pending);
  }
  if (event.lanes.empty()) return json;
  json.insert(json.end(), {event.array, event.shared ? 1 : 0, event.bytes, event.sectors,
                           event.wavefronts, event.conflicts});
  ordered_json lanes = ordered_json::array();
  for (const simt::LaneSpan& span : event.lanes) {
    lanes.insert(lanes.end(), {span.first, span.lanes, span.offset, span.stride});
  }
  json.push_back(event.lane_bytes);
  json.push_back(std::move(lanes));
  if (!event.written.empty() && event.lane_bytes % 2 == 0) {
    json.push_back(values_json(event, run.arrays[static_cast<std::size_t>(event.array)], p));
  }
  if (event.barrier >= 0) json.push_back({event.barrier, event.phase});
  return json;
}

ordered_json step_json(const Step& step) {
  ordered_json parts = ordered_json::array();
  for (const StepPart& part : step.parts) {
    ordered_json warps = ordered_json::array();
    for (const StepPart::Events& events : part.warps) {
      warps.push_back({events.warp, events.first, events.end});
    }
    parts.push_back({{"places", part.places}, {"times", part.times}, {"warps", std::move(warps)}});
  }
  ordered_json json = {{"interval", step.interval}};
  if (!step.tile.name.empty()) {
    json["tile"] = fmt::format("{} {}", step.tile.name, step.tile.number);
  }
  if (!step.paper.empty()) json["paper"] = step.paper;
  json["parts"] = std::move(parts);
  return json;
}

ordered_json counts_json(const simt::Counts& counts) {
  return {{"global_read_bytes", counts.global_read_bytes},
          {"global_write_bytes", counts.global_write_bytes},
          {"global_read_sectors", counts.global_read_sectors},
          {"global_write_sectors", counts.global_write_sectors},
          {"shared_read_bytes", counts.shared_read_bytes},
          {"shared_write_bytes", counts.shared_write_bytes},
          {"shared_wavefronts", counts.shared_wavefronts},
          {"bank_conflicts", counts.bank_conflicts}};
}

ordered_json rows_json(const SoftmaxRows& rows) {
  ordered_json json = {{"tile", fmt::format("KV tile {}", rows.tile)}};
  for (const auto& [name, values] :
       {std::pair{"row_max", &rows.row_max}, std::pair{"row_sum", &rows.row_sum},
        std::pair{"o_scale", &rows.o_scale}}) {
    for (const double value : *values) json[name].push_back(number_json(value));
  }
  return json;
}

void put_timeline(ordered_json& json, const Timeline& timeline) {
  json["steps"] = json["flights"] = ordered_json::array();
  for (const Step& step : timeline.steps) json["steps"].push_back(step_json(step));
  for (const Flight& flight : timeline.flights) {
    json["flights"].push_back(
        {static_cast<int>(flight.kind), flight.warp, flight.from, flight.to, flight.array});
  }
}

ordered_json launch_json(const RecordedLaunch& launch, const Problem& p, Files& files) {
  const simt::BlockRun& run = launch.run;
  ordered_json json = {{"kernel", harness::short_kernel_name(run.kernel)},
                       {"block", {run.block.x, run.block.y, run.block.z}},
                       {"blocks", run.blocks},
                       {"threads", run.threads},
                       {"intervals", run.intervals},
                       {"shared_bytes", run.shared_bytes},
                       {"counts", counts_json(run.counts)}};
  for (const char* list : {"arrays", "places", "barriers", "warps"}) {
    json[list] = ordered_json::array();
  }
  for (const simt::LoggedArray& array : run.arrays) json["arrays"].push_back(array_json(array, p));
  for (const simt::BlockRun::Place& place : run.places) {
    json["places"].push_back({files.number(place.file), place.line, place.kernel_line});
  }
  for (const auto& events : run.warps) {
    ordered_json warp = ordered_json::array();
    for (const simt::WarpEvent& event : events) warp.push_back(event_json(event, run, p));
    json["warps"].push_back(std::move(warp));
  }
  for (std::size_t n = 0; n < run.barriers.size(); ++n) {
    json["barriers"].push_back({{"name", run.barriers[n].name}, {"ends", launch.clock.phases[n]}});
  }
  put_timeline(json, launch.clock);
  for (const SoftmaxRows& rows : launch.rows) json["rows"].push_back(rows_json(rows));
  return json;
}

ordered_json finding_json(const RecordedFinding& finding) {
  ordered_json accesses = ordered_json::array();
  for (const simt::FindingAccess& access : finding.accesses) {
    accesses.push_back({access.warp, access.lane, access.location, access.tile});
  }
  ordered_json json = {
      {"title", finding.title()},     {"kernel", harness::short_kernel_name(finding.kernel)},
      {"array", finding.array},       {"offset", finding.offset},
      {"location", finding.location}, {"accesses", std::move(accesses)},
      {"text", finding.text()},       {"count", finding.count}};
  if (const auto& overtaking = finding.overtaking) {
    ordered_json& order = json["order"];
    order = {{"launch", overtaking->launch},
             {"at", {overtaking->first, overtaking->second}},
             {"ends", overtaking->order.phases}};
    put_timeline(order, overtaking->order);
  }
  return json;
}

ordered_json run_json(const RecordedRun& run) {
  Files files;
  ordered_json launches = ordered_json::array(), findings = ordered_json::array();
  for (const RecordedLaunch& launch : run.launches) {
    launches.push_back(launch_json(launch, run.problem.problem, files));
  }
  for (const RecordedFinding& finding : run.findings) findings.push_back(finding_json(finding));
  ordered_json json = {{"stage", run.stage->name},
                       {"pass", pass_name(run.pass)},
                       {"problem", harness::test_case_name(run.problem)},
                       {"files", files.json()},
                       {"launches", std::move(launches)},
                       {"findings", std::move(findings)}};
  const std::string tour = fmt::format(CUFLASH_SOURCE_DIR "/stages/{}/tour{}.txt", run.stage->name,
                                       run.pass == CUFLASH_FORWARD ? "" : "_bwd");
  if (std::filesystem::exists(tour)) json["tour"] = text_of_file(tour);
  return json;
}

}  // namespace

std::string runs_json(const std::vector<RecordedRun>& runs) {
  ordered_json list = ordered_json::array();
  for (const RecordedRun& run : runs) list.push_back(run_json(run));
  return harness::json_text({{"format", kFormat},
                             {"version", kVersion},
                             {"kinds", kKinds},
                             {"runs", std::move(list)}}) +
         '\n';
}

bool is_runs_json(const std::string& text) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  return json.is_object() && json.contains("format") && json["format"] == kFormat &&
         json.contains("version") && json["version"] == kVersion;
}

}  // namespace cuflash::bench
