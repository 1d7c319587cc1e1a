// The terminal that a program writes to.
#ifndef CUFLASH_BENCH_TERMINAL_H_
#define CUFLASH_BENCH_TERMINAL_H_

#include <cstddef>
#include <string>

namespace cuflash::bench {

// The number of columns: the environment variable COLUMNS, or else the width of the terminal behind
// stdout; 120 if stdout is a file. At least 60.
std::size_t terminal_width();

// The text in bold, faint or red if stdout is a terminal and NO_COLOR is not set; otherwise
// unchanged.
std::string bold(const std::string& text);
std::string faint(const std::string& text);
std::string red(const std::string& text);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TERMINAL_H_
