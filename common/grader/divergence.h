// Where an exercise first does something else than the stage: the first store, or the first operand
// of a product, that differs under the same schedule, and what its thread has read.
#ifndef CUFLASH_GRADER_DIVERGENCE_H_
#define CUFLASH_GRADER_DIVERGENCE_H_

#include "sample.h"

namespace cuflash::exercises {

// Of the smallest wrong sample whose values or reads tell something. The id is empty if all stores
// are equal, kNeverStored if the exercise leaves out a store, kWrongPitch (difference.h) if it
// reads rows at a wrong distance.
inline constexpr const char* kNeverStored = "never-stored";
inline constexpr const char* kWrongPitch = "wrong-leading-dimension";
struct Divergence {
  Diagnosis cause;          // what the values and the reads tell; the message may be empty
  bool of_product = false;  // not of a store
  bool weak = false;        // another problem may tell more
};
Divergence divergence(const Stage& exercise, const Stage& own, const std::vector<Sample>& samples);

// The first access to shared memory, of an element that the stage never accesses: of the smallest
// sample with a fault. Or the first read of one that the stage's warp does not read in the same
// tile, if a product is wrong and `race`, what is said of a race, names it. The id is empty if
// there is none.
Diagnosis stray_access(const Stage& exercise, const Stage& own, const std::vector<Sample>& samples,
                       const std::string& race = "");

// Which warp stores less to a shared array than in the stage, of the smallest sample with a fault.
// "" if none does.
std::string share_left_out(const Stage& exercise, const Stage& own,
                           const std::vector<Sample>& samples);

// Of the smallest wrong sample with several tiles in which a block stores the rows of O that
// another block stores in the stage. "" if there is none.
std::string tile_of_other_block(const Stage& exercise, const Stage& own,
                                const std::vector<Sample>& samples);

// How many rows of O are stored more often than in the stage, of the smallest sample with a fault.
// "" if none is.
std::string rows_stored_again(const Stage& exercise, const Stage& own,
                              const std::vector<Sample>& samples);

// The first call at an mbarrier or a named barrier that is not the one that the thread makes in the
// stage: of the smallest sample with a fault. "" if there is none.
std::string differing_barrier_call(const Stage& exercise, const Stage& own,
                                   const std::vector<Sample>& samples);

// How the buffer and the parity of the last of a thread's calls, where there are several buffers,
// follow from those of the calls that it makes in the stage. "" if it cannot be told.
std::string slot_in_words(const std::vector<std::string>& made,
                          const std::vector<std::string>& of_stage, bool stays);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_DIVERGENCE_H_
