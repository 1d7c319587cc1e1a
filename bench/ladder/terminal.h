// The terminal that a program writes to.
#ifndef CUFLASH_BENCH_LADDER_TERMINAL_H_
#define CUFLASH_BENCH_LADDER_TERMINAL_H_

#include <cstddef>
#include <string>

namespace cuflash::bench {

// How many columns there are: what the environment's COLUMNS says, or else the terminal behind
// stdout; 120 where it is a file. At least 60.
std::size_t terminal_width();

// Words in bold, faint or red where stdout is a terminal and NO_COLOR is not set; else as they are.
std::string bold(const std::string& text);
std::string faint(const std::string& text);
std::string red(const std::string& text);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_TERMINAL_H_
