// Reads and writes text files.
#ifndef CUFLASH_BENCH_JSON_FILE_H_
#define CUFLASH_BENCH_JSON_FILE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cuflash::bench {

// These throw if the file cannot be written. In the JSON file each entry of the whole has a line,
// and so does each of its entries, such as a row of a result.
void write_text(const std::string& path, const std::string& text);
void write_json(const std::string& path, const nlohmann::ordered_json& json);

// Throws if the file cannot be read.
std::string text_of_file(const std::string& path);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_JSON_FILE_H_
