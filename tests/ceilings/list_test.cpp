// The list of ceilings: no GPU, but the loops are CUDA's.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ceilings/ceiling.h"
#include "measure.h"

namespace cuflash::bench {
namespace {

TEST(CeilingList, EachHasItsNameAndALoop) {
  std::set<std::string> names;
  for (const Ceiling& ceiling : ceilings()) {
    EXPECT_TRUE(names.insert(ceiling.name).second) << ceiling.name;
    EXPECT_FALSE(ceiling.what.empty()) << ceiling.name;
    EXPECT_TRUE(ceiling.loop != nullptr) << ceiling.name;
    EXPECT_GE(ceiling.arch.compute_capability, 75) << ceiling.name;
  }
  EXPECT_GT(names.size(), 10u);
}

bool has(const std::string& name) {
  return std::any_of(ceilings().begin(), ceilings().end(),
                     [&](const Ceiling& ceiling) { return ceiling.name == name; });
}

// The loops name these as their wholes.
TEST(CeilingList, HasTheWholes) {
  for (const char* name : {"mma_f16", "wgmma_f16", "ffma", "exp2"}) EXPECT_TRUE(has(name)) << name;
}

// The ladder takes its ceilings by name.
TEST(CeilingList, HasACeilingForEachPassOfAStage) {
  for (const Stage* stage : stages()) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : kDTypes) {
        if (!stage->has(pass) || !stage->facts(pass).dtypes.has(dtype)) continue;
        const std::string name = ceiling_of(stage->facts(pass), dtype);
        EXPECT_TRUE(has(name)) << stage->name << ' ' << name;
      }
    }
  }
}

}  // namespace
}  // namespace cuflash::bench
