// Collects findings: their data, from addresses and sites.
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

const std::string& Core::kernel_name(std::uintptr_t kernel) {
  auto name = kernel_names_.find(kernel);
  if (name == kernel_names_.end()) {
    name = kernel_names_.emplace(kernel, function_name(kernel)).first;
  }
  return name->second;
}

// True if findings of this block are wanted.
bool Core::keeps(std::uint64_t block) const {
  if (!only_block) return true;
  const BlockIndex index = index_in(launch_->grid, block);
  return index.x == only_block->x && index.y == only_block->y && index.z == only_block->z;
}

std::string Core::array_name(const Region* region, std::uintptr_t address) const {
  if (region == nullptr) return is_null(address) ? "null pointer" : "unknown memory";
  if (region->shared) return shared_.array(address).name;
  return region->name.empty() ? "global memory" : region->name;
}

std::uintptr_t Core::array_begin(const Region* region, std::uintptr_t address) const {
  if (region == nullptr) return 0;
  return region->shared ? shared_.array(address).begin : region->begin;
}

bool Core::lacks_names(const Region* region, std::uintptr_t address) const {
  return region != nullptr && region->shared && shared_.lacks_layout(address);
}

std::string Core::element_name(const Region* region, std::uintptr_t address,
                               const Site& site) const {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // whatever the program's own locale is
  if (region == nullptr) {
    out << "address 0x" << std::hex << address;
    return out.str();
  }
  const auto offset = static_cast<std::int64_t>(address - array_begin(region, address));
  if (region->shared) {
    const StorageLayout* const layout = shared_.layout(address);
    if (layout != nullptr) return layout->element_name(shared_.dynamic_offset(address), site.size);
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

// "KV tile 1", or nothing.
std::string Core::tile_of(const NamedAccess& access) {
  return access.tile == nullptr ? ""
                                : access.tile->name + (' ' + std::to_string(access.tile->number));
}

FindingAccess Core::described(const NamedAccess& access) const {
  const Site& site = sites[access.site];
  FindingAccess described = {site.kind,
                             {},
                             {},
                             access.thread / 32,
                             access.thread % 32,
                             short_location(site.place),
                             source_text(site.place),
                             tile_of(access)};
  const dim3 block = launch_->block;
  if (access.block != linear_block_) described.block = index_in(launch_->grid, access.block);
  if (block.y != 1 || block.z != 1) described.thread = index_in(block, access.thread);
  return described;
}

Finding Core::finding_at(Report report, const SourcePlace& place, const std::string& why,
                         const std::vector<NamedAccess>& accesses) {
  Finding finding = {report, kernel_name(launch_->kernel), {}, "", short_location(place)};
  // A launch that was refused runs no block.
  if (in_block_) finding.block = BlockIndex{block_index_.x, block_index_.y, block_index_.z};
  for (const NamedAccess& access : accesses) finding.accesses.push_back(described(access));
  finding.why = why;
  return finding;
}

// The element is named as `site` sees it.
void Core::describe(Finding finding, const Region* region, std::uintptr_t address,
                    const Site& site) {
  finding.array = array_name(region, address);
  finding.element = element_name(region, address, site);
  finding.offset = static_cast<std::int64_t>(address - array_begin(region, address));
  findings.describe(std::move(finding), lacks_names(region, address));
}

void Core::report_access(Report report, const Thread& self, const Region* region,
                         std::uintptr_t address, std::uint16_t site, const std::string& what) {
  if (!keeps(linear_block_)) return;
  if (!findings.count(report, {launch_->kernel, site, array_begin(region, address)})) return;
  describe(finding_at(report, sites[site].place, "  " + what + '\n', {access_of(self, site)}),
           region, address, sites[site]);
}

// The last access is the one to blame. The element is named as `element` sees it, or as that
// access.
void Core::report_accesses(Report report, const Region* region, std::uintptr_t address,
                           const std::vector<NamedAccess>& accesses, const std::string& what,
                           const Site* element) {
  if (!keeps(linear_block_)) return;
  const Site& site = sites[accesses.back().site];
  Findings::Key key = {launch_->kernel, array_begin(region, address)};
  for (const NamedAccess& access : accesses) key.push_back(access.site);
  if (!findings.count(report, key)) return;
  describe(finding_at(report, site.place, "  " + what + '\n', accesses), region, address,
           element != nullptr ? *element : site);
}

void Core::report_block(Report report, std::uintptr_t where, const std::string& body,
                        const std::vector<FindingBarrier>& barriers) {
  if (in_block_ && !keeps(linear_block_)) return;
  if (!findings.count(report, {launch_->kernel, where})) return;
  Finding finding = finding_at(report, source_place(where), body);
  finding.barriers = barriers;
  findings.describe(std::move(finding), false);
}

}  // namespace cuflash::simt
