// Describes findings in words.
#include <algorithm>
#include <cstdlib>
#include <locale>
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
      return "read";
    case AccessKind::kWrite:
      return "write";
    default:
      return "atomic";
  }
}

uint3 index_in(const dim3& extent, std::uint64_t n) {
  return {static_cast<unsigned>(n % extent.x), static_cast<unsigned>(n / extent.x % extent.y),
          static_cast<unsigned>(n / extent.x / extent.y)};
}

const char* title_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOutOfBounds:
      return "OUT OF BOUNDS";
    case FindingKind::kUseAfterFree:
      return "USE AFTER FREE";
    case FindingKind::kUninitialised:
      return "READ OF UNINITIALISED MEMORY";
    case FindingKind::kMisaligned:
      return "MISALIGNED ACCESS";
    default:
      return "NO SUCH MEMORY";
  }
}

constexpr const char* kWithoutNames =
    "  Arrays in shared memory appear as byte offsets, and their padding is not checked, because "
    "the "
    "kernel has no debug information that can be read (built without -g, stripped, or built by "
    "clang).\n";

std::size_t num_characters(const std::string& utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// Lines of aligned columns, from rows of equally many cells.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> lines(rows.size(), "   ");
  for (std::size_t column = 0; column < rows[0].size(); ++column) {
    std::size_t width = 0;
    for (const auto& row : rows) width = std::max(width, num_characters(row[column]));
    if (width == 0) continue;
    // All verbs but one have at most five letters.
    if (column == 0) width = std::max<std::size_t>(width, 5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t gap = column == 0 ? 2 : 3;
      lines[i] += rows[i][column] + std::string(width - num_characters(rows[i][column]) + gap, ' ');
    }
  }
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return text;
}

}  // namespace

std::string Finding::message() const {
  return title + ": " + kernel + (place.empty() ? "" : ", " + place) + '\n' + text;
}

bool Findings::count(FindingKind kind, const Key& key, int weight) {
  const auto [entry, added] =
      known_.emplace(std::make_pair(kind, key), Known{list_.size(), weight});
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
  for (Finding& finding : list_) {
    if (finding.count == 1) continue;
    finding.text.back() = ' ';
    finding.text += ' ' + std::to_string(finding.count - 1) + " similar finding" +
                    (finding.count == 2 ? ".\n" : "s.\n");
  }
  if (lacks_names_) {
    list_[*lacks_names_].text += kWithoutNames;
    lacks_names_.reset();
    said_why_ = true;
  }
  // An uninitialised value may be the consequence of any other fault, so it is reported last.
  std::stable_partition(list_.begin(), list_.end(), [](const Finding& finding) {
    return finding.kind != FindingKind::kUninitialised;
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
  const uint3 index = index_in(launch_->grid, block);
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

std::string Core::who(const NamedAccess& access) const {
  const dim3 block = launch_->block;
  std::string text;
  if (access.block != linear_block_) {
    text += "block " + triple(index_in(launch_->grid, access.block)) + ' ';
  }
  if (block.y != 1 || block.z != 1)
    text += "thread " + triple(index_in(block, access.thread)) + ' ';
  return text + "warp " + std::to_string(access.thread / 32) + " lane " +
         std::to_string(access.thread % 32);
}

// "KV tile 1", or nothing.
std::string Core::tile_of(const NamedAccess& access) {
  return access.tile == nullptr ? ""
                                : access.tile->name + (' ' + std::to_string(access.tile->number));
}

// One line for each access: what it does, which thread, where, in which tile.
std::string Core::access_lines(const std::vector<NamedAccess>& accesses) const {
  std::vector<std::vector<std::string>> rows;
  for (const NamedAccess& access : accesses) {
    const Site& site = sites[access.site];
    rows.push_back({verb(site.kind), who(access), short_location(site.place),
                    source_text(site.place), tile_of(access)});
  }
  return aligned(rows);
}

void Core::describe(FindingKind kind, const std::string& title, const std::string& array,
                    const std::string& location, const std::string& text, bool lacks_names,
                    const std::vector<NamedAccess>& accesses) {
  // A launch that was refused runs no block.
  Finding finding = {kind,
                     title,
                     kernel_name(launch_->kernel),
                     in_block_ ? "block " + triple(block_index_) : "",
                     array,
                     location,
                     text};
  for (const NamedAccess& access : accesses) {
    finding.accesses.push_back({access.thread / 32, access.thread % 32,
                                short_location(sites[access.site].place), tile_of(access)});
  }
  findings.describe(std::move(finding), lacks_names);
}

void Core::report_access(FindingKind kind, const Thread& self, const Region* region,
                         std::uintptr_t address, std::uint16_t site, const std::string& what) {
  if (!keeps(linear_block_)) return;
  if (!findings.count(kind, {launch_->kernel, site, array_begin(region, address)})) return;
  describe(kind, title_of(kind), array_name(region, address), short_location(sites[site].place),
           "  " + element_name(region, address, sites[site]) + '\n' +
               access_lines({access_of(self, site)}) + "  " + what + '\n',
           lacks_names(region, address), {access_of(self, site)});
}

// The last access is the one to blame. The element is named as `element` sees it, or as that
// access.
void Core::report_accesses(FindingKind kind, const std::string& title, const Region* region,
                           std::uintptr_t address, const std::vector<NamedAccess>& accesses,
                           const std::string& what, const Site* element) {
  if (!keeps(linear_block_)) return;
  const Site& site = sites[accesses.back().site];
  Findings::Key key = {launch_->kernel, array_begin(region, address),
                       std::hash<std::string>{}(title)};
  for (const NamedAccess& access : accesses) key.push_back(access.site);
  if (!findings.count(kind, key)) return;
  describe(kind, title, array_name(region, address), short_location(site.place),
           "  " + element_name(region, address, element != nullptr ? *element : site) + '\n' +
               access_lines(accesses) + "  " + what + '\n',
           lacks_names(region, address), accesses);
}

void Core::report_block(FindingKind kind, std::uintptr_t where, const std::string& title,
                        const std::string& body) {
  if (in_block_ && !keeps(linear_block_)) return;
  if (!findings.count(kind, {launch_->kernel, where})) return;
  describe(kind, title, "", short_location(source_place(where)), body, false);
}

}  // namespace cuflash::simt
