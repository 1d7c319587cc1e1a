// validate(): every refusal of every argument, its sentence, and the order of the checks. No device
// is involved: the addresses are numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "support/german_numbers.h"

namespace cuflash {
namespace {

using Error = FlashAttentionError;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int kMaxSeq = kMaxInt - 256;  // the longest that is not refused
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

// A call with nothing wrong: 2 batches, 4 query heads on 2 KV heads, 10 queries, 12 keys, d 32,
// f16. The heads have gaps between them, so that one fault does not bring another.
template <class Args>
struct ValidCall {
  Problem problem{2, 4, 2, 10, 12, 32, CUFLASH_F16, false, 0.25f};
  Args args;

  ValidCall();
  Support check() const { return validate(problem, args); }
};

Tensor tensor(std::uintptr_t place) { return {address(place << 20), 1 << 14, 1 << 10, 32}; }

template <>
ValidCall<Forward>::ValidCall()
    : args{tensor(1), tensor(2), tensor(3), tensor(4), static_cast<float*>(address(5 << 20))} {}

template <>
ValidCall<Backward>::ValidCall()
    : args{tensor(1), tensor(2), tensor(3),
           tensor(4), tensor(5), tensor(6),
           tensor(7), tensor(8), static_cast<float*>(address(9 << 20))} {}

using ForwardCall = ValidCall<Forward>;
using BackwardCall = ValidCall<Backward>;

// A tensor of a call by its name.
template <class Args>
struct Name {
  const char* text;
  Tensor Args::*tensor;
};

const std::vector<Name<Forward>> kForwardInputs = {
    {"Q", &Forward::q}, {"K", &Forward::k}, {"V", &Forward::v}};
const std::vector<Name<Forward>> kForwardOutputs = {{"O", &Forward::o}};
const std::vector<Name<Backward>> kBackwardInputs = {{"Q", &Backward::q},
                                                     {"K", &Backward::k},
                                                     {"V", &Backward::v},
                                                     {"O", &Backward::o},
                                                     {"dO", &Backward::d_o}};
const std::vector<Name<Backward>> kBackwardOutputs = {
    {"dQ", &Backward::dq}, {"dK", &Backward::dk}, {"dV", &Backward::dv}};

// Every stride of a tensor by its name.
struct Stride {
  const char* text;
  std::int64_t Tensor::*stride;
};
const std::vector<Stride> kStrides = {{"batch_stride", &Tensor::batch_stride},
                                      {"head_stride", &Tensor::head_stride},
                                      {"row_stride", &Tensor::row_stride}};

template <class T>
std::vector<T> operator+(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect(const Support& support, Error error, const std::string& words = "") {
  EXPECT_EQ(static_cast<int>(support.error), static_cast<int>(error)) << support.reason;
  EXPECT_EQ(support.reason.empty(), error == Error::SUCCESS) << support.reason;
  EXPECT_NE(support.reason.find(words), std::string::npos)
      << '"' << support.reason << "\" lacks \"" << words << '"';
}

// Applies `harm` to each tensor in turn; the sentence must begin with that tensor's name.
template <class Args>
void expect_each(const std::vector<Name<Args>>& tensors, Error error, const std::string& words,
                 const std::function<void(Tensor&)>& harm) {
  for (const Name<Args>& name : tensors) {
    SCOPED_TRACE(name.text);
    ValidCall<Args> call;
    harm(call.args.*name.tensor);
    const Support support = call.check();
    expect(support, error, words);
    if (error != Error::SUCCESS) {
      EXPECT_EQ(support.reason.rfind(name.text, 0), 0u) << support.reason;
    }
  }
}

void expect_everywhere(Error error, const std::string& words,
                       const std::function<void(Tensor&)>& harm) {
  expect_each(kForwardInputs + kForwardOutputs, error, words, harm);
  expect_each(kBackwardInputs + kBackwardOutputs, error, words, harm);
}

// Changes the problem; all three forms of validate() must say the same.
void expect_problem(Error error, const std::string& words,
                    const std::function<void(Problem&)>& harm) {
  ForwardCall forward;
  BackwardCall backward;
  harm(forward.problem);
  harm(backward.problem);
  expect(validate(forward.problem), error, words);
  expect(forward.check(), error, words);
  expect(backward.check(), error, words);
}

// ---- Valid calls -------------------------------------------------------------------------------

TEST(Validate, AcceptsAGoodCall) {
  expect_problem(Error::SUCCESS, "", [](Problem&) {});
}

TEST(Validate, AcceptsEveryDTypeAndHeadDim) {
  for (const DType dtype : kDTypes) {
    for (const int head_dim : {32, 64, 96, 128, 256}) {
      const Problem p{2, 4, 2, 5, 7, head_dim, dtype, true, 1.f};
      Forward args;
      args.q = contiguous(address(1 << 20), p.heads_q, p.seq_q, head_dim);
      args.k = contiguous(address(2 << 20), p.heads_kv, p.seq_kv, head_dim);
      args.v = contiguous(address(3 << 20), p.heads_kv, p.seq_kv, head_dim);
      args.o = contiguous(address(4 << 20), p.heads_q, p.seq_q, head_dim);
      expect(validate(p, args), Error::SUCCESS);
    }
  }
}

// [B,S,H,D]: heads side by side in a row.
TEST(Validate, AcceptsInterleavedHeads) {
  ForwardCall call;
  call.args.o = {address(4 << 20), 10 * 4 * 32, 32, 4 * 32};
  expect(call.check(), Error::SUCCESS);
}

TEST(Validate, AcceptsInputsThatRepeatRows) {
  const auto repeat = [](Tensor& t) { t = {t.data, 0, 0, 0}; };
  expect_each(kForwardInputs, Error::SUCCESS, "", repeat);
  expect_each(kBackwardInputs, Error::SUCCESS, "", repeat);
}

TEST(Validate, NeverLooksAtTheStrideOfAnExtentOfOne) {
  for (const std::int64_t stride : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{3}, kHuge}) {
    ForwardCall call;
    call.problem = {1, 1, 1, 1, 1, 32, CUFLASH_F16, false, 1.f};
    for (const auto& name : kForwardInputs + kForwardOutputs) {
      Tensor& t = call.args.*name.tensor;
      t = {t.data, stride, stride, stride};
    }
    expect(call.check(), Error::SUCCESS);
  }
}

TEST(Validate, LetsLseBeNullInTheForwardPass) {
  ForwardCall call;
  call.args.lse = nullptr;
  expect(call.check(), Error::SUCCESS);
}

TEST(Validate, LetsEachGradientBeNullWhateverItsStrides) {
  expect_each(kBackwardOutputs, Error::SUCCESS, "", [](Tensor& t) { t = {nullptr, -1, 3, kHuge}; });
  BackwardCall none;
  for (const auto& name : kBackwardOutputs) none.args.*name.tensor = {};
  expect(none.check(), Error::SUCCESS);
}

// ---- INVALID_DIMENSION -------------------------------------------------------------------------

TEST(Validate, RefusesSizesBelowOne) {
  const std::pair<const char*, int Problem::*> sizes[] = {
      {"batch", &Problem::batch}, {"heads_q", &Problem::heads_q}, {"heads_kv", &Problem::heads_kv},
      {"seq_q", &Problem::seq_q}, {"seq_kv", &Problem::seq_kv},   {"head_dim", &Problem::head_dim}};
  for (const auto& [name, size] : sizes) {
    for (const int value : {0, -1, std::numeric_limits<int>::min()}) {
      expect_problem(Error::INVALID_DIMENSION, std::string(name) + " is " + std::to_string(value),
                     [&, member = size](Problem& p) { p.*member = value; });
    }
  }
}

constexpr std::pair<const char*, int Problem::*> kWindow[] = {
    {"window_left", &Problem::window_left}, {"window_right", &Problem::window_right}};

TEST(Validate, RefusesWindowsBelowMinusOne) {
  for (const auto& [name, side] : kWindow) {
    for (const int value : {-2, -3, std::numeric_limits<int>::min()}) {
      expect_problem(Error::INVALID_DIMENSION,
                     std::string(name) + " is " + std::to_string(value) +
                         "; it must be at least 0, or -1 for no limit",
                     [&, member = side](Problem& p) { p.*member = value; });
    }
  }
}

TEST(Validate, AcceptsEveryOtherWindow) {
  for (const int left : {-1, 0, 1, 12, kMaxInt}) {
    for (const int right : {-1, 0, 1, 12, kMaxInt}) {
      for (const bool causal : {false, true}) {
        expect_problem(Error::SUCCESS, "", [&](Problem& p) {
          p.window_left = left;
          p.window_right = right;
          p.causal = causal;
        });
      }
    }
  }
}

// `causal` limits the right side to 0, but both sides are still checked.
TEST(Validate, RefusesWindowsOfCausalProblemsToo) {
  for (const auto& [name, side] : kWindow) {
    expect_problem(Error::INVALID_DIMENSION, name, [member = side](Problem& p) {
      p.causal = 1;
      p.*member = -2;
    });
  }
}

TEST(Validate, RefusesNegativeParts) {
  for (const auto& [name, field] : {std::pair("split_keys", &Problem::split_keys),
                                    std::pair("num_splits", &Problem::num_splits)}) {
    for (const int value : {-1, -64, std::numeric_limits<int>::min()}) {
      expect_problem(Error::INVALID_DIMENSION,
                     name + (" is " + std::to_string(value) + "; it must be at least 0"),
                     [&](Problem& p) { p.*field = value; });
    }
  }
}

TEST(Validate, TakesPartsOfMultiplesOf64Keys) {
  for (const int keys : {64, 192, kMaxInt - 63}) {
    expect_problem(Error::SUCCESS, "", [&](Problem& p) { p.split_keys = keys; });
  }
  for (const int keys : {1, 63, 65, kMaxInt}) {
    expect_problem(Error::INVALID_DIMENSION,
                   "split_keys is " + std::to_string(keys) + ", not a multiple of 64",
                   [&](Problem& p) { p.split_keys = keys; });
  }
}

TEST(Validate, RefusesToDivideTheKeysInTwoWays) {
  expect_problem(Error::SUCCESS, "", [](Problem& p) { p.num_splits = 3; });
  expect_problem(Error::INVALID_DIMENSION, "split_keys is 64 and num_splits is 3",
                 [](Problem& p) { p.split_keys = 64, p.num_splits = 3; });
}

TEST(Validate, TakesPagesOfMultiplesOf16Rows) {
  for (const int size : {16, 48, 256, kMaxInt - 15}) {
    ForwardCall call;
    call.problem.page_size = size, call.problem.num_pages = 7, call.problem.pages_per_seq = 1;
    call.args.block_table = static_cast<const std::int32_t*>(address(6 << 20));
    call.args.k.head_stride = call.args.v.head_stride = std::int64_t{1} << 40;
    call.args.k.batch_stride = call.args.v.batch_stride = std::int64_t{1} << 45;
    expect(call.check(), Error::SUCCESS);
  }
  for (const int size : {1, 8, 17, -16}) {
    expect_problem(Error::INVALID_DIMENSION,
                   "page_size is " + std::to_string(size) + "; it must be a multiple of 16",
                   [&](Problem& p) { p.page_size = size, p.num_pages = p.pages_per_seq = 1; });
  }
}

TEST(Validate, RefusesCountsOfPagesThatDoNotFit) {
  for (const auto& [name, count, other] :
       {std::tuple("num_pages", &Problem::num_pages, &Problem::pages_per_seq),
        std::tuple("pages_per_seq", &Problem::pages_per_seq, &Problem::num_pages)}) {
    for (const int value : {0, -1}) {
      expect_problem(Error::INVALID_DIMENSION,
                     name + (" is " + std::to_string(value) + "; with pages it must be at least 1"),
                     [&](Problem& p) { p.page_size = 16, p.*count = value, p.*other = 1; });
    }
    expect_problem(Error::INVALID_DIMENSION, std::string(name) + " is 1, but page_size is 0",
                   [&](Problem& p) { p.*count = 1; });
  }
}

TEST(Validate, RefusesATableWithoutPagesAndPagesWithoutATable) {
  const auto numbers = static_cast<const std::int32_t*>(address(6 << 20));
  ForwardCall call;
  call.args.block_table = numbers;
  expect(call.check(), Error::INVALID_DIMENSION, "block_table is given, but page_size is 0");
  call.problem = in_pages(call.problem, 16);
  expect(call.check(), Error::SUCCESS);
  call.args.kv_batch = numbers;
  expect(call.check(), Error::INVALID_DIMENSION, "kv_batch is given, and so are pages");
  call.args.kv_batch = nullptr;
  call.args.block_table = nullptr;
  expect(call.check(), Error::NULL_POINTER, "block_table is null");
}

// K has pages instead of batches, whose strides count even if there is one sequence.
TEST(Validate, LooksAtTheStridesOfPages) {
  ForwardCall call;
  call.problem.batch = 1;
  call.problem = in_pages(call.problem, 16);
  call.args.block_table = static_cast<const std::int32_t*>(address(6 << 20));
  call.args.k.batch_stride = 4;
  expect(call.check(), Error::MISALIGNED, "K's batch_stride is 4");
}

TEST(Validate, RefusesNegativeStrides) {
  for (const Stride& stride : kStrides) {
    expect_everywhere(Error::INVALID_DIMENSION, std::string(stride.text) + " is -32 elements",
                      [&](Tensor& t) { t.*stride.stride = -32; });
  }
}

TEST(Validate, RefusesOutputsThatOverlapThemselves) {
  for (const Stride& stride : kStrides) {
    for (const std::int64_t value : {0, 16, 24}) {
      const auto harm = [&](Tensor& t) { t.*stride.stride = value; };
      expect_each(kForwardOutputs, Error::INVALID_DIMENSION, "overlaps itself", harm);
      expect_each(kBackwardOutputs, Error::INVALID_DIMENSION, "overlaps itself", harm);
    }
  }
}

// 10 rows of 32, with a stride of 32: a head takes 320 elements, so 312 between heads are too few.
TEST(Validate, RefusesOutputsWhoseHeadsOverlap) {
  ForwardCall call;
  call.args.o.head_stride = 320;
  expect(call.check(), Error::SUCCESS);
  call.args.o.head_stride = 319;
  expect(call.check(), Error::INVALID_DIMENSION, "overlaps itself");
  call.args.o.head_stride = 312;
  expect(call.check(), Error::INVALID_DIMENSION,
         "O's head_stride is 312 elements; it must be at least 320");
}

// A row's padding may hold the next head's first row: only overlapping elements count.
TEST(Validate, CountsElementsAndNotPadding) {
  ForwardCall call;
  call.args.o = {address(4 << 20), 1 << 14, 9 * 64 + 32, 64};
  expect(call.check(), Error::SUCCESS);
}

// ---- DIMENSION_MISMATCH … INVALID_SCALE --------------------------------------------------------

TEST(Validate, RefusesHeadsThatFormNoGroups) {
  for (const int heads_kv : {3, 8}) {
    expect_problem(Error::DIMENSION_MISMATCH,
                   "heads_q is 4, not a multiple of heads_kv, which is " + std::to_string(heads_kv),
                   [&](Problem& p) { p.heads_kv = heads_kv; });
  }
}

TEST(Validate, RefusesOtherDTypes) {
  for (const int value : {-1, static_cast<int>(kDTypes.size()), 99}) {
    expect_problem(Error::UNSUPPORTED_DTYPE, "dtype is " + std::to_string(value),
                   [&](Problem& p) { p.dtype = static_cast<DType>(value); });
  }
}

TEST(Validate, RefusesOtherHeadDims) {
  const auto sentence = [](int value) {
    return "head_dim is " + std::to_string(value) + "; it must be 32, 64, 96, 128 or 256";
  };
  for (const int value : {1, 16, 31}) {
    expect_problem(Error::UNSUPPORTED_HEAD_DIM, sentence(value),
                   [&](Problem& p) { p.head_dim = value; });
  }
  Problem p;
  for (const int value : {33, 48, 80, 95, 97, 112, 127, 129, 160, 192, 255, 257, 512, kMaxInt}) {
    p.head_dim = value;
    expect(validate(p), Error::UNSUPPORTED_HEAD_DIM, sentence(value));
  }
}

TEST(Validate, RefusesOtherScales) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.f, -0.f, -1.f, infinity, -infinity, std::nanf("")}) {
    expect_problem(Error::INVALID_SCALE, "softmax_scale is ",
                   [&](Problem& p) { p.softmax_scale = value; });
  }
}

// ---- NULL_POINTER ------------------------------------------------------------------------------

TEST(Validate, RefusesTensorsWithoutData) {
  const auto harm = [](Tensor& t) { t.data = nullptr; };
  expect_each(kForwardInputs + kForwardOutputs, Error::NULL_POINTER, " is null", harm);
  expect_each(kBackwardInputs, Error::NULL_POINTER, " is null", harm);
}

TEST(Validate, SaysOfATensorWithoutDataThatItIsNullAndNothingElse) {
  expect(validate(ForwardCall().problem, Forward()), Error::NULL_POINTER, "Q is null");
  expect(validate(BackwardCall().problem, Backward()), Error::NULL_POINTER, "Q is null");
  expect_each(kForwardInputs + kForwardOutputs, Error::NULL_POINTER, " is null", [](Tensor& t) {
    t = {nullptr, -1, 3, kHuge};
  });
}

TEST(Validate, RefusesABackwardPassWithoutLse) {
  BackwardCall call;
  call.args.lse = nullptr;
  expect(call.check(), Error::NULL_POINTER, "LSE is null");
}

// ---- MISALIGNED --------------------------------------------------------------------------------

TEST(Validate, RefusesMisalignedBases) {
  for (const std::uintptr_t offset : {1, 2, 4, 8, 15}) {
    expect_everywhere(Error::MISALIGNED, "not a multiple of 16 bytes", [&](Tensor& t) {
      t.data = address(reinterpret_cast<std::uintptr_t>(t.data) + offset);
    });
  }
}

TEST(Validate, RefusesMisalignedStrides) {
  for (const Stride& stride : kStrides) {
    expect_everywhere(Error::MISALIGNED, stride.text, [&](Tensor& t) { t.*stride.stride += 4; });
  }
}

TEST(Validate, SaysWhichStrideIsMisalignedAndByHowMuch) {
  ForwardCall call;
  call.args.k.row_stride = 36;
  EXPECT_EQ(call.check().reason, "K's row_stride is 36 elements, not a multiple of 8 (16 bytes)");
  call.problem.dtype = CUFLASH_F32;  // 36 floats are 144 bytes.
  expect(call.check(), Error::SUCCESS);
}

TEST(Validate, RefusesMisalignedLse) {
  ForwardCall forward;
  BackwardCall backward;
  forward.args.lse = static_cast<float*>(address((5 << 20) + 2));
  backward.args.lse = forward.args.lse;
  expect(forward.check(), Error::MISALIGNED, "LSE is at address");
  expect(backward.check(), Error::MISALIGNED, "LSE is at address");
  forward.args.lse = static_cast<float*>(address((5 << 20) + 4));
  expect(forward.check(), Error::SUCCESS);
}

TEST(Validate, RefusesMisalignedNumbersOfACache) {
  using Numbers = const std::int32_t* Forward::*;
  for (const auto& [name, numbers] :
       {std::pair<const char*, Numbers>("seqused_k", &Forward::seqused_k),
        {"k_begin", &Forward::k_begin},
        {"kv_batch", &Forward::kv_batch}}) {
    ForwardCall call;
    call.args.*numbers = static_cast<const std::int32_t*>(address(6 << 20));
    expect(call.check(), Error::SUCCESS);
    call.args.*numbers = static_cast<const std::int32_t*>(address((6 << 20) + 2));
    expect(call.check(), Error::MISALIGNED, std::string(name) + " is at address");
  }
  ForwardCall call;
  call.problem = in_pages(call.problem, 16);
  call.args.block_table = static_cast<const std::int32_t*>(address((6 << 20) + 2));
  expect(call.check(), Error::MISALIGNED, "block_table is at address");
}

// A batch of one may read any of many caches.
TEST(Validate, LooksAtTheBatchStrideOfACacheThatIsChosen) {
  ForwardCall call;
  call.problem.batch = 1;
  call.args.k.batch_stride = 4;
  expect(call.check(), Error::SUCCESS);
  call.args.kv_batch = static_cast<const std::int32_t*>(address(6 << 20));
  expect(call.check(), Error::MISALIGNED, "K's batch_stride is 4");
}

TEST(Validate, RefusesMisalignedWorkspaces) {
  ForwardCall forward;
  BackwardCall backward;
  forward.args.workspace = backward.args.workspace = address((10 << 20) + 128);
  expect(forward.check(), Error::MISALIGNED, "the workspace is at address");
  expect(backward.check(), Error::MISALIGNED, "not a multiple of 256 bytes");
  forward.args.workspace = address((10 << 20) + 256);
  expect(forward.check(), Error::SUCCESS);
}

// ---- SIZE_OVERFLOW -----------------------------------------------------------------------------

TEST(Validate, RefusesTensorsThatEndBeyondMemory) {
  for (const std::int64_t value : {kHuge, std::numeric_limits<std::int64_t>::max() & ~15}) {
    for (const Stride& stride : kStrides) {
      expect_everywhere(Error::SIZE_OVERFLOW, "ends beyond",
                        [&](Tensor& t) { t.*stride.stride = value; });
    }
  }
  expect_everywhere(Error::SIZE_OVERFLOW, "ends beyond",
                    [](Tensor& t) { t.data = address(~std::uintptr_t{0} << 12); });
}

TEST(Validate, RefusesTooManyRows) {
  // 2³⁷ rows are the limit: 64 · (2³¹ − 257) are fewer, twice as many are not.
  Problem p{1, 64, 64, kMaxSeq, 1, 32, CUFLASH_F16, false, 1.f};
  expect(validate(p), Error::SUCCESS);
  p.batch = 2;
  expect(validate(p), Error::SIZE_OVERFLOW, "too many query rows");
  std::swap(p.seq_q, p.seq_kv);
  expect(validate(p), Error::SIZE_OVERFLOW, "too many key rows");
}

// A kernel counts whole tiles in int.
TEST(Validate, RefusesLengthsWhoseLastTileOverflows) {
  Problem p{1, 1, 1, kMaxSeq, kMaxSeq, 32, CUFLASH_F16, true, 1.f};
  p.seq_kv = 1;
  expect(validate(p), Error::SUCCESS);
  ++p.seq_q;
  expect(validate(p), Error::SIZE_OVERFLOW, "too many queries per head");
  std::swap(p.seq_q, p.seq_kv);
  expect(validate(p), Error::SIZE_OVERFLOW, "too many keys per head");
}

TEST(Validate, RefusesTooManyScores) {
  Problem p{1, 1, 1, kMaxSeq, 1 << 28, 32, CUFLASH_F16, false, 1.f};
  expect(validate(p), Error::SUCCESS);
  p.heads_q = 2;
  expect(validate(p), Error::SIZE_OVERFLOW, "too many scores");
}

// 2^49 parts of a row are the limit: a stage keeps up to 16 KB for each.
TEST(Validate, RefusesTooManyParts) {
  Problem p{1 << 10, 1, 1, 1 << 9, 1, 32, CUFLASH_F16, false, 1.f};
  p.num_splits = (1 << 30) - 1;
  expect(validate(p), Error::SUCCESS);
  ++p.num_splits;
  expect(validate(p), Error::SIZE_OVERFLOW, "too many parts of query rows");
}

TEST(Validate, RefusesTheLargestOfEverythingWithoutOverflowingItself) {
  Problem p{kMaxInt, kMaxInt, kMaxInt, kMaxInt, kMaxInt, 128, CUFLASH_F32, false, 1.f};
  expect(validate(p), Error::SIZE_OVERFLOW, "too many queries per head");
  Forward args;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) {
    *t = contiguous(address(1 << 20), kMaxInt, kMaxInt, 128);
  }
  expect(validate(p, args), Error::SIZE_OVERFLOW, "too many queries per head");
}

// 2^63 elements per batch are one more than a stride can step over: the output is too large, and
// does not overlap itself.
TEST(Validate, AContiguousOutputIsTooLargeBeforeItOverlapsItself) {
  const Problem p{2, 1 << 30, 1 << 30, 1 << 28, 1 << 28, 32, CUFLASH_F32, false, 1.f};
  Forward args;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) {
    *t = contiguous(address(1 << 20), p.heads_q, p.seq_q, p.head_dim);
  }
  expect(validate(p, args), Error::SIZE_OVERFLOW, "too many query rows");
}

// Two equal strides overlap, even if one of them leads further than 64 bits can count.
TEST(Validate, RefusesEqualStridesBeforeTheyOverflow) {
  const int few = 2, many = 1 << 30;
  for (const auto& [batch, heads] : {std::pair(few, many), std::pair(many, few)}) {
    const Problem p{batch, heads, heads, 1, 1, 64, CUFLASH_F16, false, 1.f};
    Forward args;
    for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) {
      *t = {address(1 << 20), std::int64_t{1} << 40, std::int64_t{1} << 40, 64};
    }
    expect(validate(p, args), Error::INVALID_DIMENSION, "overlaps itself");
  }
}

// ---- Order -------------------------------------------------------------------------------------

// Faults in the documented order. If all from the n-th on are present, the n-th must be named.
template <class Args>
void expect_order() {
  const std::vector<std::pair<Error, std::function<void(ValidCall<Args>&)>>> faults = {
      {Error::INVALID_DIMENSION, [](ValidCall<Args>& c) { c.problem.seq_q = 0; }},
      {Error::INVALID_DIMENSION, [](ValidCall<Args>& c) { c.problem.window_right = -2; }},
      {Error::INVALID_DIMENSION, [](ValidCall<Args>& c) { c.problem.split_keys = 65; }},
      {Error::INVALID_DIMENSION, [](ValidCall<Args>& c) { c.args.q.row_stride = -4; }},
      {Error::DIMENSION_MISMATCH, [](ValidCall<Args>& c) { c.problem.heads_kv = 3; }},
      {Error::UNSUPPORTED_DTYPE,
       [](ValidCall<Args>& c) { c.problem.dtype = static_cast<DType>(7); }},
      {Error::UNSUPPORTED_HEAD_DIM, [](ValidCall<Args>& c) { c.problem.head_dim = 24; }},
      {Error::INVALID_SCALE, [](ValidCall<Args>& c) { c.problem.softmax_scale = 0.f; }},
      {Error::NULL_POINTER, [](ValidCall<Args>& c) { c.args.v.data = nullptr; }},
      {Error::MISALIGNED, [](ValidCall<Args>& c) { c.args.q.data = address(8); }},
      {Error::SIZE_OVERFLOW, [](ValidCall<Args>& c) { c.args.k.head_stride = kHuge; }},
  };
  for (std::size_t first = 0; first < faults.size(); ++first) {
    ValidCall<Args> call;
    for (std::size_t n = first; n < faults.size(); ++n) faults[n].second(call);
    expect(call.check(), faults[first].first);
  }
}

TEST(Validate, ChecksTheForwardPassInOrder) { expect_order<Forward>(); }
TEST(Validate, ChecksTheBackwardPassInOrder) { expect_order<Backward>(); }

// ---- Numbers in sentences ----------------------------------------------------------------------

TEST(Validate, WritesNumbersAlikeInEveryLocale) {
  const GermanNumbers while_it_lives;
  ForwardCall stride, base;
  stride.args.k.row_stride = 1048577;
  base.args.lse = static_cast<float*>(address(0x500002));
  expect(stride.check(), Error::MISALIGNED, "K's row_stride is 1048577 elements");
  expect(base.check(), Error::MISALIGNED, "LSE is at address 0x500002, not");
  expect_problem(Error::INVALID_SCALE, "softmax_scale is -0.5;",
                 [](Problem& p) { p.softmax_scale = -0.5f; });
}

TEST(Validate, WritesNumbersToTheirLastDigit) {
  for (const auto& [scale, text] :
       {std::pair(-0.1f, "-0.1;"), std::pair(-1234.5677f, "-1234.5677;"),
        std::pair(-1e-45f, "-1e-45;"), std::pair(-3e38f, "-3e+38;")}) {
    expect_problem(Error::INVALID_SCALE, std::string("softmax_scale is ") + text,
                   [&, scale = scale](Problem& p) { p.softmax_scale = scale; });
  }
  ForwardCall call;
  call.args.k.batch_stride = (std::int64_t{1} << 62) + 4;
  expect(call.check(), Error::MISALIGNED,
         "K's batch_stride is 4611686018427387908 elements, not a multiple of 8 (16 bytes)");
}

}  // namespace
}  // namespace cuflash
