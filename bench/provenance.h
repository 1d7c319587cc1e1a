// The origin of a measurement.
#ifndef CUFLASH_BENCH_PROVENANCE_H_
#define CUFLASH_BENCH_PROVENANCE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cuflash::bench {

struct Provenance {
  std::string device;    // "NVIDIA H200"
  std::string driver;    // version of NVIDIA's driver and the newest CUDA that it supports
  std::string cuda;      // version of the CUDA runtime
  std::string backend;   // "cuda" or "simt"
  std::string clocks;    // "at most 1980 MHz (SM), 3201 MHz (memory)", or "none"
  std::string compiler;  // of the host code
  std::string commit;    // short hash, with "-dirty" if files differ from the commit
  std::string command;   // the command line
  std::string date;      // UTC, ISO 8601
};

Provenance provenance(int argc, char** argv);

// The commit that is checked out in a folder, as the field `commit`; "unknown" if there is none.
std::string commit_of(const std::string& folder);

// As an object with the names of the fields.
nlohmann::ordered_json to_json(const Provenance& p);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_PROVENANCE_H_
