// Finds the lines of accesses and the names of kernels and of __shared__ variables by their
// addresses. Reads the debug information of the running program through libdw.
#ifndef CUFLASH_SIMT_DEBUG_INFO_H_
#define CUFLASH_SIMT_DEBUG_INFO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct Dwfl_Module;  // libdw's

namespace cuflash::simt {

// The place of an instruction in the source.
struct SourcePlace {
  std::string file;  // full path; empty if unknown
  int line = 0;
  // The chain of inlined calls that leads to the instruction, as "file:line:column" joined; two
  // copies of one access (an unrolled loop) have the same chain.
  std::string chain;
  // Sorts in the order of the source: the lines and columns of the chain, from the kernel inwards.
  std::vector<std::pair<int, int>> order;
};

// A named array in the thread-local memory that serves as shared memory.
struct SharedSymbol {
  std::uintptr_t offset;  // within the module's thread-local block
  std::size_t bytes;
  std::string name;  // "tile", without its namespace
};

// The innermost line outside common/ that leads to the instruction before `return_address`: an
// access inside a function of common/device belongs to the kernel's line that calls the function.
const SourcePlace& source_place(std::uintptr_t return_address);

// The demangled name of the function at `address`, without its parameters.
std::string function_name(std::uintptr_t address);

// True if the address is in a function of namespace std that is not inlined into another.
bool is_standard_library(std::uintptr_t address);

// The thread-local variables of the module that contains `address`.
std::vector<SharedSymbol> shared_symbols(std::uintptr_t address);

// The module that contains `address`, or null.
Dwfl_Module* module_at(std::uintptr_t address);

// "kernel.cuh:97" and the text of that line, without leading blanks.
std::string short_location(const SourcePlace& place);
std::string source_text(const SourcePlace& place);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_DEBUG_INFO_H_
