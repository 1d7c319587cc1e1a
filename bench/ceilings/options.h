// The command line of `ceilings`.
#ifndef CUFLASH_BENCH_CEILINGS_OPTIONS_H_
#define CUFLASH_BENCH_CEILINGS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

namespace cuflash::bench {

struct CeilingOptions {
  std::string json;
  bool list = false;
};

void declare(CLI::App& app, CeilingOptions& options);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_OPTIONS_H_
