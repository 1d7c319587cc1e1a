// The simulator's public functions.
#include "simt/machine.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

using Lock = std::lock_guard<std::mutex>;

// Prints the remaining findings at the end of the program or when the library is unloaded, so that
// a program that never takes them still shows them.
struct AtExit {
  ~AtExit() {
    for (const Finding& finding : take_findings()) std::fputs(finding.message().c_str(), stderr);
    const Lock lock(core.mutex);
    core.release_if_idle();
  }
} at_exit;

// A fork waits for a call in another thread to end, so that the child's simulator is consistent.
const int at_fork = pthread_atfork([] { core.mutex.lock(); }, [] { core.mutex.unlock(); },
                                   [] { core.mutex.unlock(); });

}  // namespace

void Core::release_if_idle() {
  stacks_.reset();
  global.release_if_idle();
}

Counts Core::counts() const {
  Counts counts = requests.totals();
  counts.launches = events.launches;
  counts.barriers = events.barriers;
  counts.warp_syncs = events.warp_syncs;
  counts.exchanges = events.exchanges;
  counts.barrier_calls = events.barrier_calls;
  counts.products = events.products;
  counts.multiply_adds = events.multiply_adds;
  counts.products_left = events.products_left;
  return counts;
}

void Core::reset_counts() {
  requests.reset();
  waits.reset();
  events = {};
  layouts_.clear();
}

const std::string& Core::kernel_name(std::uintptr_t kernel) {
  auto name = kernel_names_.find(kernel);
  if (name == kernel_names_.end()) {
    name = kernel_names_.emplace(kernel, function_name(kernel)).first;
  }
  return name->second;
}

std::vector<SharedMap> Core::shared_maps() {
  std::vector<SharedMap> maps;
  for (const auto& [kernel, layout] : layouts_) {
    SharedMap map{kernel_name(kernel), layout.bytes, {}};
    if (const StorageLayout* const storage = storage_layout(layout); storage != nullptr) {
      map.arrays = storage->arrays();
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

bool parse_schedule(const std::string& text, Schedule& schedule) {
  if (text == "inorder") {
    schedule = {Schedule::Order::kInOrder, 0};
    return true;
  }
  if (text == "reversed") {
    schedule = {Schedule::Order::kReversed, 0};
    return true;
  }
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (colon == std::string::npos || (name != "random" && name != "lagging")) return false;
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + colon + 1, end, seed);
  if (result.ec != std::errc() || result.ptr != end) return false;
  schedule = {name == "random" ? Schedule::Order::kRandom : Schedule::Order::kLagging, seed};
  return true;
}

std::string schedule_name(const Schedule& schedule) {
  switch (schedule.order) {
    case Schedule::Order::kReversed:
      return "reversed";
    case Schedule::Order::kLagging:
      return "lagging:" + std::to_string(schedule.seed);
    case Schedule::Order::kRandom:
      return "random:" + std::to_string(schedule.seed);
    default:
      return "inorder";
  }
}

Counts counts() {
  const Lock lock(core.mutex);
  return core.counts();
}

std::vector<LineCounts> line_counts() {
  const Lock lock(core.mutex);
  return core.requests.by_line();
}

void reset_counts() {
  const Lock lock(core.mutex);
  core.reset_counts();
}

std::vector<SharedMap> shared_maps() {
  const Lock lock(core.mutex);
  return core.shared_maps();
}

std::vector<Finding> take_findings() {
  const Lock lock(core.mutex);
  return core.findings.take();
}

void report_only_block(const std::optional<BlockIndex>& block) {
  const Lock lock(core.mutex);
  core.only_block = block;
}

void set_schedule(const Schedule& schedule) {
  const Lock lock(core.mutex);
  core.schedule = schedule;
}

Schedule schedule() {
  const Lock lock(core.mutex);
  return core.schedule;
}

bool counts_accesses() {
#ifdef CUFLASH_SIMT_HOOKS
  return true;
#else
  return false;
#endif
}

void name_memory(const void* pointer, const char* name) {
  const Lock lock(core.mutex);
  Region* region = core.global.find_range(pointer, 0);
  if (region != nullptr) region->name = name;
}

void set_memory_limit(std::size_t bytes) {
  const Lock lock(core.mutex);
  core.global.set_limit(bytes);
}

std::size_t memory_in_use() {
  const Lock lock(core.mutex);
  return core.global.in_use();
}

}  // namespace cuflash::simt
