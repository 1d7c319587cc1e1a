// The origin of a measurement.
#include "provenance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace cuflash::bench {
namespace {

// A checkout in a folder of any name has its commit, and nothing in the name is run.
TEST(Provenance, FindsTheCommitInAFolderOfAnyName) {
  const auto before = std::filesystem::current_path();
  const auto outside = before / ("provenance_test_" + std::to_string(getpid()));
  const auto checkout = outside / "Bob's 'work' & touch ran & \"$(touch ran)\" `touch ran`";
  std::filesystem::create_directories(checkout);
  std::filesystem::current_path(checkout);
  EXPECT_EQ(std::system("git init -q . && git -c user.name=Bob -c user.email=bob@example.com "
                        "commit -q --allow-empty -m empty"),
            0);
  std::filesystem::current_path(outside);
  EXPECT_EQ(commit_of(checkout).find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(commit_of(outside / "no such folder"), "unknown");
  EXPECT_FALSE(std::filesystem::exists(outside / "ran"));
  std::filesystem::current_path(before);
  std::filesystem::remove_all(outside);
}

}  // namespace
}  // namespace cuflash::bench
