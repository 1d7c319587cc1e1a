// JSON as text.
#ifndef CUFLASH_HARNESS_JSON_TEXT_H_
#define CUFLASH_HARNESS_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace cuflash::harness {

// On one line. A byte that is not UTF-8, as a source's line or a path may have, becomes U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_JSON_TEXT_H_
