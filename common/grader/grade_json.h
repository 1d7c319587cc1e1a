// A grade as JSON.
#ifndef CUFLASH_GRADER_GRADE_JSON_H_
#define CUFLASH_GRADER_GRADE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "grade.h"

namespace cuflash::exercises {

// {"passed", "checks": {"compiles": "passed" | "failed" | "not reached", ...}, "diagnoses": [...]}
nlohmann::ordered_json to_json(const Grade& grade);

// As text. A byte that is not UTF-8, as a quoted line may have, becomes U+FFFD.
std::string text_of(const nlohmann::ordered_json& json);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_GRADE_JSON_H_
