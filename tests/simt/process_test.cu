// The simulator as a guest of its process: address space that is limited or used up, libraries that
// are unloaded, forks.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "cuflash/c_api.h"
#include "support.h"

namespace cuflash::simt {
namespace {

__global__ void fill(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 7; }

// True if a kernel runs and computes the right result.
bool works() {
  int* out = nullptr;
  int first = 0;
  const bool ran = cudaMalloc(&out, 64 * sizeof(int)) == cudaSuccess &&
                   launch(fill, {2, 32}, out) == FlashAttentionError::SUCCESS &&
                   cudaMemcpy(&first, out, sizeof first, cudaMemcpyDeviceToHost) == cudaSuccess;
  return cudaFree(out) == cudaSuccess && ran && first == 7;
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::size_t kGiB = std::size_t{1} << 30;

// ---- Little address space ----------------------------------------------------------------------

// A limit as `ulimit -v` sets it, for as long as this object lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

using LittleMemory = AccessTest;  // AddressSanitizer reserves more than any limit

TEST_F(LittleMemory, IsEnoughForSmallKernels) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that starts under the limit
  const AddressSpaceLimit limit(2 * kGiB);
  EXPECT_EXIT(std::_Exit(works() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(LittleMemory, CudaMallocReportsThatThereIsNoMore) {
  const AddressSpaceLimit limit(2 * kGiB);
  void* memory = &memory;
  EXPECT_EQ(cudaMalloc(&memory, 3 * kGiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_TRUE(works());
}

// The shadow cells of an array take more room than the array.
TEST_F(LittleMemory, ALaunchReportsThatThereIsNoMore) {
  const AddressSpaceLimit limit(2 * kGiB);
  int* out = nullptr;
  ASSERT_EQ(cudaMalloc(&out, kGiB / 2), cudaSuccess);
  EXPECT_THROW((void)launch(fill, {2, 32}, out), std::bad_alloc);
  EXPECT_EQ(cudaMemset(out, 0, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(out), cudaSuccess);
  cudaGetLastError();
  EXPECT_TRUE(works());
}

// ---- Much of it --------------------------------------------------------------------------------

// Allocates more in total than the arena's address space, beside an array that stays.
bool workspaces_come_and_go() {
  const Array<int> stays(64, 1);
  for (int i = 0; i < 200; ++i) {
    void* workspace = nullptr;
    if (cudaMalloc(&workspace, 4 * kGiB) != cudaSuccess) return false;
    if (cudaFree(workspace) != cudaSuccess) return false;
  }
  return stays.values()[63] == 1;
}

TEST_F(SimulatorTest, WorkspacesComeAndGo) {
  EXPECT_EXIT(std::_Exit(workspaces_come_and_go() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// The memory of freed allocations does not grow without bound.
TEST_F(AccessTest, AllocationsComeAndGo) {
  int* first = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 400), cudaSuccess);
  name_memory(first, "first");
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(launch(fill, {2, 32}, first), FlashAttentionError::CUDA_ERROR);
  EXPECT_EQ(only_finding(FindingKind::kUseAfterFree).array, "first");
  const std::size_t before = address_space();
  for (int i = 0; i < 10000; ++i) {
    ASSERT_EQ(cudaMalloc(&first, 400), cudaSuccess);
    ASSERT_EQ(cudaFree(first), cudaSuccess);
  }
  EXPECT_LT(address_space(), before + kGiB / 64);
  cudaGetLastError();
}

// ---- Libraries ---------------------------------------------------------------------------------

// Skipped under AddressSanitizer: the simulator itself is never destroyed, which counts as a leak.
using Library = AccessTest;

// A library that is unloaded releases its memory. A thread makes the call, because a thread's data
// in a library keeps the library loaded until the thread ends.
TEST_F(Library, IsLoadedAndUnloaded) {
  std::size_t before = 0;
  for (int i = 0; i < 4; ++i) {
    void* const library = dlopen(CUFLASH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto forward = reinterpret_cast<decltype(&cuflash_attention_forward_f32)>(
        dlsym(library, "cuflash_attention_forward_f32"));
    int code = -1;
    std::thread([&] {
      const std::vector<float> in(64 * 32, 1.f);
      std::vector<float> out(64 * 32);
      code = forward(in.data(), in.data(), in.data(), out.data(), nullptr, 1, 1, 64, 32, 1.f, false,
                     nullptr);
    }).join();
    EXPECT_EQ(code, 0);
    dlclose(library);
    ASSERT_EQ(dlopen(CUFLASH_LIBRARY, RTLD_NOW | RTLD_NOLOAD), nullptr);
    if (i == 0) before = address_space();
  }
  EXPECT_LT(address_space(), before + kGiB / 4);
}

// ---- Forks -------------------------------------------------------------------------------------

TEST_F(SimulatorTest, AForkBesideALaunch) {
  std::atomic<bool> enough{false};
  std::thread busy([&] {
    while (!enough) works();
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(300);
      std::_Exit(works() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  enough = true;
  busy.join();
}

}  // namespace
}  // namespace cuflash::simt
