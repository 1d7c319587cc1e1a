// A file of results.
#ifndef CUFLASH_BENCH_JSON_FILE_H_
#define CUFLASH_BENCH_JSON_FILE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cuflash::bench {

// These throw if the file cannot be written.
void write_text(const std::string& path, const std::string& text);
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_JSON_FILE_H_
