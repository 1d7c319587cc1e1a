/// @file simulator.h
/// The CPU simulator's public functions, for host code that is built on both backends. On a GPU,
/// functions of the same names do nothing, count nothing and find nothing.
#ifndef CUFLASH_SIMT_SIMULATOR_H_
#define CUFLASH_SIMT_SIMULATOR_H_

#include "simt/machine.h"

namespace cuflash::simt {

#ifdef CUFLASH_SIMT

/// True where kernels run on the simulator.
inline constexpr bool kSimulated = true;

#else

inline constexpr bool kSimulated = false;

inline bool counts_accesses() { return false; }
inline Counts counts() { return {}; }
inline void reset_counts() {}
inline std::vector<LineCounts> line_counts() { return {}; }
inline std::vector<SharedMap> shared_maps() { return {}; }
inline std::vector<Finding> take_findings() { return {}; }
inline void record_block(bool) {}
inline std::vector<BlockRun> take_block_runs() { return {}; }
inline FindingKind Finding::kind() const { return {}; }
inline std::string Finding::title() const { return {}; }
inline std::string Finding::text() const { return {}; }
inline std::string Finding::message(const std::string&) const { return {}; }
inline void report_only_block(const std::optional<BlockIndex>&) {}
inline bool parse_schedule(const std::string&, Schedule&) { return false; }
inline std::string schedule_name(const Schedule&) { return {}; }
inline void set_schedule(const Schedule&) {}
inline Schedule schedule() { return {}; }
inline void name_memory(const void*, const char*) {}
inline void set_memory_limit(std::size_t) {}
inline std::size_t memory_in_use() { return 0; }

#endif

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_SIMULATOR_H_
