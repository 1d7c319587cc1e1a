// The findings of the simulator, collected until they are taken.
#ifndef CUFLASH_SIMT_FINDINGS_H_
#define CUFLASH_SIMT_FINDINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simt/finding.h"
#include "simt/memory.h"

namespace cuflash::simt {

struct SourcePlace;
struct Site;
struct Thread;
struct TileMark;

// Collects findings. Similar ones become one.
class Findings {
 public:
  using Key = std::vector<std::uint64_t>;
  // Counts a finding of `key`. True if it is the first, or has a greater `weight` than the
  // described one: then describe() must follow.
  bool count(Report report, const Key& key, int weight = 0);
  // `lacks_names` is true if the names of shared arrays are unknown for lack of debug information.
  void describe(Finding finding, bool lacks_names);
  std::vector<Finding> take();

 private:
  struct Known {
    std::size_t place;  // in the list
    int weight;
  };
  std::map<std::pair<Report, Key>, Known> known_;
  std::vector<Finding> list_;
  std::size_t last_counted_ = 0;
  // The first finding without names explains it, once per process.
  std::optional<std::size_t> lacks_names_;
  bool said_why_ = false;
};

// An access in a finding.
struct NamedAccess {
  int thread;
  std::uint64_t block;
  int site;
  const TileMark* tile;  // null if unknown
};
NamedAccess access_of(const Thread& self, std::uint16_t site);
NamedAccess named_access(Stamp stamp);

// These functions make a finding of the running block, unless there was a similar one. `what` is
// the explanation; the last access is at fault.
void report_access(Report report, const Thread& self, const Region* region, std::uintptr_t address,
                   std::uint16_t site, const std::string& what);
// The element is named as `element` sees it, or as the last access.
void report_accesses(Report report, const Region* region, std::uintptr_t address,
                     const std::vector<NamedAccess>& accesses, const std::string& what,
                     const Site* element = nullptr);
void report_registers(Report report, const std::vector<NamedAccess>& accesses,
                      const std::string& what);
void report_block(Report report, std::uintptr_t where, const std::string& body,
                  const std::vector<FindingBarrier>& barriers = {});
// race_findings.cpp
void report_race(const Thread& self, const Region& region, std::uintptr_t address, Stamp earlier,
                 std::uint16_t site);

// Parts of these functions.
// "  Warp 1 lane 3 waits at kernel.cuh:12   __syncwarp();": the verb is "waits at".
std::string line_of(const Thread& self, const std::string& verb);
// True if findings of this block are kept.
bool keeps(std::uint64_t block);
Finding finding_at(Report report, const SourcePlace& place, const std::string& why,
                   const std::vector<NamedAccess>& accesses = {});
// Adds the element, named as `site` sees it, to the finding that was counted last.
void describe(Finding finding, const Region* region, std::uintptr_t address, const Site& site);
std::string array_name(const Region* region, std::uintptr_t address);
std::uintptr_t array_begin(const Region* region, std::uintptr_t address);
std::string element_name(const Region* region, std::uintptr_t address, const Site& site);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FINDINGS_H_
