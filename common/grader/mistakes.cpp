#include "mistakes.h"

namespace cuflash::exercises {
namespace {

constexpr Where F = Where::kForward, B = Where::kBackward, A = Where::kBoth;
constexpr Needs None = Needs::kNothing, Rows = Needs::kWholeRows, Tiles = Needs::kTiles,
                Online = Needs::kOnlineSoftmax, Fragments = Needs::kFragments;

const std::vector<MistakeRow> kMistakes = {
    {Mistake::kNoMask, A, None, "no-mask",
     "There is no mask: with `causal`, queries see the keys after them. visible(seq, i, j) says "
     "which keys count."},
    {Mistake::kMaskTopLeft, A, None, "mask-top-left",
     "The causal mask hangs at the top left corner (j <= i). It belongs at the bottom right: the "
     "last query sees every key, so query i sees j <= i + seq_kv - seq_q."},
    {Mistake::kMaskOffsetSign, A, None, "mask-offset-sign",
     "The causal mask is shifted the wrong way: j <= i + seq_kv - seq_q is right, and this "
     "computes j <= i + seq_q - seq_kv."},
    {Mistake::kMaskOneTooFew, A, None, "mask-one-too-few",
     "Every query sees one key too few: its own is hidden. Look for < where <= is meant, or for a "
     "range that ends with the query: its end is one past the last."},
    {Mistake::kMaskOneTooMany, A, None, "mask-one-too-many",
     "Every query sees one key too many: the first one after it. Look for a + 1, or for a bound "
     "that is an index in one place and a count in another."},
    {Mistake::kMaskInverted, A, None, "mask-inverted",
     "The mask is inverted: hidden keys count and visible ones do not. A `!` is missing or too "
     "many."},
    {Mistake::kNoWindow, A, None, "no-window",
     "The mask knows `causal` but no window: with window_left or window_right, a query sees only "
     "keys near its own place, i + seq_kv - seq_q. visible(seq, i, j) knows the whole mask."},
    {Mistake::kAlwaysCausal, A, None, "always-causal",
     "The causal rule, j <= i + seq_kv - seq_q, is applied in every problem. It holds only with "
     "`causal`; without it a query also sees the keys after its own place."},
    {Mistake::kMaskedIsZero, F, None, "masked-is-zero",
     "A masked score is 0, and exp(0 - max) is not nothing: the hidden key still gets a share. "
     "A masked score is -INFINITY, whose exp is exactly 0."},
    {Mistake::kKvHeadModulo, F, None, "kv-head-modulo",
     "Grouped heads: query head h reads KV head h % heads_kv. Groups are contiguous, so it is "
     "h / (heads_q / heads_kv), which kv_head(p, h) computes."},
    {Mistake::kKvHeadZero, F, None, "kv-head-zero",
     "All query heads read KV head 0. Which one each must read, kv_head(p, h) says."},

    {Mistake::kNoScale, A, None, "no-scale",
     "The scores are not multiplied by softmax_scale: the softmax is much too sharp."},
    {Mistake::kScaleTwice, A, None, "scale-twice",
     "The scores are multiplied by softmax_scale twice: the softmax is too flat."},
    {Mistake::kScaleDivides, A, None, "scale-divides",
     "The scores are divided by softmax_scale instead of multiplied by it: it already is "
     "1 / sqrt(head_dim)."},
    {Mistake::kScaleOfLog2, A, None, "scale-of-log2",
     "The scores carry a factor log2(e), which belongs with exp2f, but the exponential is expf."},
    {Mistake::kExp2, A, None, "exp2",
     "The exponential is 2^x where e^x is meant: exp2f needs scores multiplied by log2(e)."},
    {Mistake::kExpOfLog2, A, None, "exp-of-log2",
     "The exponential is e^x, but x carries a factor log2(e): its base must be 2."},
    {Mistake::kScaleWithoutLog2, A, None, "scale-without-log2",
     "The scores lack a factor log2(e): 2^x is e^x only where x carries it, and the LSE or the "
     "maximum that is subtracted does."},
    {Mistake::kScoresFromV, F, None, "scores-from-v",
     "The scores are Q V^T: the rows of V stand where those of K should."},
    {Mistake::kOutputFromK, F, None, "output-from-k",
     "O is P K: the rows of K stand where those of V should."},
    {Mistake::kRowsWithoutFirst, F, Tiles, "tile-from-row-zero",
     "Every tile holds the first rows of its matrix: the tile's first row is not added. Row r of "
     "a tile is row first + r of the matrix."},

    {Mistake::kKeysTurned, F, Fragments, "keys-turned",
     "In the scores each 16 x 16 block of K is the transpose of what it should be, though it "
     "stands in its place.",
     "A row of sK is a column of K^T, which WMMA calls col_major."},
    {Mistake::kKeysNotTransposed, F, Fragments, "keys-not-transposed",
     "The scores are Q K, not Q K^T: the tile is read as if its rows were the head's dimensions.",
     "Block n of the keys begins at row 16 n of sK, step k of the dimensions at column 16 k."},
    {Mistake::kValuesTurned, F, Fragments, "values-turned",
     "In O = P V each 16 x 16 block of V is the transpose of what it should be, though it stands "
     "in its place.",
     "A row of sV is a row of V, which WMMA calls row_major."},

    {Mistake::kOnlyFirstTile, F, Tiles, "only-first-tile",
     "Only the first KV tile is used: the loop over tiles ends after one."},
    {Mistake::kPartialTileMissing, F, Tiles, "partial-tile-missing",
     "The last, partial KV tile is left out: the number of tiles must be rounded up, not down."},
    {Mistake::kLastTileMissing, F, Tiles, "last-tile-missing",
     "The last KV tile that a query sees is left out: the loop over tiles stops one too early."},
    {Mistake::kTilesOfFirstQuery, F, Tiles, "tiles-of-first-query",
     "The loop over tiles ends where the block's first query stops seeing keys. Its last query "
     "sees the most."},
    {Mistake::kTilesWithoutLastQuery, F, Tiles, "tiles-without-last-query",
     "The loop over tiles leaves out the keys that only the block's last query sees: the end of a "
     "range of queries is one past the last."},
    {Mistake::kTilesTopLeft, F, Tiles, "tiles-top-left",
     "With a causal mask the loop over tiles ends at the block's last query, as if query i saw the "
     "keys j <= i. The end needs the mask's offset too: query i sees j <= i + seq_kv - seq_q."},
    {Mistake::kScoreOfLastFour, F, None, "score-of-last-step",
     "A score is the product of the last four columns alone: each step of the loop over columns "
     "overwrites what the steps before it have summed up, = where += is meant."},
    {Mistake::kOutputOfLastKey, F, None, "output-of-last-key",
     "An element of O is the product with the last key alone: each key overwrites what the keys "
     "before it have summed up, = where += is meant."},
    {Mistake::kTailAsZeros, F, Tiles, "tail-as-zeros",
     "Keys past the end count: the rows that fill up the last tile are zeros, so their score is "
     "0, and exp(0 - max) is not nothing. A key j >= seq.num_keys must get -INFINITY, like a "
     "masked one."},

    {Mistake::kNoMax, F, None, "no-max",
     "The row's maximum is not subtracted before exp: from a score of 89 on the exponential "
     "overflows to infinity, and O and LSE with it."},
    {Mistake::kMaxStartsAtZero, F, None, "max-starts-at-zero",
     "The maximum starts at 0 instead of -INFINITY: where all scores of a row are far below 0, "
     "every exp underflows and the row's sum is lost."},
    {Mistake::kNoMaxGuard, F, None, "no-max-guard",
     "Where no key is seen the maximum is -inf, and exp(-inf - (-inf)) is NaN. Subtract 0 there: "
     "every exp is then 0, as it must be."},
    {Mistake::kMaxGuardKept, F, Online, "max-guard-kept",
     "The 0 that stands in for the maximum while no key is seen is kept as the running maximum: "
     "where all later scores of the row are far below 0, every exp underflows. Keep -INFINITY, and "
     "subtract 0 only in the exponents."},
    {Mistake::kNoSumGuard, F, None, "no-sum-guard",
     "A row that sees no key at all has the sum 0, and 0 / 0 is NaN. Its O must be 0: divide "
     "only where the sum is above 0."},
    {Mistake::kNoRescaleOfO, F, Online, "no-rescale-of-o",
     "O is not rescaled when the maximum grows: what was added under the old maximum must be "
     "multiplied by o_scale = exp(old maximum - new maximum) before the next tile is added."},
    {Mistake::kNoRescaleOfSum, F, Online, "no-rescale-of-sum",
     "row_sum is not rescaled when the maximum grows: the sum so far must be multiplied by "
     "o_scale = exp(old maximum - new maximum), just like O."},
    {Mistake::kNoRescale, F, Online, "no-rescale",
     "Neither O nor row_sum is rescaled when the maximum grows: o_scale is missing, or it is "
     "always 1 because row_max was updated before o_scale was computed from it."},
    {Mistake::kRescaleInverted, F, Online, "rescale-inverted",
     "o_scale has the wrong sign in its exponent: it is exp(old maximum - new maximum), at most "
     "1. exp(new - old) grows, and is infinite at the first tile, where the old maximum is "
     "-inf."},
    {Mistake::kRescaleExp2, F, Online, "rescale-exp2",
     "o_scale is a power of 2 and the probabilities are powers of e: both need the same base."},
    {Mistake::kSumRescaledLate, F, Online, "sum-rescaled-late",
     "o_scale also shrinks what the new tile adds to row_sum: multiply the old sum first, then "
     "add. At the first tile o_scale is 0, and all is lost."},
    {Mistake::kMaxOfTileOnly, F, Online, "max-of-tile-only",
     "The maximum of each tile stands alone: the new maximum is that of the old one and the "
     "tile's, and never falls. When it falls, o_scale exceeds 1 and can overflow."},
    {Mistake::kMaxNotKept, F, Online, "max-not-kept",
     "The running maximum is never stored: it is still -inf at the next tile, so o_scale is 0 "
     "and only the last tile survives."},
    {Mistake::kSumUnderOldMax, F, Rows, "sum-under-old-max",
     "The sum is taken while the maximum is still being found: each term is relative to the "
     "maximum so far. Find the maximum first, or multiply the sum by exp(old maximum - new "
     "maximum) when it grows."},
    {Mistake::kSumOfLastTile, F, Online, "sum-of-last-tile",
     "row_sum holds the last tile's sum only: it must be o_scale times the old sum plus the "
     "tile's."},
    {Mistake::kSumOfLane, F, Online, "sum-of-lane",
     "Every lane sums up its own keys only: the sum of a row is warp_sum() of its lanes' "
     "probabilities."},
    {Mistake::kMaxOfLane, F, Online, "max-of-lane",
     "Every lane has a maximum of its own keys only: the maximum of a row is warp_max() of its "
     "lanes' scores, the same for all of them."},
    {Mistake::kRescaledLate, F, Online, "rescaled-late",
     "o_scale also shrinks what the new tile adds to O: it belongs before the product P V. At the "
     "first tile it is 0, and all is lost."},
    {Mistake::kFactorOfColumn, F, Fragments, "factor-of-column",
     "Element (r, c) of O is scaled by the factor of row c: the factors were loaded as equal rows.",
     "A leading dimension of 0 makes equal columns where they are the lines, in mem_col_major."},
    {Mistake::kFactorOfLane, F, Fragments, "factor-of-lane",
     "Each lane scales what it holds of O by the factor of the row that it has in S. Which rows "
     "its elements x[e] belong to is not specified: load the factors as a fragment of the same "
     "type."},
    {Mistake::kFactorOfGpuLane, F, Fragments, "factor-of-gpu-lane",
     "The rows of x[e] are taken to be lane / 4 and lane / 4 + 8. So it is on today's GPUs; "
     "nothing says so, and here it is otherwise: load the factors as a fragment of the same type."},
    {Mistake::kLseNotWritten, F, None, "lse-not-written",
     "LSE is never written: where p.lse is not null, each row's max + log(sum) belongs there."},
    {Mistake::kNotDivided, F, None, "not-divided",
     "O is not divided by the row's sum: the weights do not add up to 1."},
    {Mistake::kDividedTwice, F, None, "divided-twice", "O is divided by the row's sum twice."},
    {Mistake::kDividedEveryTile, F, Online, "divided-every-tile",
     "The probabilities of every tile are divided by the sum so far, and O by the whole sum at the "
     "end: divide once, after the last tile."},

    {Mistake::kLseNoMax, F, None, "lse-no-max",
     "LSE lacks the maximum that was subtracted: LSE = max + log(sum)."},
    {Mistake::kLseNoLog, F, None, "lse-no-log",
     "LSE lacks the logarithm of the sum: LSE = max + log(sum)."},
    {Mistake::kLseLog2, F, None, "lse-log2",
     "LSE takes the logarithm of the sum to base 2: it is the natural one, logf."},
    {Mistake::kLseOnlyMax, F, None, "lse-only-max",
     "LSE is the maximum alone: the logarithm of the sum is missing."},
    {Mistake::kLseMinus, F, None, "lse-minus", "LSE is max - log(sum): it is max + log(sum)."},

    {Mistake::kNoDelta, B, None, "no-delta", "dS lacks delta, the row's sum of dO O.",
     "dS = P (dP - delta)."},
    {Mistake::kDeltaAdded, B, None, "delta-added", "delta has the wrong sign in dS.",
     "dS = P (dP - delta)."},
    {Mistake::kDeltaOutside, B, None, "delta-outside",
     "In dS, delta stands outside the product with P.", "dS = P (dP - delta)."},
    {Mistake::kDiagonalOnly, B, None, "softmax-diagonal-only",
     "dS is P (1 - P) dP, the derivative of a probability by its own score alone. Every score of "
     "the row changes it.",
     "Their sum is delta: dS = P (dP - delta)."},
    {Mistake::kNoProb, B, None, "no-prob",
     "dS lacks a factor: a key of weight 0 must get no gradient.", "dS = P (dP - delta)."},
    {Mistake::kNoLse, B, None, "no-lse",
     "P lacks the LSE: the weights of a row do not add up to 1.", "P = exp(S - LSE)."},
    {Mistake::kLseAdded, B, None, "lse-added", "LSE has the wrong sign in the exponent.",
     "P = exp(S - LSE)."},
    {Mistake::kProbAndDsSwapped, B, None, "p-and-ds-swapped",
     "P and dS stand in each other's place.", "dV = P^T dO, dK = scale dS^T Q, dQ = scale dS K."},
    {Mistake::kScaleInDs, B, None, "scale-in-ds",
     "softmax_scale is applied twice: it is in dS, and again where the sum over dS is written."},
    {Mistake::kLseOfColumn, B, Fragments, "lse-of-other-side",
     "P takes LSE from another query: queries are the rows of S in one kernel and the columns of "
     "S^T in the other. Only one of every_column() and every_row() follows them."},
    {Mistake::kDeltaOfColumn, B, Fragments, "delta-of-other-side",
     "dS takes delta from another query: queries are the rows of dP in one kernel and the columns "
     "of dP^T in the other. Only one of every_column() and every_row() follows them."},
    {Mistake::kMaskTurned, B, Fragments, "mask-turned",
     "Query and key have changed places in the mask within each 16 x 16 block: the rows of S^T are "
     "keys, its columns queries."},
    {Mistake::kMaskOffsetsExchanged, B, Fragments, "mask-offsets-exchanged",
     "The mask asks about the block's element at another place of the tile: the first query and "
     "the first key of the 16 x 16 block have changed places."},
    {Mistake::kMaskWithoutOffsets, B, Fragments, "mask-without-offsets",
     "The mask asks about the first 16 x 16 block of the tile, whichever block it is: the first "
     "query and the first key of the 16 x 16 block, r0 and c0, are not added."},
    {Mistake::kMaskWithoutRowOffset, B, Fragments, "mask-without-row-offset",
     "The mask asks about the first 16 queries of the tile, whichever queries these are: where the "
     "16 x 16 block begins among the queries is not added, r0 in S and c0 in its transpose."},
    {Mistake::kLseWithoutLog2, B, None, "lse-without-log2",
     "The LSE lacks a factor log2(e): it is a natural logarithm, and 2^x wants one to base 2, as "
     "the scores are."},
    {Mistake::kLseScaled, B, None, "lse-scaled",
     "The LSE is multiplied by softmax_scale, too. It is the LSE of the scaled scores.",
     "P = exp(scale * S - LSE)."},
    {Mistake::kScoreAndDpSwapped, B, None, "s-and-dp-swapped",
     "S and dP stand in each other's place.", "P = exp(scale S - LSE), and dS = P (dP - delta)."},
    {Mistake::kTailNotMasked, B, Tiles, "tail-not-masked",
     "Keys past the end are not masked: their rows of K are zeros, so P = exp(0 - LSE). It "
     "overflows where the LSE is far below 0, and infinity times 0 is NaN. The mask must also "
     "ask for j < num_keys."},
    {Mistake::kTransposedTwice, B, Fragments, "transposed-twice",
     "P and dS are transposed twice on their way into dV and dK, within each 16 x 16 block.",
     "The rows of sP and sdS are keys already, so P^T and dS^T are row_major."},
    {Mistake::kQueriesTurned, B, Fragments, "queries-turned",
     "In dK = dS^T Q each 16 x 16 block of Q is the transpose of what it should be, though it "
     "stands in its place.",
     "There a row of sQ is a row of the operand, row_major. In K Q^T it was a column."},
    {Mistake::kOutputGradientsTurned, B, Fragments, "output-gradients-turned",
     "In dV = P^T dO each 16 x 16 block of dO is the transpose of what it should be, though it "
     "stands in its place.",
     "There a row of sdO is a row of the operand, row_major. In V dO^T it was a column."},
    {Mistake::kQueriesForOutputGradients, B, None, "q-and-do-swapped",
     "Q and dO stand in each other's place.", "dV = P^T dO, dK = scale dS^T Q."},
    {Mistake::kMaskedScoreAsProb, F, Tiles, "masked-score-as-prob",
     "Where the mask hides a key, the matrix still holds its score, -INFINITY, and no "
     "probability: such a key must count as 0."},
    // Alone it spoils no value; it tells how far a loop with another mistake runs.
    {Mistake::kHiddenTilesWalked, F, Tiles, "hidden-tiles-loaded",
     "The loop also walks through tiles of which no query of the block sees a key."},
};

}  // namespace

const std::vector<MistakeRow>& mistakes() { return kMistakes; }

}  // namespace cuflash::exercises
