// A grade as JSON.
#ifndef CUFLASH_GRADER_GRADE_JSON_H_
#define CUFLASH_GRADER_GRADE_JSON_H_

#include <nlohmann/json.hpp>

#include "grade.h"

namespace cuflash::exercises {

// {"passed", "checks": {"compiles": "passed" | "failed" | "not reached", ...}, "diagnoses": [...]}
nlohmann::ordered_json to_json(const Grade& grade);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_GRADE_JSON_H_
