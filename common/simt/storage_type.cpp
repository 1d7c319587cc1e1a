// Reads DWARF's description of a type as a tree. A type that DWARF does not describe completely by
// constants is left out, because half a layout would give wrong names.
#include "simt/storage_type.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "simt/debug_info.h"

namespace cuflash::simt {
namespace {

using TypePointer = std::shared_ptr<const StorageType>;

TypePointer read_type(Dwarf_Die die);

std::optional<Dwarf_Die> referenced(Dwarf_Die die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Die target;
  if (dwarf_attr(&die, name, &attribute) == nullptr) return std::nullopt;
  if (dwarf_formref_die(&attribute, &target) == nullptr) return std::nullopt;
  return target;
}

// Absent, not a constant, or a number.
struct Constant {
  bool present, known;
  Dwarf_Word value;
};

Constant constant(Dwarf_Die die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  const bool present = dwarf_attr(&die, name, &attribute) != nullptr;
  const bool known = present && dwarf_formudata(&attribute, &value) == 0;
  return {present, known, value};
}

std::vector<Dwarf_Die> children(Dwarf_Die die) {
  std::vector<Dwarf_Die> all;
  Dwarf_Die child;
  if (dwarf_child(&die, &child) != 0) return all;
  do {
    all.push_back(child);
  } while (dwarf_siblingof(&child, &child) == 0);
  return all;
}

TypePointer read_scalar(Dwarf_Die die) {
  StorageType type;
  Dwarf_Word bytes = 0;
  if (dwarf_aggregate_size(&die, &bytes) != 0 || bytes == 0) return nullptr;
  type.element_bytes = bytes;
  return std::make_shared<StorageType>(type);
}

// An array of arrays, even behind a typedef, is one array with the extents of both.
TypePointer read_array(Dwarf_Die die) {
  const std::optional<Dwarf_Die> element_die = referenced(die, DW_AT_type);
  const TypePointer element = element_die ? read_type(*element_die) : nullptr;
  if (element == nullptr) return nullptr;
  StorageType type;
  for (const Dwarf_Die& child : children(die)) {
    Dwarf_Die range = child;
    if (dwarf_tag(&range) != DW_TAG_subrange_type) continue;
    const Constant count = constant(range, DW_AT_count), last = constant(range, DW_AT_upper_bound);
    if (!count.known && !last.known) return nullptr;
    type.extents.push_back(static_cast<int>(count.known ? count.value : last.value + 1));
  }
  type.extents.insert(type.extents.end(), element->extents.begin(), element->extents.end());
  type.element_bytes = element->element_bytes;
  type.members = element->members;
  type.panel_cols = element->panel_cols;
  return std::make_shared<StorageType>(type);
}

bool is_public(Dwarf_Die member, bool by_default) {
  const Constant access = constant(member, DW_AT_accessibility);
  return access.known ? access.value == DW_ACCESS_public : by_default;
}

// The offset of a member or base class within its class. A union's members have none.
std::optional<std::size_t> offset_of(Dwarf_Die member) {
  const Constant bytes = constant(member, DW_AT_data_member_location);
  if (bytes.present) return bytes.known ? std::optional<std::size_t>(bytes.value) : std::nullopt;
  return constant(member, DW_AT_data_bit_offset).value / 8;
}

// A SwizzledTile, whose one member is T panels[panels][rows][panel_cols], as its rows and columns.
TypePointer swizzled_tile(const StorageType& panels) {
  StorageType type;
  type.element_bytes = panels.element_bytes;
  type.extents = {panels.extents[1], panels.extents[0] * panels.extents[2]};
  type.panel_cols = panels.extents[2];
  return std::make_shared<StorageType>(type);
}

bool is_swizzled_tile(Dwarf_Die die) {
  const char* const name = dwarf_diename(&die);
  return name != nullptr && std::strncmp(name, "SwizzledTile<", std::strlen("SwizzledTile<")) == 0;
}

TypePointer read_class(Dwarf_Die die) {
  const TypePointer as_scalar = read_scalar(die);
  if (as_scalar == nullptr || dwarf_hasattr(&die, DW_AT_declaration) != 0) return nullptr;
  StorageType type = *as_scalar;
  const bool public_by_default = dwarf_tag(&die) != DW_TAG_class_type;
  for (const Dwarf_Die& child : children(die)) {
    Dwarf_Die member = child;
    const int tag = dwarf_tag(&member);
    if (tag != DW_TAG_member && tag != DW_TAG_inheritance) continue;
    if (dwarf_hasattr(&member, DW_AT_external) != 0) continue;  // a static member
    if (!is_public(member, public_by_default)) return as_scalar;
    const std::optional<Dwarf_Die> member_die = referenced(member, DW_AT_type);
    const TypePointer member_type = member_die ? read_type(*member_die) : nullptr;
    const std::optional<std::size_t> offset = offset_of(member);
    if (member_type == nullptr || !offset) return nullptr;
    const char* const name = tag == DW_TAG_member ? dwarf_diename(&member) : nullptr;
    type.members.push_back({name != nullptr ? name : "", *offset, member_type});
  }
  if (is_swizzled_tile(die)) return swizzled_tile(*type.members.back().type);
  return std::make_shared<StorageType>(type);
}

TypePointer read_type(Dwarf_Die die) {
  Dwarf_Die type;  // without typedefs, const and the like
  if (dwarf_peel_type(&die, &type) != 0) return nullptr;
  switch (dwarf_tag(&type)) {
    case DW_TAG_array_type:
      return read_array(type);
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      return read_class(type);
    default:
      return read_scalar(type);
  }
}

std::optional<Dwarf_Die> function_at(std::uintptr_t address) {
  Dwfl_Module* const module = module_at(address);
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = module != nullptr ? dwfl_module_addrdie(module, address, &bias) : nullptr;
  if (unit == nullptr) return std::nullopt;
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address - bias, &scopes);
  std::optional<Dwarf_Die> function;
  for (int i = 0; i < count && !function; ++i) {
    if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram) function = scopes[i];
  }
  std::free(scopes);
  return function;
}

}  // namespace

TypePointer read_storage_type(std::uintptr_t address) {
  // A function's template arguments may stand at its declaration.
  for (std::optional<Dwarf_Die> function = function_at(address); function;) {
    for (const Dwarf_Die& child : children(*function)) {
      Dwarf_Die argument = child;
      if (dwarf_tag(&argument) != DW_TAG_template_type_parameter) continue;
      const std::optional<Dwarf_Die> type = referenced(argument, DW_AT_type);
      return type ? read_type(*type) : nullptr;
    }
    const std::optional<Dwarf_Die> origin = referenced(*function, DW_AT_abstract_origin);
    function = origin ? origin : referenced(*function, DW_AT_specification);
  }
  return nullptr;
}

}  // namespace cuflash::simt
