// Command lines and failures of the programs of this folder.
#ifndef CUFLASH_BENCH_PROGRAM_H_
#define CUFLASH_BENCH_PROGRAM_H_

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>

#include "harness/printed.h"
#include "provenance.h"

namespace cuflash::bench {

// Thrown for a wrong command line. what() is a whole sentence for the user.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses the command line and calls run(provenance), which returns the exit status. A failure is a
// sentence on stderr; the status is then 2 if the command line is wrong, and 1 otherwise.
template <class Run>
int run_program(CLI::App& app, int argc, char** argv, Run run) {
  const auto fail = [](const std::string& sentence, int status) {
    fmt::print(stderr, "cuflash: {}\n", sentence);
    return status;
  };
  try {
    app.parse(argc, argv);
    const int status = run(provenance(argc, argv));
    harness::check_printed();
    return status;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + ". See --help.", 2);
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_PROGRAM_H_
