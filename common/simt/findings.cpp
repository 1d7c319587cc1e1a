// Makes findings from addresses and sites.
#include <algorithm>
#include <cstdlib>
#include <locale>
#include <sstream>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

BlockIndex index_in(const dim3& extent, std::uint64_t n) {
  return {static_cast<unsigned>(n % extent.x), static_cast<unsigned>(n / extent.x % extent.y),
          static_cast<unsigned>(n / extent.x / extent.y)};
}

bool lacks_names(const Region* region, std::uintptr_t address) {
  return region != nullptr && region->shared && core.shared().lacks_layout(address);
}

// "KV tile 1", or nothing.
std::string tile_of(const NamedAccess& access) {
  return access.tile == nullptr ? ""
                                : access.tile->name + (' ' + std::to_string(access.tile->number));
}

FindingAccess described(const NamedAccess& access) {
  const Site& site = core.sites[access.site];
  FindingAccess described = {site.kind,
                             {},
                             {},
                             access.thread / 32,
                             access.thread % 32,
                             short_location(site.place),
                             source_text(site.place),
                             tile_of(access),
                             site.of_product};
  const dim3 block = core.launch()->block;
  if (access.block != core.linear_block()) {
    described.block = index_in(core.launch()->grid, access.block);
  }
  if (block.y != 1 || block.z != 1) described.thread = index_in(block, access.thread);
  return described;
}

}  // namespace

bool Findings::count(Report report, const Key& key, int weight) {
  const auto [entry, added] =
      known_.emplace(std::make_pair(report, key), Known{list_.size(), weight});
  Known& known = entry->second;
  last_counted_ = known.place;
  if (added) {
    list_.emplace_back();
    return true;
  }
  ++list_[known.place].count;
  return weight > std::exchange(known.weight, std::max(known.weight, weight));
}

void Findings::describe(Finding finding, bool lacks_names) {
  if (lacks_names && !said_why_ && !lacks_names_) lacks_names_ = last_counted_;
  Finding& place = list_[last_counted_];
  finding.count = place.count;
  place = std::move(finding);
}

std::vector<Finding> Findings::take() {
  known_.clear();
  if (lacks_names_) {
    list_[*lacks_names_].explains_missing_names = true;
    lacks_names_.reset();
    said_why_ = true;
  }
  // An uninitialised value may be the consequence of any other fault, so it is reported last.
  std::stable_partition(list_.begin(), list_.end(), [](const Finding& finding) {
    return finding.report != Report::kUninitialised;
  });
  return std::exchange(list_, {});
}

NamedAccess access_of(const Thread& self, std::uint16_t site) {
  return {self.index, core.linear_block(), site, self.tile()};
}

std::string line_of(const Thread& self, const std::string& verb) {
  const SourcePlace& place = source_place(self.wait_address);
  return "  Warp " + std::to_string(self.warp()) + " lane " + std::to_string(self.lane()) + ' ' +
         verb + ' ' + short_location(place) + "   " + source_text(place);
}

bool keeps(std::uint64_t block) {
  if (!core.only_block) return true;
  const BlockIndex index = index_in(core.launch()->grid, block);
  return index.x == core.only_block->x && index.y == core.only_block->y &&
         index.z == core.only_block->z;
}

std::string array_name(const Region* region, std::uintptr_t address) {
  if (region == nullptr) return is_null(address) ? "null pointer" : "unknown memory";
  if (region->shared) return core.shared().array(address).name;
  return region->name.empty() ? "global memory" : region->name;
}

std::uintptr_t array_begin(const Region* region, std::uintptr_t address) {
  if (region == nullptr) return 0;
  return region->shared ? core.shared().array(address).begin : region->begin;
}

std::string element_name(const Region* region, std::uintptr_t address, const Site& site) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // independent of the program's locale
  if (region == nullptr) {
    out << "address 0x" << std::hex << address;
    return out.str();
  }
  const auto offset = static_cast<std::int64_t>(address - array_begin(region, address));
  if (region->shared) {
    const StorageLayout* const layout = core.shared().layout(address);
    if (layout != nullptr) {
      return layout->element_name(core.shared().dynamic_offset(address), site.size);
    }
  }
  const std::int64_t element = site.element;
  out << array_name(region, address);
  if (element != 0 && offset % element == 0 && !lacks_names(region, address)) {
    out << '[' << offset / element << "] (elements of " << element << " bytes)";
  } else {
    out << (offset < 0 ? " - " : " + ") << std::abs(offset) << " bytes";
  }
  return out.str();
}

Finding finding_at(Report report, const SourcePlace& place, const std::string& why,
                   const std::vector<NamedAccess>& accesses) {
  Finding finding = {
      report, core.kernel_name(core.launch()->kernel), {}, "", short_location(place)};
  // A launch that was refused runs no block.
  if (core.in_block()) {
    finding.block = BlockIndex{core.block_index().x, core.block_index().y, core.block_index().z};
  }
  for (const NamedAccess& access : accesses) finding.accesses.push_back(described(access));
  finding.why = why;
  return finding;
}

void describe(Finding finding, const Region* region, std::uintptr_t address, const Site& site) {
  finding.array = array_name(region, address);
  finding.element = element_name(region, address, site);
  finding.offset = static_cast<std::int64_t>(address - array_begin(region, address));
  core.findings.describe(std::move(finding), lacks_names(region, address));
}

void report_access(Report report, const Thread& self, const Region* region, std::uintptr_t address,
                   std::uint16_t site, const std::string& what) {
  if (!keeps(core.linear_block())) return;
  if (!core.findings.count(report, {core.launch()->kernel, site, array_begin(region, address)})) {
    return;
  }
  describe(finding_at(report, core.sites[site].place, "  " + what + '\n', {access_of(self, site)}),
           region, address, core.sites[site]);
}

void report_accesses(Report report, const Region* region, std::uintptr_t address,
                     const std::vector<NamedAccess>& accesses, const std::string& what,
                     const Site* element) {
  if (!keeps(core.linear_block())) return;
  const Site& site = core.sites[accesses.back().site];
  Findings::Key key = {core.launch()->kernel, array_begin(region, address)};
  for (const NamedAccess& access : accesses) key.push_back(access.site);
  if (!core.findings.count(report, key)) return;
  describe(finding_at(report, site.place, "  " + what + '\n', accesses), region, address,
           element != nullptr ? *element : site);
}

void report_block(Report report, std::uintptr_t where, const std::string& body,
                  const std::vector<FindingBarrier>& barriers) {
  if (core.in_block() && !keeps(core.linear_block())) return;
  if (!core.findings.count(report, {core.launch()->kernel, where})) return;
  Finding finding = finding_at(report, source_place(where), body);
  finding.barriers = barriers;
  core.findings.describe(std::move(finding), false);
}

void report_registers(Report report, const std::vector<NamedAccess>& accesses,
                      const std::string& what) {
  if (!keeps(core.linear_block())) return;
  Findings::Key key = {core.launch()->kernel};
  for (const NamedAccess& access : accesses) key.push_back(access.site);
  if (!core.findings.count(report, key)) return;
  core.findings.describe(
      finding_at(report, core.sites[accesses.back().site].place, "  " + what + '\n', accesses),
      false);
}

}  // namespace cuflash::simt
