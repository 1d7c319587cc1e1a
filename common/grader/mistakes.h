// The classical mistakes of attention kernels, each with an id that never changes and a sentence.
#ifndef CUFLASH_GRADER_MISTAKES_H_
#define CUFLASH_GRADER_MISTAKES_H_

#include <bitset>
#include <vector>

#include "cuflash/problem.h"

namespace cuflash::exercises {

enum class Mistake {
  // The mask.
  kNoMask,
  kMaskTopLeft,
  kMaskOffsetSign,
  kMaskOneTooFew,
  kMaskOneTooMany,
  kMaskInverted,
  kNoWindow,
  kAlwaysCausal,
  kMaskedIsZero,
  kMaskedScoreAsProb,
  // Heads.
  kKvHeadModulo,
  kKvHeadZero,
  // Scores.
  kNoScale,
  kScaleTwice,
  kScaleDivides,
  kScaleOfLog2,
  kScaleWithoutLog2,
  kExp2,
  kExpOfLog2,
  kScoresFromV,
  kOutputFromK,
  kRowsWithoutFirst,
  kScoreOfLastFour,
  kOutputOfLastKey,
  // Fragments.
  kKeysTurned,
  kKeysNotTransposed,
  kValuesTurned,
  // Tiles.
  kOnlyFirstTile,
  kLastTileMissing,
  kTilesOfFirstQuery,
  kTilesWithoutLastQuery,
  kTilesTopLeft,
  kHiddenTilesWalked,
  kPartialTileMissing,
  kTailAsZeros,
  // Softmax, over a row or over tiles.
  kNoMax,
  kMaxStartsAtZero,
  kNoMaxGuard,
  kMaxGuardKept,
  kNoSumGuard,
  kMaxOfTileOnly,
  kMaxNotKept,
  kSumUnderOldMax,
  kNoRescale,
  kNoRescaleOfO,
  kNoRescaleOfSum,
  kRescaleInverted,
  kRescaleExp2,
  kSumRescaledLate,
  kSumOfLastTile,
  kMaxOfLane,
  kSumOfLane,
  kRescaledLate,
  kFactorOfColumn,
  kFactorOfLane,
  kFactorOfGpuLane,
  kNotDivided,
  kDividedTwice,
  kDividedEveryTile,
  // LSE.
  kLseNoMax,
  kLseNoLog,
  kLseLog2,
  kLseOnlyMax,
  kLseMinus,
  kLseNotWritten,
  // Backward.
  kNoDelta,
  kDeltaAdded,
  kDeltaOutside,
  kDiagonalOnly,
  kNoProb,
  kNoLse,
  kLseAdded,
  kLseWithoutLog2,
  kLseScaled,
  kScoreAndDpSwapped,
  kProbAndDsSwapped,
  kScaleInDs,
  kLseOfColumn,
  kDeltaOfColumn,
  kMaskTurned,
  kMaskOffsetsExchanged,
  kMaskWithoutOffsets,
  kMaskWithoutRowOffset,
  kTailNotMasked,
  kTransposedTwice,
  kQueriesTurned,
  kOutputGradientsTurned,
  kQueriesForOutputGradients,
  kCount,
};

using Mistakes = std::bitset<static_cast<std::size_t>(Mistake::kCount)>;

// Which pass a mistake can be made in.
enum class Where { kForward, kBackward, kBoth };

// What a stage must have for a mistake to be made in it.
enum class Needs { kNothing, kWholeRows, kTiles, kOnlineSoftmax, kFragments };

struct MistakeRow {
  Mistake mistake;
  Where where;
  Needs needs;
  const char* id;         // stable: lists of wrong answers and lecturers' scripts use it
  const char* message;    // what is wrong and where to look
  const char* more = "";  // what is right; shown only to whom asks for it
};

// All of them, the likelier first.
const std::vector<MistakeRow>& mistakes();

inline bool applies(const MistakeRow& row, Pass pass) {
  return row.where == Where::kBoth || (row.where == Where::kForward) == (pass == CUFLASH_FORWARD);
}

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_MISTAKES_H_
