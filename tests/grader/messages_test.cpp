// What a message may tell a student who has not asked for more.
#include <gtest/gtest.h>

#include <string>

#include "costs.h"

namespace cuflash::exercises {
namespace {

constexpr struct {
  const char *message, *more = "";
} kMistakes[] = {
#define CUFLASH_MISTAKE(name, where, needs, id, ...) {__VA_ARGS__},
#include "mistakes.inc"
#undef CUFLASH_MISTAKE
};

TEST(Messages, DoNotTellTheAnswer) {
  for (const auto& row : kMistakes) {
    for (const char* answer : {"col_major", "row_major", "dS = P (dP", "P = exp(S"}) {
      EXPECT_EQ(std::string(row.message).find(answer), std::string::npos) << row.message;
    }
  }
}

TEST(Messages, CountRowsThatBeginInOneBank) {
  const auto said = [](int columns, std::size_t element_bytes) {
    return banks_of_rows(
        "s += sQ[r][d] * sK[lane][d];",
        {{"scores",
          0,
          {{"sQ", 0, element_bytes, {32, 64}}, {"sK", 0, element_bytes, {32, columns}}}}});
  };
  EXPECT_EQ(
      said(64, 4),
      " The rows of sK are 256 bytes apart, 64 banks: of 32 rows, 32 begin in the same bank.");
  EXPECT_EQ(
      said(65, 2),
      " The rows of sK are 130 bytes apart, 32.5 banks: of 32 rows, 2 begin in the same bank.");
}

}  // namespace
}  // namespace cuflash::exercises
