// A store of an exercise that differs from the stage's own, and what its value and its thread's
// reads tell about the cause.
#ifndef CUFLASH_GRADER_DIFFERENCE_H_
#define CUFLASH_GRADER_DIFFERENCE_H_

#include <string>
#include <vector>

#include "access_history.h"

namespace cuflash::exercises {

// An element that is written differently: `mine` by the exercise, `own` by the stage. One of them
// is null where only the other writes it.
struct Difference {
  const Event* mine = nullptr;
  const Event* own = nullptr;
  const Event& event() const { return mine != nullptr ? *mine : *own; }
};

// What some differences have in common: a stable id, and words for it. Empty if nothing was found.
struct Finding {
  const char* id = "";
  std::string words;
  std::string more = {};  // what the stage has there
};

// What is found where nothing better is; another problem may tell more.
inline constexpr const char* kStoreDiffers = "store-differs";
inline constexpr const char* kMaskDiffers = "mask-differs";
inline constexpr const char* kStoresZero = "stores-zero";

// What the values of a group tell: differences of one array, at one time, of one kind.
Finding diagnose_from_values(const std::vector<Difference>& group, const AccessHistory& mine,
                             const AccessHistory& own, const Problem& problem);

// The first array of which the writer of the element has read other elements than the stage's.
Finding diagnose_from_reads(const Difference& first, const AccessHistory& mine,
                            const AccessHistory& own);

// Of a read of an element that the stage never accesses: how the reads of the array that it means
// ("" for its own), until then, follow from the stage's.
Finding diagnose_from_stray_read(const Event& stray, const std::string& meant,
                                 const AccessHistory& mine, const AccessHistory& own);

// Where a block of an operand of the exercise lies, and where the stage's that it holds.
struct Moved {
  std::int64_t row, column, from_row, from_column;
};
// ". From 16 rows ..." where these blocks go on by another step than 16 rows or columns; else "".
std::string step_of_blocks(const std::vector<Moved>& moved);

// True if two values are equal but for rounding, in an array of values of this magnitude.
bool close(double a, double b, double scale);

// ---- Elements in words --------------------------------------------------------------------------

std::string number(double value);
// "0.5 instead of 0.25", with as many digits as tell the two apart.
std::string instead_of(double got, double wanted);
// "sK[3][8]", "P[query 12][key 70]".
std::string in_words(const Event& event);
// "sK[16 to 31][0 to 63]": the smallest box around some elements of one array.
std::string box(const std::vector<Element>& elements);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_DIFFERENCE_H_
