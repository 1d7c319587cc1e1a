// The list of ceilings: no GPU, but the loops are CUDA's.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ceilings/ceiling.h"
#include "ceilings/report.h"
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
    EXPECT_EQ(ceiling.beside.key.empty(), ceiling.beside.what.empty()) << ceiling.name;
  }
  EXPECT_GT(names.size(), 10u);
}

// The loops name these as their wholes, and measure them before.
TEST(CeilingList, HasTheWholes) {
  const std::string text = list_text(ceilings());
  for (const char* name : {"mma_f16 ", "wgmma_f16 ", "exp2 "}) {
    EXPECT_NE(text.find(std::string("\n") + name), std::string::npos) << name;
  }
}

// The ladder takes its ceilings by name.
TEST(CeilingList, HasACeilingForEachPassOfAStage) {
  for (const Stage* stage : stages()) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : kDTypes) {
        if (!stage->has(pass) || !stage->facts(pass).dtypes.has(dtype)) continue;
        const std::string name = ceiling_of(stage->facts(pass), dtype);
        const auto named = [&](const Ceiling& ceiling) { return ceiling.name == name; };
        EXPECT_TRUE(std::any_of(ceilings().begin(), ceilings().end(), named))
            << stage->name << ' ' << name;
      }
    }
  }
}

}  // namespace
}  // namespace cuflash::bench
