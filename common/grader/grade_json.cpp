#include "grade_json.h"

namespace cuflash::exercises {

nlohmann::ordered_json to_json(const Grade& grade) {
  nlohmann::ordered_json json, checks;
  for (int n = 0; n < static_cast<int>(Check::kPassed); ++n) {
    const auto check = static_cast<Check>(n);
    checks[check_name(check)] = check < grade.failed    ? "passed"
                                : check == grade.failed ? "failed"
                                                        : "not reached";
  }
  json["passed"] = grade.passed();
  json["checks"] = checks;
  json["diagnoses"] = nlohmann::ordered_json::array();
  for (const Diagnosis& diagnosis : grade.diagnoses) {
    nlohmann::ordered_json entry = {{"id", diagnosis.id}, {"message", diagnosis.message}};
    if (!diagnosis.details.empty()) entry["details"] = diagnosis.details;
    if (!diagnosis.more.empty()) entry["more"] = diagnosis.more;
    json["diagnoses"].push_back(entry);
  }
  return json;
}

}  // namespace cuflash::exercises
