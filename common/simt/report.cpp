// Findings in words.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

std::string triple(const uint3& v) {
  return '(' + std::to_string(v.x) + ',' + std::to_string(v.y) + ',' + std::to_string(v.z) + ')';
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
      return "read  ";
    case AccessKind::kWrite:
      return "write ";
    default:
      return "atomic";
  }
}

uint3 index_in(const dim3& extent, std::uint64_t n) {
  return {static_cast<unsigned>(n % extent.x), static_cast<unsigned>(n / extent.x % extent.y),
          static_cast<unsigned>(n / extent.x / extent.y)};
}

}  // namespace

bool Findings::count(FindingKind kind, const Key& key) {
  const auto [entry, added] = known_.emplace(std::make_pair(kind, key), list_.size());
  if (!added) ++list_[entry->second].count;
  return added;
}

void Findings::describe(Finding finding) { list_.push_back(std::move(finding)); }

std::vector<Finding> Findings::take() {
  known_.clear();
  return std::exchange(list_, {});
}

const std::string& Core::kernel_name() {
  auto name = kernel_names_.find(launch_->kernel);
  if (name == kernel_names_.end()) {
    name = kernel_names_.emplace(launch_->kernel, function_name(launch_->kernel)).first;
  }
  return name->second;
}

std::uint64_t Core::block_of(Stamp stamp) const {
  const auto after =
      std::upper_bound(blocks_run_.begin(), blocks_run_.end(), stamp,
                       [](Stamp wanted, const auto& block) { return wanted < block.first; });
  return after == blocks_run_.begin() ? 0 : (after - 1)->second;
}

std::string Core::array_name(const Region* region, std::uintptr_t address) const {
  if (region == nullptr) return "";
  if (region->shared) return shared_.variable(address).name;
  return region->name.empty() ? "global memory" : region->name;
}

std::string Core::element_name(const Region* region, std::uintptr_t address,
                               std::size_t size) const {
  std::ostringstream out;
  if (region == nullptr) {
    out << "address 0x" << std::hex << address;
    return out.str();
  }
  const std::uintptr_t begin = region->shared ? shared_.variable_begin(address) : region->begin;
  const auto offset = static_cast<std::int64_t>(address - begin);
  const auto element = static_cast<std::int64_t>(size);
  out << array_name(region, address);
  if (offset % element == 0) {
    out << '[' << offset / element << "] (elements of " << size << " bytes)";
  } else {
    out << (offset < 0 ? " - " : " + ") << std::abs(offset) << " bytes";
  }
  return out.str();
}

std::string Core::describe_access(int thread, std::uint64_t block, int site) const {
  const Site& s = sites[site];
  std::ostringstream out;
  out << "   " << verb(s.kind) << "  ";
  if (block != linear_block_) out << "block " << triple(index_in(launch_->grid, block)) << ' ';
  out << "thread " << triple(index_in(launch_->block, thread)) << " warp " << thread / 32
      << " lane " << thread % 32 << "   " << short_location(s.place) << "   "
      << source_text(s.place) << '\n';
  return out.str();
}

std::string Core::heading(const std::string& title, const std::string& element) {
  std::string text = title + ": " + kernel_name();
  // A launch that was refused runs no block.
  if (in_block_) text += ", block " + triple(block_index_);
  text += '\n';
  if (!element.empty()) text += "  " + element + '\n';
  return text;
}

void Core::report_race(const Thread& self, const Region& region, std::uintptr_t address,
                       Stamp earlier, std::uint16_t site) {
  const int earlier_site = stamp_site(earlier);
  const std::uintptr_t array = region.shared ? shared_.variable_begin(address) : region.begin;
  const FindingKind kind = region.shared ? FindingKind::kSharedRace : FindingKind::kGlobalRace;
  const Findings::Key key = {launch_->kernel, std::min<std::uint64_t>(earlier_site, site),
                             std::max<std::uint64_t>(earlier_site, site), array};
  if (!findings.count(kind, key)) return;
  const std::uint64_t earlier_block = block_of(earlier);
  const bool same_warp =
      earlier_block == linear_block_ && stamp_thread(earlier) / 32 == self.warp();
  std::string text = heading(region.shared ? "RACE in shared memory" : "RACE in global memory",
                             element_name(&region, address, sites[site].size)) +
                     describe_access(stamp_thread(earlier), earlier_block, earlier_site) +
                     describe_access(self.index, linear_block_, site);
  if (earlier_block != linear_block_) {
    text += "  Nothing orders the blocks of one launch.\n";
  } else {
    text += std::string("  No barrier") + (same_warp ? " and no __syncwarp()" : "") +
            " orders these two accesses.\n";
  }
  findings.describe({kind, kernel_name(), array_name(&region, address),
                     short_location(sites[site].place), text, 1});
}

void Core::report_access(FindingKind kind, const Thread& self, const Region* region,
                         std::uintptr_t address, std::uint16_t site, const std::string& what) {
  const std::uintptr_t array = region == nullptr ? 0
                               : region->shared  ? shared_.variable_begin(address)
                                                 : region->begin;
  if (!findings.count(kind, {launch_->kernel, site, array})) return;
  const char* title = "";
  switch (kind) {
    case FindingKind::kOutOfBounds:
      title = "OUT OF BOUNDS";
      break;
    case FindingKind::kUseAfterFree:
      title = "USE AFTER FREE";
      break;
    case FindingKind::kUninitialised:
      title = "READ OF UNINITIALISED MEMORY";
      break;
    case FindingKind::kMisaligned:
      title = "MISALIGNED ACCESS";
      break;
    default:
      title = "NO SUCH MEMORY";
  }
  findings.describe({kind, kernel_name(), array_name(region, address),
                     short_location(sites[site].place),
                     heading(title, element_name(region, address, sites[site].size)) +
                         describe_access(self.index, linear_block_, site) + "  " + what + '\n',
                     1});
}

void Core::report_block(FindingKind kind, std::uintptr_t where, const std::string& title,
                        const std::string& body) {
  if (!findings.count(kind, {launch_->kernel, where})) return;
  findings.describe(
      {kind, kernel_name(), "", short_location(find_source(where)), heading(title, "") + body, 1});
}

}  // namespace cuflash::simt
