#include "simt/debug_info.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
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

// The frames that share one instruction, innermost first: the line table's entry, then the call
// site of each inlined function around it.
std::vector<Frame> inlined_frames(std::uintptr_t address) {
  std::vector<Frame> frames;
  Dwfl_Module* module = module_at(address);
  if (module == nullptr) return frames;
  Dwarf_Addr bias = 0;
  Dwfl_Line* line = dwfl_module_getsrc(module, address);
  if (line == nullptr) return frames;
  int number = 0, column = 0;
  const char* file = dwfl_lineinfo(line, nullptr, &number, &column, nullptr, nullptr);
  frames.push_back({file != nullptr ? file : "", number, column});

  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Files* files = nullptr;
  if (unit == nullptr || dwarf_getsrcfiles(unit, &files, nullptr) != 0) return frames;
  // The first call finds the innermost scope; only the second goes up through all that contain it.
  Dwarf_Die* innermost = nullptr;
  if (dwarf_getscopes(unit, address - bias, &innermost) <= 0) return frames;
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(innermost, &scopes);
  std::free(innermost);
  for (int i = 0; i < count; ++i) {
    if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) continue;
    const char* caller =
        dwarf_filesrc(files, attribute_number(&scopes[i], DW_AT_call_file), nullptr, nullptr);
    frames.push_back({caller != nullptr ? caller : "",
                      attribute_number(&scopes[i], DW_AT_call_line),
                      attribute_number(&scopes[i], DW_AT_call_column)});
  }
  std::free(scopes);
  return frames;
}

}  // namespace

// Libraries loaded since the session began are looked up again.
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
  for (const Frame& frame : inlined_frames(return_address - 1)) {
    place.order.insert(place.order.begin(), {frame.line, frame.column});
    place.chain +=
        frame.file + ':' + std::to_string(frame.line) + ':' + std::to_string(frame.column) + ';';
    if (place.file.empty() || belongs_to_common(place.file)) {
      place.file = frame.file;
      place.line = frame.line;
    }
  }
  return place;
}

std::string function_name(std::uintptr_t address) {
  Dwfl_Module* module = module_at(address);
  const char* name = module != nullptr ? dwfl_module_addrname(module, address) : nullptr;
  return name != nullptr ? without_parameters(demangle(name)) : "unknown kernel";
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
