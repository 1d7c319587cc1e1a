// A stage of another build of the library. On the CPU simulator each library has device memory of
// its own, so that only the calls that touch none can be made here.
#include "library_stage.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "cuflash/workload.h"

namespace cuflash::bench {
namespace {

Problem problem(const char* name) {
  Problem p;
  EXPECT_TRUE(parse_problem(name, p));
  return p;
}

TEST(LibraryStage, IsTheLibrarysOwn) {
  const Problem plain = problem("b2_h4_q70k90_d64_f16"),
                window = problem("b1_h1_q9k9_d64_f16_left3");
  // As another revision's: of the same name in another folder.
  const std::filesystem::path here = CUFLASH_LIBRARY, folder = testing::TempDir() + "other";
  std::filesystem::create_directory(folder);
  const auto copy = folder / here.filename();
  std::filesystem::copy_file(here, copy, std::filesystem::copy_options::overwrite_existing);
  const char* const names[] = {"03_online_softmax", "01_naive"};
  const Stage before = library_stage(0, copy, names[0]), now = library_stage(1, here, names[1]);
  for (const auto& [stage, name] : {std::pair(&before, names[0]), std::pair(&now, names[1])}) {
    const Stage& own = *find_stage(name);
    EXPECT_STREQ(stage->name, name);
    EXPECT_TRUE(stage->backward.features.has(Feature::kDeterministic));
    for (const Problem& p : {plain, window}) {
      EXPECT_EQ(stage->forward.workspace_bytes(p), own.forward.workspace_bytes(p));
      EXPECT_EQ(stage->backward.workspace_bytes(p), own.backward.workspace_bytes(p));
      // Both find that there are no tensors.
      EXPECT_EQ(stage->forward.run(p, {}, {}, nullptr), FlashAttentionError::NULL_POINTER);
      EXPECT_EQ(stage->backward.run(p, {}, {}, nullptr), FlashAttentionError::NULL_POINTER);
    }
  }
  EXPECT_NE(before.forward.workspace_bytes(plain), now.forward.workspace_bytes(plain));
  const auto loaded = [](const std::filesystem::path& path) {
    return dlsym(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD), "cuflash_forward");
  };
  EXPECT_NE(loaded(copy), loaded(here));
}

TEST(LibraryStage, ThatMayBeOlderIsToldNoMoreThanItMustBe) {
  const Stage stage = library_stage(0, CUFLASH_TOLD_LIBRARY, "any");
  const auto size = [](const char* name) {
    return static_cast<int>(library_supports(0, CUFLASH_FORWARD, problem(name)).error);
  };
  EXPECT_EQ(size("b1_h1_q9k9_d64_f16_causal"), 40);
  EXPECT_EQ(size("b1_h1_q9k9_d64_f16_right3"), 48);
  EXPECT_EQ(static_cast<int>(stage.forward.run({}, {}, {}, nullptr)), 11);
  EXPECT_EQ(static_cast<int>(stage.backward.run({}, {}, {}, nullptr)), 12);
}

TEST(LibraryStage, SaysWhatItCannotDo) {
  library_stage(0, CUFLASH_LIBRARY, "05_wmma");
  const Problem p = problem("b1_h1_q9k9_d64_f16");
  EXPECT_TRUE(library_supports(0, CUFLASH_FORWARD, p));
  const Support backward = library_supports(0, CUFLASH_BACKWARD, p);
  EXPECT_EQ(backward.error, FlashAttentionError::UNSUPPORTED_BY_STAGE);
  EXPECT_EQ(backward.reason, "05_wmma has no backward pass");
  library_stage(0, CUFLASH_LIBRARY, "77_none");
  EXPECT_EQ(library_supports(0, CUFLASH_FORWARD, p).error, FlashAttentionError::UNKNOWN_STAGE);
}

TEST(LibraryStage, IsInALibrary) {
  EXPECT_THROW(library_stage(0, "no/such/library.so", "01_naive"), std::runtime_error);
  EXPECT_THROW(library_stage(0, "libm.so.6", "01_naive"), std::runtime_error);
}

}  // namespace
}  // namespace cuflash::bench
