// Grades one exercise: runs it on a short table of problems, under three schedules each, and names
// what is wrong.
#ifndef CUFLASH_GRADER_GRADE_H_
#define CUFLASH_GRADER_GRADE_H_

#include <functional>
#include <nlohmann/json.hpp>

#include "cuflash/stage.h"
#include "sample.h"

namespace cuflash::exercises {

// What a grade looks at, in this order. The first that fails is diagnosed; those after it are not
// reached.
enum class Check { kCompiles, kMachine, kValues, kBytes, kConflicts, kBarriers, kPassed };

struct Grade {
  Check failed = Check::kPassed;  // the first check that fails
  std::vector<Diagnosis> diagnoses;

  bool passed() const { return failed == Check::kPassed; }
};

// {"passed", "checks": {"compiles": "passed" | "failed" | "not reached", ...}, "diagnoses": [...]}
nlohmann::ordered_json to_json(const Grade& grade);

// `exercise` is the stage with the exercise's kernel in it, `own` the stage itself. `runs`: under
// which schedules each problem is run. `begins` is called before each with its number, from 1 on,
// how many there are, and its name; where it returns false, the problems before it are the grade.
Grade grade(const Stage& exercise, const Stage& own, Pass pass,
            harness::Runs runs = harness::Runs::kAll,
            const std::function<bool(int, int, const char*)>& begins = {});

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_GRADE_H_
