// Accesses to memory that does not exist, is not the kernel's, is not aligned or was not written;
// the simulator's own cudaMalloc.
#include <thread>

#include "device/shared_memory.h"
#include "device/tensor.h"
#include "support.h"
#include "support/german_numbers.h"

namespace cuflash::simt {
namespace {

// ---- Global memory: bounds ---------------------------------------------------------------------

__global__ void write_at(float* data, int index) {
  data[index] = 1.f;  // writes at index
}

class Bounds : public AccessTest {
 protected:
  Array<float> data_{100, 0.f, "data"};
};

TEST_F(Bounds, FirstAndLastElement) {
  run(write_at, {1, 1}, data_.data(), 0);
  run(write_at, {1, 1}, data_.data(), 99);
  EXPECT_EQ(data_.values()[99], 1.f);
}

TEST_F(Bounds, OnePastTheEnd) {
  run(write_at, {1, 1}, data_.data(), 100);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.kernel, "cuflash::simt::(anonymous namespace)::write_at");
  EXPECT_EQ(finding.array, "data");
  EXPECT_EQ(finding.location, LINE_MARKED("writes at index"));
  says(finding, "OUT OF BOUNDS: ");
  says(finding, "  data[100] (elements of 4 bytes)\n");
  says(finding, "   write  warp 0 lane 0   " + finding.location + "   data[index] = 1.f;");
  says(finding, "It reaches 4 bytes past the end of an allocation of 400 bytes.");
}

TEST_F(Bounds, BeforeTheStart) {
  run(write_at, {1, 1}, data_.data(), -1);
  says(only_finding(FindingKind::kOutOfBounds), "It reaches 4 bytes before the start");
}

TEST_F(Bounds, DeepInTheRedZones) {
  run(write_at, {1, 1}, data_.data(), -1000);
  says(only_finding(FindingKind::kOutOfBounds), "data[-1000]");
  run(write_at, {1, 1}, data_.data(), 1100);
  says(only_finding(FindingKind::kOutOfBounds), "data[1100]");
}

TEST_F(Bounds, NamesTheNearestAllocation) {
  const Array<float> before(100, 0.f, "before"), after(100, 0.f, "after");
  run(write_at, {1, 1}, after.data(), -2000);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "after");
  says(finding, "It reaches 8000 bytes before the start of an allocation of 400 bytes.");
}

TEST_F(Bounds, NumbersAreWrittenAlikeInEveryLocale) {
  const Array<float> data(100'000, 0.f, "data");
  const GermanNumbers while_it_lives;
  run(write_at, {1, 1}, data.data(), 100'000);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  says(finding, "  data[100000] (elements of 4 bytes)\n");
  says(finding, "past the end of an allocation of 400000 bytes.");
}

TEST_F(Bounds, AVectorThatSticksOut) {
  void (*kernel)(float*, int) = [](float* data, int index) {
    *reinterpret_cast<float4*>(data + index) = make_float4(1, 2, 3, 4);
  };
  const Array<float> odd(99, 0.f, "odd");
  run(kernel, {1, 1}, data_.data(), 96);
  run(kernel, {1, 1}, odd.data(), 96);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  says(finding, "It reaches 4 bytes past the end");
  says(finding, "  odd + 384 bytes\n");  // the type of its elements is not known
}

TEST_F(Bounds, NeverAllocated) {
  const Finding finding =
      fails(FindingKind::kOutOfBounds, 1, write_at, data_.data() + (std::size_t{1} << 32), 0);
  says(finding, "It lies in global memory that is not allocated. The launch ends here.");
  EXPECT_EQ(finding.array, "data");  // the nearest
  says(finding, "  data[4294967296] (elements of 4 bytes)\n");
}

TEST_F(Bounds, UseAfterFree) {
  float* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 400), cudaSuccess);
  name_memory(data, "gone");
  run(write_at, {1, 1}, data, 5);
  ASSERT_EQ(cudaFree(data), cudaSuccess);
  const Array<float> next(100);  // does not get the same place
  const Finding finding = fails(FindingKind::kUseAfterFree, 1, write_at, data, 5);
  EXPECT_EQ(finding.array, "gone");
  says(finding, "It lies in an allocation that was freed before the launch. The launch ends here.");
}

// A function of common/ makes the access; the finding shows the kernel's line that calls it.
__global__ void use_words(Tensor in, float* out) {
  const auto gIn = rows<const __half>(in, 0, 0);
  out[threadIdx.x] = float(gIn(threadIdx.x, 1));  // says the word
}

TEST_F(Bounds, WordsOfCommonShowTheKernelsLine) {
  const Array<__half> in(63, __float2half(2.f), "in");
  Tensor tensor{};
  tensor.data = in.data();
  tensor.row_stride = 2;
  run(use_words, {1, 32}, tensor, data_.data());
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.location, LINE_MARKED("says the word"));
  EXPECT_EQ(finding.count, 1u);
  says(finding, "in[63] (elements of 2 bytes)");
  EXPECT_EQ(data_.values()[30], 2.f);
}

// A host array is memory of no known extent: it may be used, and is counted.
TEST_F(Bounds, HostMemoryIsExternal) {
  std::vector<float> host(64, 0.f);
  run(write_at, {1, 1}, host.data(), 63);
  EXPECT_EQ(host[63], 1.f);
  EXPECT_EQ(counts().global_write_bytes, 4u);
}

TEST_F(Bounds, NullPointerEndsTheLaunchOnly) {
  EXPECT_EQ(launch(write_at, {2, 32}, static_cast<float*>(nullptr), 3),
            FlashAttentionError::CUDA_ERROR);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  const Finding finding = only_finding(FindingKind::kNullPointer);
  EXPECT_EQ(finding.location, LINE_MARKED("writes at index"));
  EXPECT_EQ(finding.array, "null pointer");
  says(finding, "address 0xc\n");
  says(finding,
       "There is no memory at this address: the pointer is null or wild. The launch ends here.");
  run(write_at, {1, 1}, data_.data(), 7);
  EXPECT_EQ(data_.values()[7], 1.f);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// A wild index, reported from the nearest array.
TEST_F(Bounds, WildPointer) {
  const std::size_t far = std::size_t{1} << 44;
  const Finding finding = fails(FindingKind::kNullPointer, 1, write_at, data_.data() + far, 0);
  EXPECT_EQ(finding.array, "data");
  says(finding, "  data[17592186044416] (elements of 4 bytes)\n");
}

// ---- Alignment ---------------------------------------------------------------------------------

template <class T>
__global__ void load_at(const char* data, char* out, int offset) {
  *reinterpret_cast<T*>(out) = *reinterpret_cast<const T*>(data + offset);  // loads
}

TEST_F(AccessTest, MisalignedVectors) {
  const Array<char> data(64, char{1}, "data"), out(16);
  run(load_at<float4>, {1, 1}, data.data(), out.data(), 16);
  run(load_at<float2>, {1, 1}, data.data(), out.data(), 8);
  run(load_at<short>, {1, 1}, data.data(), out.data(), 2);
  const Finding finding =
      fails(FindingKind::kMisaligned, 1, load_at<float4>, data.data(), out.data(), 8);
  EXPECT_EQ(finding.array, "data");
  EXPECT_EQ(finding.location, LINE_MARKED("loads"));
  says(finding, "An access of 16 bytes needs an address that is a multiple of 16");
  fails(FindingKind::kMisaligned, 1, load_at<float2>, data.data(), out.data(), 4);
  fails(FindingKind::kMisaligned, 1, load_at<short>, data.data(), out.data(), 1);
  cudaGetLastError();
}

// A struct of five floats needs no more than the alignment of a float, wherever it lies.
struct Five {
  float x[5];
};

TEST_F(AccessTest, StructsAreCopiedInAlignedPieces) {
  const Array<char> data(256, char{1}), out(16 * sizeof(Five));
  for (int offset = 0; offset < 32; offset += 4) {
    run(load_at<Five>, {1, 1}, data.data(), out.data(), offset);
  }
  EXPECT_EQ(counts().global_read_bytes, 8 * sizeof(Five));
}

// ---- Values that nobody has written
// --------------------------------------------------------------

__global__ void copy(const float* in, float* out) {
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  out[n] = in[n];  // reads in
}

class Uninitialised : public AccessTest {
 protected:
  Array<float> out_{64};
};

TEST_F(Uninitialised, GlobalMemory) {
  const Array<float> in(64, "in");
  run(copy, {2, 32}, in.data(), out_.data());
  const Finding finding = only_finding(FindingKind::kUninitialised);
  EXPECT_EQ(finding.array, "in");
  EXPECT_EQ(finding.location, LINE_MARKED("reads in"));
  EXPECT_EQ(finding.count, 64u);
  says(finding, "Neither the host nor a kernel has written it.  63 similar findings.\n");
}

TEST_F(Uninitialised, OneReportForAnElementAndNoRace) {
  const Array<float> in(32, "in");
  void (*kernel)(const float*, float*) = [](const float* in, float* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[0];
  };
  run(kernel, {2, 32}, in.data(), out_.data());
  EXPECT_EQ(only_finding(FindingKind::kUninitialised).count, 1u);
}

TEST_F(Uninitialised, WrittenByMemset) {
  const Array<float> in(64);
  cudaMemset(in.data(), 0, 64 * sizeof(float));
  run(copy, {2, 32}, in.data(), out_.data());
}

TEST_F(Uninitialised, WrittenInPiecesByTheHost) {
  const Array<float> in(64, "in");
  const float value = 1.f;
  for (int i = 0; i < 64; ++i) {
    if (i != 40) cudaMemcpy(in.data() + i, &value, sizeof value, cudaMemcpyHostToDevice);
  }
  run(copy, {2, 32}, in.data(), out_.data());
  says(only_finding(FindingKind::kUninitialised), "in[40]");
}

TEST_F(Uninitialised, WrittenByAnotherKernel) {
  const Array<float> first(64, 3.f), second(64);
  run(copy, {2, 32}, first.data(), second.data());
  run(copy, {2, 32}, second.data(), out_.data());
  EXPECT_EQ(out_.values()[63], 3.f);
}

__global__ void keep_in_shared(float* out, bool only_first_block) {
  __shared__ float box[32];
  if (!only_first_block || blockIdx.x == 0) box[threadIdx.x] = 1.f;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = box[31 - threadIdx.x];  // reads the box
}

TEST_F(Uninitialised, SharedMemoryOfAnEarlierBlock) {
  run(keep_in_shared, {2, 32}, out_.data(), false);
  run(keep_in_shared, {2, 32}, out_.data(), true);
  const Finding finding = only_finding(FindingKind::kUninitialised);
  EXPECT_EQ(finding.array, "box");
  EXPECT_EQ(finding.location, LINE_MARKED("reads the box"));
  EXPECT_EQ(finding.count, 32u);
  says(finding, "block (1,0,0)");
  says(finding, "No thread of this block has written it.");
}

// ---- Shared memory: bounds ---------------------------------------------------------------------

// Arrays of 8 bytes, 128 bytes apart.
__global__ void two_arrays(float* out, int index) {
  __shared__ __align__(128) float low[2];
  __shared__ __align__(128) float high[2];
  low[threadIdx.x] = 1.f;
  high[threadIdx.x] = 2.f;
  __syncthreads();
  out[threadIdx.x] = (&low[0] < &high[0] ? low : high)[index];  // reads one
}

TEST_F(AccessTest, BetweenSharedArrays) {
  const Array<float> out(2);
  run(two_arrays, {1, 2}, out.data(), 1);
  run(two_arrays, {1, 2}, out.data(), 2);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.location, LINE_MARKED("reads one"));
  says(finding, finding.array + "[2] (elements of 4 bytes)");
  says(finding, "It lies between two __shared__ variables.");
  // Before the second array, far behind the first.
  run(two_arrays, {1, 2}, out.data(), 31);
  says(only_finding(FindingKind::kOutOfBounds), "[-1] (elements of 4 bytes)");
}

// Arrays of 12 bytes: the one in the middle has its neighbour 4 bytes before the next multiple
// of 8.
__global__ void neighbours(float* out, int index) {
  __shared__ __align__(4) float before[3];
  __shared__ __align__(8) float middle[3];
  __shared__ __align__(4) float after[3];
  for (int i = 0; i < 3; ++i) before[i] = middle[i] = after[i] = 1.f;
  out[2] = before[0] + after[0];
  *reinterpret_cast<float2*>(out) = *reinterpret_cast<const float2*>(middle + index);  // reads two
}

// 24 bytes, and 8 to the next multiple of 16.
__global__ void past_the_end(float* out, int index) {
  __shared__ __align__(16) float tile[6];
  for (int i = 0; i < 6; ++i) tile[i] = 1.f;
  *reinterpret_cast<float4*>(out) = *reinterpret_cast<const float4*>(tile + index);  // reads four
}

TEST_F(AccessTest, AVectorLiesInOneSharedArray) {
  const Array<float> out(4);
  run(neighbours, {1, 1}, out.data(), 0);
  run(past_the_end, {1, 1}, out.data(), 0);
  no_findings();
  run(neighbours, {1, 1}, out.data(), 2);
  const Finding two = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(two.location, LINE_MARKED("reads two"));
  says(two, "It reaches 4 bytes past the end of middle, which has 12 bytes.");
  run(past_the_end, {1, 1}, out.data(), 4);
  const Finding four = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(four.location, LINE_MARKED("reads four"));
  says(four, "It reaches 8 bytes past the end of tile, which has 24 bytes.");
}

// The name is known even for the first access to shared memory.
__global__ void misaligned_in_shared(float* out, int index) {
  __shared__ __align__(16) float tile[8];
  *reinterpret_cast<float2*>(out) = *reinterpret_cast<const float2*>(tile + index);
}

TEST_F(AccessTest, MisalignedInShared) {
  std::thread([] {
    const Array<float> out(2);
    EXPECT_EQ(launch(misaligned_in_shared, {1, 1}, out.data(), 1), FlashAttentionError::CUDA_ERROR);
  }).join();
  EXPECT_EQ(only_finding(FindingKind::kMisaligned).array, "tile");
}

__global__ void use_dynamic(float* out, int writes, int reads) {
  const auto box = reinterpret_cast<float*>(shared_memory);
  const int t = threadIdx.x;
  for (int i = t; i < writes; i += blockDim.x) box[i] = 1.f;  // writes dynamic
  __syncthreads();
  float sum = 0.f;
  for (int i = 0; i < reads; ++i) sum += box[i];  // reads dynamic
  out[t] = sum;
}

class DynamicShared : public AccessTest {
 protected:
  Array<float> out_{64};
};

TEST_F(DynamicShared, WithinWhatTheLaunchAskedFor) {
  run(use_dynamic, {1, 32, 1024}, out_.data(), 256, 256);
  EXPECT_EQ(out_.values()[31], 256.f);
}

TEST_F(DynamicShared, ReadPastTheEnd) {
  run(use_dynamic, {1, 1, 1024}, out_.data(), 256, 257);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "shared_memory");
  EXPECT_EQ(finding.location, LINE_MARKED("reads dynamic"));
  says(finding, "shared_memory[256] (elements of 4 bytes)");
  says(finding, "It reaches 4 bytes past the end of the 1024 bytes of dynamic shared memory");
}

TEST_F(DynamicShared, WritePastTheEndEndsTheLaunch) {
  EXPECT_EQ(launch(use_dynamic, {1, 1, 1024}, out_.data(), 257, 0),
            FlashAttentionError::CUDA_ERROR);
  EXPECT_EQ(only_finding(FindingKind::kOutOfBounds).location, LINE_MARKED("writes dynamic"));
  cudaGetLastError();
}

TEST_F(DynamicShared, NotInitialisedByAnEarlierLaunch) {
  run(use_dynamic, {1, 1, 1024}, out_.data(), 256, 0);
  run(use_dynamic, {1, 1, 1024}, out_.data(), 0, 256);
  EXPECT_EQ(only_finding(FindingKind::kUninitialised).count, 256u);
}

TEST_F(DynamicShared, IsAligned) {
  void (*kernel)(unsigned long long*) = [](unsigned long long* out) {
    *out = reinterpret_cast<unsigned long long>(shared_memory) % 128;
  };
  const Array<unsigned long long> out(1);
  run(kernel, {1, 1, 16}, out.data());
  EXPECT_EQ(out.values()[0], 0u);
}

// ---- What is not traced
// --------------------------------------------------------------------------

struct Many {
  float values[40];
};

__global__ void arguments_and_locals(Many many, float* out) {
  float local[40];
  for (int i = 0; i < 40; ++i) local[(i * 7) % 40] = many.values[i];
  float sum = 0.f;
  for (int i = 0; i < 40; ++i) sum += local[(i + threadIdx.x) % 40];
  out[threadIdx.x] = sum;
}

TEST_F(AccessTest, ArgumentsAndLocalsAreNotMemory) {
  const Array<float> out(32);
  run(arguments_and_locals, {1, 32}, Many{{1.f, 2.f}}, out.data());
  EXPECT_EQ(out.values()[9], 3.f);
  const Counts c = counts();
  EXPECT_EQ(c.global_read_bytes, 0u);
  EXPECT_EQ(c.global_write_bytes, 32 * sizeof(float));
  EXPECT_EQ(c.shared_requests, 0u);
}

// ---- cudaMalloc and its like
// ---------------------------------------------------------------------

class Allocation : public SimulatorTest {};

TEST_F(Allocation, Limit) {
  const std::size_t before = memory_in_use();
  set_memory_limit(before + 1000);
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 600), cudaSuccess);
  EXPECT_EQ(memory_in_use(), before + 600);
  EXPECT_EQ(cudaMalloc(&second, 600), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 400u);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 600), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(memory_in_use(), before);
  set_memory_limit(std::size_t{16} << 30);
}

TEST_F(Allocation, NothingIsANullPointer) {
  void* nothing = &nothing;
  EXPECT_EQ(cudaMalloc(&nothing, 0), cudaSuccess);
  EXPECT_EQ(nothing, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(Allocation, FreeOfABadPointer) {
  char* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 100), cudaSuccess);
  int host = 0;
  EXPECT_EQ(cudaFree(data + 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Allocation, CopiesStayInsideTheirAllocations) {
  char* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 100), cudaSuccess);
  char host[101] = {};
  EXPECT_EQ(cudaMemcpy(data, host, 100, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(data, host, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, data + 1, 100, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(data, 0, 101), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaMemset(data, 0, 1), cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
}  // namespace cuflash::simt
