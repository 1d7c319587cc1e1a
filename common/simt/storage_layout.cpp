#include "simt/storage_layout.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "simt/tensor_copy.h"

namespace cuflash::simt {
namespace {

bool holds_arrays(const StorageType& type) {
  return std::any_of(type.members.begin(), type.members.end(), [](const StorageMember& member) {
    return !member.type->extents.empty() || holds_arrays(*member.type);
  });
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " / ") + name;
  return text;
}

// "(17, 4)": the row and the column of an element of a SwizzledTile.
std::string row_and_column(const StorageType& type, std::size_t element) {
  const auto rows = static_cast<std::size_t>(*(type.extents.end() - 2));
  const auto panel_cols = static_cast<std::size_t>(type.panel_cols);
  const std::size_t bytes = type.element_bytes;
  const auto swizzle = static_cast<TensorSwizzle>(panel_cols * bytes);
  const std::size_t logical = swizzled(element * bytes, swizzle) / bytes;
  const std::size_t panel = logical / panel_cols / rows;
  return '(' + std::to_string(logical / panel_cols % rows) + ", " +
         std::to_string(panel * panel_cols + logical % panel_cols) + ')';
}

// Adds the names of the element `offset` bytes into `name`: several if a union is on the path.
void add_element_names(const StorageType& type, const std::string& name, std::size_t offset,
                       std::size_t size, std::vector<std::string>& names) {
  std::size_t element = offset / type.element_bytes;
  const std::size_t rest = offset % type.element_bytes;
  std::string indices;
  std::size_t left = type.extents.size();  // extents without an index
  if (type.panel_cols != 0) {
    left -= 2;
    const auto tile = static_cast<std::size_t>(type.extents[left] * type.extents[left + 1]);
    indices = row_and_column(type, element % tile);
    element /= tile;
  }
  while (left > 1) {
    const auto extent = static_cast<std::size_t>(type.extents[--left]);
    indices = '[' + std::to_string(element % extent) + ']' + indices;
    element /= extent;
  }
  if (left > 0 || element > 0) indices = '[' + std::to_string(element) + ']' + indices;
  std::string text = name + indices;

  const std::size_t num_names = names.size();
  if (rest != 0 || size < type.element_bytes) {
    for (const StorageMember& member : type.members) {
      if (rest < member.offset || rest - member.offset >= member.type->bytes()) continue;
      add_element_names(*member.type, member.name.empty() ? text : text + '.' + member.name,
                        rest - member.offset, size, names);
    }
  }
  if (names.size() > num_names) return;
  if (rest != 0) {
    text += " + " + std::to_string(rest) + " bytes";
  } else if (size > type.element_bytes) {
    text += " (" + std::to_string(size) + " bytes)";
  }
  names.push_back(text);
}

}  // namespace

StorageLayout::StorageLayout(const StorageType& type) {
  if (type.members.empty() || !type.extents.empty()) {
    places_ = {{"shared_memory", 0, std::make_shared<StorageType>(type)}};
  } else {
    add_places(type, "", 0);
    find_gaps(type);
  }
}

// A member is one place. A struct or union that contains arrays is the places of its members.
void StorageLayout::add_places(const StorageType& type, const std::string& path,
                               std::size_t offset) {
  for (const StorageMember& member : type.members) {
    const std::size_t begin = offset + member.offset;
    const bool single = member.type->extents.empty();
    if (member.name.empty()) {
      add_places(*member.type, path, begin);
    } else if (single && holds_arrays(*member.type)) {
      add_places(*member.type, path + member.name + '.', begin);
    } else if (member.type->bytes() > 0) {
      places_.push_back({path + member.name, begin, member.type});
    }
  }
}

void StorageLayout::find_gaps(const StorageType& type) {
  std::vector<Gap> members;
  const auto add_members = [&](const auto& self, const StorageType& of,
                               std::size_t offset) -> void {
    for (const StorageMember& member : of.members) {
      const std::size_t begin = offset + member.offset;
      if (member.name.empty()) {
        self(self, *member.type, begin);
      } else {
        members.push_back({begin, begin + member.type->bytes()});
      }
    }
  };
  add_members(add_members, type, 0);
  std::sort(members.begin(), members.end(),
            [](const Gap& a, const Gap& b) { return a.begin < b.begin; });
  members.push_back({type.bytes(), type.bytes()});
  std::size_t end = 0;
  for (const Gap& member : members) {
    if (member.begin > end) gaps_.push_back({end, member.begin});
    end = std::max(end, member.end);
  }
}

std::vector<SharedArray> StorageLayout::arrays() const {
  std::vector<SharedArray> arrays;
  for (const Place& place : places_) {
    arrays.push_back({place.name, place.begin, place.type->element_bytes, place.type->extents});
  }
  return arrays;
}

// All places that contain the offset; if none does, the place that ends last before it.
std::vector<const StorageLayout::Place*> StorageLayout::places_at(std::size_t offset) const {
  std::vector<const Place*> found;
  const Place* before = nullptr;
  for (const Place& place : places_) {
    if (place.begin > offset) continue;
    if (offset < place.end()) found.push_back(&place);
    if (before == nullptr || place.end() > before->end()) before = &place;
  }
  if (found.empty() && before != nullptr) found.push_back(before);
  return found;
}

std::string StorageLayout::array_name(std::size_t offset) const {
  std::vector<std::string> names;
  for (const Place* place : places_at(offset)) names.push_back(place->name);
  return joined(names);
}

std::size_t StorageLayout::array_begin(std::size_t offset) const {
  std::size_t begin = 0;
  for (const Place* place : places_at(offset)) begin = std::max(begin, place->begin);
  return begin;
}

std::size_t StorageLayout::array_end(std::size_t offset) const {
  std::size_t end = SIZE_MAX;
  for (const Place* place : places_at(offset)) end = std::min(end, place->end());
  return end;
}

std::string StorageLayout::element_name(std::size_t offset, std::size_t size) const {
  std::vector<std::string> names;
  for (const Place* place : places_at(offset)) {
    add_element_names(*place->type, place->name, offset - place->begin, size, names);
  }
  return joined(names);
}

bool StorageLayout::is_padding(std::size_t offset, std::size_t size) const {
  return std::any_of(gaps_.begin(), gaps_.end(), [&](const Gap& gap) {
    return offset >= gap.begin && offset + size <= gap.end;
  });
}

const StorageLayout* storage_layout(const SharedLayout& shared) {
  static auto& known = *new std::map<std::uintptr_t, std::unique_ptr<const StorageLayout>>;
  if (shared.storage_type == nullptr) return nullptr;
  const auto tag = reinterpret_cast<std::uintptr_t>(shared.storage_type);
  const auto [layout, added] = known.try_emplace(tag);
  if (added) {
    const auto type = read_storage_type(tag);
    // A different size means a different type.
    if (type != nullptr && type->bytes() == shared.bytes) {
      layout->second = std::make_unique<const StorageLayout>(*type);
    }
  }
  return layout->second.get();
}

}  // namespace cuflash::simt
