#include "simt/debug_info.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <unordered_map>

namespace cuflash::simt {
namespace {

// The debug information of this process, opened on first use and kept.
Dwfl* session() {
  static const Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo,
                                           nullptr, nullptr};
  static Dwfl* dwfl = [] {
    Dwfl* opened = dwfl_begin(&callbacks);
    dwfl_linux_proc_report(opened, getpid());
    dwfl_report_end(opened, nullptr, nullptr);
    return opened;
  }();
  return dwfl;
}

std::string demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : name;
}

// "void cuflash::naive::scores<float, 32>(…)" becomes "cuflash::naive::scores<float, 32>".
std::string without_parameters(std::string name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0 && name.compare(i, 11, "(anonymous ") != 0) {
      name.resize(i);
      break;
    }
  }
  return name.compare(0, 5, "void ") == 0 ? name.substr(5) : name;
}

bool belongs_to_common(const std::string& file) {
  return file.find("common/device/") != std::string::npos ||
         file.find("common/simt/include/") != std::string::npos ||
         file.find("/usr/include/") != std::string::npos ||
         file.find("/usr/lib/") != std::string::npos;
}

int attribute_number(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, name, &attribute) != nullptr) dwarf_formudata(&attribute, &value);
  return static_cast<int>(value);
}

struct Frame {
  std::string file;
  int line;
  int column;
};

// The address range of a function.
struct Function {
  Dwarf_Addr begin, end;
  Dwarf_Die die;
};

// Adds the functions in a scope, at any depth: those of a lambda's class lie in the function that
// makes the lambda.
void add_functions(Dwarf_Die* scope, std::vector<Function>& functions) {
  Dwarf_Die die;
  if (dwarf_child(scope, &die) != 0) return;
  do {
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram: {
        Dwarf_Addr base = 0, begin = 0, end = 0;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &begin, &end)) > 0;) {
          functions.push_back({begin, end, die});
        }
        [[fallthrough]];
      }
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_lexical_block:
        add_functions(&die, functions);
        break;
      default:
        break;
    }
  } while (dwarf_siblingof(&die, &die) == 0);
}

// The function that contains an instruction, or null. A unit is searched once.
Dwarf_Die* function_at(Dwarf_Die* unit, Dwarf_Addr address) {
  static auto& units = *new std::map<const void*, std::vector<Function>>;
  const auto [known, added] = units.try_emplace(unit->addr);
  if (added) add_functions(unit, known->second);
  for (Function& function : known->second) {
    if (address >= function.begin && address < function.end) return &function.die;
  }
  return nullptr;
}

// Adds the call sites of the inlined functions around an instruction, outermost first.
void add_call_sites(Dwarf_Die* scope, Dwarf_Addr address, Dwarf_Files* files,
                    std::vector<Frame>& frames) {
  Dwarf_Die die;
  if (dwarf_child(scope, &die) != 0) return;
  do {
    if (dwarf_haspc(&die, address) != 1) continue;
    if (dwarf_tag(&die) == DW_TAG_inlined_subroutine) {
      const char* caller =
          dwarf_filesrc(files, attribute_number(&die, DW_AT_call_file), nullptr, nullptr);
      frames.push_back({caller != nullptr ? caller : "", attribute_number(&die, DW_AT_call_line),
                        attribute_number(&die, DW_AT_call_column)});
    }
    add_call_sites(&die, address, files, frames);
    return;
  } while (dwarf_siblingof(&die, &die) == 0);
}

// The frames of one instruction, outermost first: the call site of each inlined function around it,
// then the line table's entry.
std::vector<Frame> inlined_frames(std::uintptr_t address) {
  std::vector<Frame> frames;
  Dwfl_Module* module = module_at(address);
  Dwfl_Line* line = module != nullptr ? dwfl_module_getsrc(module, address) : nullptr;
  if (line == nullptr) return frames;
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Files* files = nullptr;
  if (unit != nullptr && dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
    Dwarf_Die* const function = function_at(unit, address - bias);
    if (function != nullptr) add_call_sites(function, address - bias, files, frames);
  }
  int number = 0, column = 0;
  const char* file = dwfl_lineinfo(line, nullptr, &number, &column, nullptr, nullptr);
  frames.push_back({file != nullptr ? file : "", number, column});
  return frames;
}

}  // namespace

// Looks again for libraries loaded since the session began.
Dwfl_Module* module_at(std::uintptr_t address) {
  Dwfl_Module* module = dwfl_addrmodule(session(), address);
  if (module != nullptr) return module;
  dwfl_report_begin_add(session());
  dwfl_linux_proc_report(session(), getpid());
  dwfl_report_end(session(), nullptr, nullptr);
  return dwfl_addrmodule(session(), address);
}

const SourcePlace& source_place(std::uintptr_t return_address) {
  static auto& known = *new std::unordered_map<std::uintptr_t, SourcePlace>;  // The search is slow.
  const auto [found, added] = known.try_emplace(return_address);
  SourcePlace& place = found->second;
  if (!added) return place;
  const std::vector<Frame> frames = inlined_frames(return_address - 1);
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    place.chain +=
        frame->file + ':' + std::to_string(frame->line) + ':' + std::to_string(frame->column) + ';';
    if (place.file.empty() || belongs_to_common(place.file)) {
      place.file = frame->file;
      place.line = frame->line;
    }
  }
  for (const Frame& frame : frames) place.order.push_back({frame.line, frame.column});
  return place;
}

std::string function_name(std::uintptr_t address) {
  Dwfl_Module* module = module_at(address);
  const char* name = module != nullptr ? dwfl_module_addrname(module, address) : nullptr;
  return name != nullptr ? without_parameters(demangle(name)) : "unknown kernel";
}

bool is_standard_library(std::uintptr_t address) {
  Dwfl_Module* module = module_at(address);
  const char* name = module != nullptr ? dwfl_module_addrname(module, address) : nullptr;
  if (name == nullptr) return false;
  for (const char* const prefix : {"_ZSt", "_ZNSt", "_ZNKSt"}) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

std::vector<SharedSymbol> shared_symbols(std::uintptr_t address) {
  std::vector<SharedSymbol> symbols;
  Dwfl_Module* module = module_at(address);
  const int count = module != nullptr ? dwfl_module_getsymtab(module) : 0;
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr unused;
    const char* name =
        dwfl_module_getsym_info(module, i, &symbol, &unused, nullptr, nullptr, nullptr);
    if (name == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_TLS) continue;
    if (symbol.st_size == 0) continue;  // declared here, defined elsewhere
    std::string plain = demangle(name);
    const std::size_t colon = plain.rfind("::");
    if (colon != std::string::npos) plain = plain.substr(colon + 2);
    symbols.push_back({symbol.st_value, symbol.st_size, plain});
  }
  return symbols;
}

std::string short_location(const SourcePlace& place) {
  if (place.file.empty()) return "unknown source (compiled without -g)";
  return place.file.substr(place.file.rfind('/') + 1) + ':' + std::to_string(place.line);
}

std::string source_text(const SourcePlace& place) {
  std::ifstream file(place.file);
  std::string text;
  for (int i = 0; i < place.line && std::getline(file, text); ++i) {
  }
  if (!file) return "";
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

}  // namespace cuflash::simt
