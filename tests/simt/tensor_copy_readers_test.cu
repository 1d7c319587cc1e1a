// Who has read what a copy of a box has brought, when threads or the next copy overwrite it.
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

using TensorCopyReaders = TensorCopyTest;

// Each thread reads two elements that a copy has brought, and overwrites one.
__global__ void overwrite(const __grid_constant__ TensorMap map, int* out, int first, int second,
                          int overwritten) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);
  }
  __syncwarp();
  ptx::mbarrier_wait(&full, 0);
  out[t] = sK[t ^ first];          // reads one
  out[t] += sK[t ^ second];        // and another
  __any_sync(0xffffffffu, false);  // All come to it. It orders nothing.
  sK[t ^ overwritten] = 7;         // overwrites
}

TEST_F(TensorCopyReaders, AreRememberedByElement) {
  under_all_schedules([&] {
    run(overwrite, {1, 32}, map(), out_.data(), 32, 0, 0);
    no_findings();
    run(overwrite, {1, 32}, map(), out_.data(), 0, 32, 1);
    expect_lines(only_finding(FindingKind::kSharedRace), {"reads one", "overwrites"});
  });
}

// Four warps read the same element of a copy; all but one say so before the next copy comes.
__global__ void replace_after(const __grid_constant__ TensorMap map, int* out, int silent) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  const int t = threadIdx.x, warp = t / 32;
  begin(full);
  begin(empty, silent < 0 ? 4 : 3);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);
  }
  __syncthreads();
  if (warp < 4) {
    ptx::mbarrier_wait(&full, 0);
    out[t] = sK[5];  // reads
    ptx::fence_proxy_async();
    __syncwarp();
    if (t % 32 == 0 && warp != silent) ptx::mbarrier_arrive(&empty);
  } else if (t % 32 == 0) {
    ptx::mbarrier_wait(&full, 0);
    ptx::mbarrier_wait(&empty, 0);
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, kRows, 0, 0, &full);  // replaces
    ptx::mbarrier_wait(&full, 1);
  }
}

TEST_F(TensorCopyReaders, AreAllRememberedByTheNextCopy) {
  under_all_schedules([&] {
    run(replace_after, {1, 160}, map(), out_.data(), -1);
    no_findings();
    for (int silent = 0; silent < 4; ++silent) {
      run(replace_after, {1, 160}, map(), out_.data(), silent);
      EXPECT_TRUE(finds("COPY INTO A STAGE THAT IS NOT EMPTY", {"reads", "replaces"})) << silent;
    }
  });
}

// Two warps read the same element of what threads have written; both say so, or only one does.
__global__ void replace_written(const __grid_constant__ TensorMap map, int* out, int silent) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  const int t = threadIdx.x, warp = t / 32;
  begin(full);
  begin(empty, silent < 0 ? 2 : 1);
  for (int i = t; i < kRows * kCols; i += 96) sK[i] = 7;
  ptx::fence_proxy_async();
  __syncthreads();
  if (warp < 2) {
    out[t] = sK[5];  // reads what threads wrote
    ptx::fence_proxy_async();
    __syncwarp();
    if (t % 32 == 0 && warp != silent) ptx::mbarrier_arrive(&empty);
  } else if (t % 32 == 0) {
    ptx::mbarrier_wait(&empty, 0);
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // replaces it
    ptx::mbarrier_wait(&full, 0);
  }
}

TEST_F(TensorCopyReaders, OfWhatThreadsWroteAreRemembered) {
  under_all_schedules([&] {
    run(replace_written, {1, 96}, map(), out_.data(), -1);
    no_findings();
    for (int silent = 0; silent < 2; ++silent) {
      run(replace_written, {1, 96}, map(), out_.data(), silent);
      EXPECT_TRUE(
          finds("COPY INTO A STAGE THAT IS NOT EMPTY", {"reads what threads wrote", "replaces it"}))
          << silent;
    }
  });
}

}  // namespace
}  // namespace cuflash::simt
