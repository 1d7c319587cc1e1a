// cp.async.bulk.tensor: expected bytes, proxy fences, accesses to what is copied, addresses and
// counts. Planted faults, each with its correct twin.
#include "device/ptx/ldmatrix.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

using TensorCopyMemory = TensorCopyTest;

// ---- Bytes -------------------------------------------------------------------------------------

__global__ void expects(const __grid_constant__ TensorMap map, unsigned bytes, int copies,
                        bool expects_first) {
  __shared__ __align__(128) Half sK[2][kRows * kCols];
  __shared__ std::uint64_t full;
  begin(full);
  if (threadIdx.x == 0) {
    if (expects_first) ptx::mbarrier_arrive_expect_tx(&full, bytes);                   // expects
    for (int n = 0; n < copies; ++n) ptx::tensor_copy(sK[n], map, 0, 0, 0, 0, &full);  // fetches
    if (!expects_first) ptx::mbarrier_arrive_expect_tx(&full, bytes);  // expects after
  }
  __syncwarp();
  ptx::mbarrier_wait(&full, 0);  // waits for bytes
}

TEST_F(TensorCopyMemory, ExpectedBytes) {
  under_all_schedules([&] {
    for (const bool first : {false, true}) {
      run(expects, {1, 32}, map(), kBytes, 1, first);
      run(expects, {1, 32}, map(), 2 * kBytes, 2, first);
    }
  });
}

TEST_F(TensorCopyMemory, FewerBytesThanExpected) {
  for (const bool first : {false, true}) {
    const Finding finding =
        fails(FindingKind::kMbarrier, 32, expects, map(), kBytes + 16, 1, first);
    EXPECT_EQ(finding.title(), "DEADLOCK AT AN MBARRIER");
    says(finding, "   phase 0: 1 of 1 arrival, 1024 of 1040 bytes\n");
    says(finding, "  Warp 0 lane 0 waits at " + LINE_MARKED("waits for bytes"));
  }
}

TEST_F(TensorCopyMemory, MoreBytesThanExpected) {
  for (const bool first : {false, true}) {
    const Finding finding =
        fails(FindingKind::kMbarrier, 32, expects, map(), kBytes - 16, 1, first);
    expect_report(finding, "MORE BYTES THAN EXPECTED", "fetches");
    says(finding, "Phase 0 expects 1008 bytes, and 1024 are copied.");
    says(finding, LINE_MARKED(first ? "expects" : "expects after"));
  }
  // The phase ends with the first copy: the second one would count for the next phase.
  const Finding finding = fails(FindingKind::kMbarrier, 32, expects, map(), kBytes, 2, true);
  expect_report(finding, "MORE BYTES THAN EXPECTED", "fetches");
  says(finding, "Phase 0 has ended, and nothing orders its end before this copy");
}

// ---- Proxies -----------------------------------------------------------------------------------

enum class Fence { kEachThread, kCopier, kNone, kBeforeTheAccess, kAfterTheBarrier };

// All threads write a tile, then a copy replaces it.
__global__ void replace(const __grid_constant__ TensorMap map, int* out, Fence fence) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  if (fence == Fence::kBeforeTheAccess) ptx::fence_proxy_async();
  for (int i = t; i < kRows * kCols; i += 64) sK[i] = 7;  // writes by hand
  if (fence == Fence::kEachThread) ptx::fence_proxy_async();
  __syncthreads();
  if (fence == Fence::kAfterTheBarrier && t != 0) ptx::fence_proxy_async();
  if (t == 0) {
    if (fence == Fence::kCopier) ptx::fence_proxy_async();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // replaces
  }
  ptx::mbarrier_wait(&full, 0);
  out[t] = sK[t];
}

TEST_F(TensorCopyMemory, AWriteNeedsAProxyFence) {
  under_all_schedules([&] {
    for (const Fence fence : {Fence::kEachThread, Fence::kCopier}) {
      run(replace, {2, 64}, map(), out_.data() /* both blocks write equal values */, fence);
      for (const Finding& finding : take_findings())
        EXPECT_EQ(finding.title(), "RACE in global memory");
    }
    for (const Fence fence : {Fence::kNone, Fence::kBeforeTheAccess, Fence::kAfterTheBarrier}) {
      run(replace, {1, 64}, map(), out_.data(), fence);
      expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE WITHOUT A PROXY FENCE",
                    "replaces", {"writes by hand"});
    }
  });
}

// Threads read a copy, by hand or by ldmatrix, and another copy replaces it.
__global__ void replace_what_was_read(const __grid_constant__ TensorMap map, int* out,
                                      bool ldmatrix, Fence fence) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  __syncthreads();
  for (int n = 0; n < 2; ++n) {
    if (t == 0) {
      if (fence == Fence::kCopier) ptx::fence_proxy_async();
      ptx::mbarrier_arrive_expect_tx(&full, kBytes);
      ptx::tensor_copy(sK, map, 0, n * kRows, 0, 0, &full);  // replaces what was read
    }
    ptx::mbarrier_wait(&full, n);
    if (fence == Fence::kBeforeTheAccess) ptx::fence_proxy_async();
    std::uint32_t rK[4] = {};
    if (ldmatrix) ptx::ldmatrix_x4(rK, &sK[t % 32 * 8]);  // reads rows of it
    out[t] = ldmatrix ? rK[0] : sK[t];                    // reads it
    if (fence == Fence::kEachThread) ptx::fence_proxy_async();
    __syncthreads();
  }
}

TEST_F(TensorCopyMemory, AReadNeedsAProxyFence) {
  under_all_schedules([&] {
    for (const bool ldmatrix : {false, true}) {
      for (const Fence fence : {Fence::kEachThread, Fence::kCopier}) {
        run(replace_what_was_read, {1, 64}, map(), out_.data(), ldmatrix, fence);
      }
      no_findings();
      for (const Fence fence : {Fence::kNone, Fence::kBeforeTheAccess}) {
        run(replace_what_was_read, {1, 64}, map(), out_.data(), ldmatrix, fence);
        const Finding finding = only_finding(FindingKind::kAsyncCopy);
        expect_report(finding, "READ WITHOUT A PROXY FENCE", "replaces what was read");
        says(finding, ldmatrix ? LINE_MARKED("reads rows of it") : LINE_MARKED("reads it"));
      }
    }
  });
}

// The fence of a warp's writes is passed on by an mbarrier.
__global__ void fenced_arrival(const __grid_constant__ TensorMap map, bool fence) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  begin(full);
  begin(empty, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    sK[threadIdx.x] = 7;  // writes one row
    if (fence) ptx::fence_proxy_async();
    ptx::mbarrier_arrive(&empty);
  } else if (threadIdx.x == 32) {
    ptx::mbarrier_wait(&empty, 0);
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // replaces the row
    ptx::mbarrier_wait(&full, 0);
  }
}

TEST_F(TensorCopyMemory, AnArrivalPassesTheFenceOn) {
  under_all_schedules([&] {
    run(fenced_arrival, {1, 64}, map(), true);
    no_findings();
    run(fenced_arrival, {1, 64}, map(), false);
    expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE WITHOUT A PROXY FENCE",
                  "replaces the row", {"writes one row"});
  });
}

enum class Init { kFence, kProxyFence, kNoFence };

__global__ void init_and_copy(const __grid_constant__ TensorMap map, Init init) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);  // begins
    if (init == Init::kFence) ptx::fence_mbarrier_init();
    if (init == Init::kProxyFence) ptx::fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // counts on it
    ptx::mbarrier_wait(&full, 0);
  }
}

TEST_F(TensorCopyMemory, AnMbarrierNeedsItsFence) {
  under_all_schedules([&] {
    run(init_and_copy, {1, 64}, map(), Init::kFence);
    run(init_and_copy, {1, 64}, map(), Init::kProxyFence);
    no_findings();
    run(init_and_copy, {1, 64}, map(), Init::kNoFence);
    expect_report(only_finding(FindingKind::kMbarrier), "MBARRIER WITHOUT ITS FENCE",
                  "counts on it", {"begins"});
  });
}

// ---- Writes ------------------------------------------------------------------------------------

enum class Writes { kAfterAll, kAfterTheWait, kInFlight };

// A warp writes into what was copied, and others read both.
__global__ void write_into(const __grid_constant__ TensorMap map, int* out, Writes when) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // brings
  }
  __syncthreads();
  if (when != Writes::kInFlight) ptx::mbarrier_wait(&full, 0);
  if (when == Writes::kAfterAll) {
    out[t] = sK[2 * t + 1];
    __syncthreads();
  }
  if (t < 32) sK[2 * t] = 1000 + t;  // writes into it
  if (when == Writes::kInFlight) ptx::mbarrier_wait(&full, 0);
  __syncthreads();
  out[t] = sK[t];  // reads both
}

TEST_F(TensorCopyMemory, WritesIntoWhatWasCopied) {
  under_all_schedules([&] {
    for (const Writes when : {Writes::kAfterAll, Writes::kAfterTheWait}) {
      run(write_into, {1, 64}, map(), out_.data(), when);
      EXPECT_EQ(out_.values()[62], 1031);
      EXPECT_EQ(out_.values()[63], 63);
      no_findings();
    }
    run(write_into, {1, 64}, map(), out_.data(), Writes::kInFlight);
    expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE OVER A COPY IN FLIGHT",
                  "writes into it", {"brings"});
  });
}

__global__ void read_and_write(const __grid_constant__ TensorMap map, int* out, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  if (t < 32) out[t] = sK[t];  // reads the copy
  if (sync) __syncthreads();
  if (t >= 32) sK[t - 32] = 1;  // writes over it
}

TEST_F(TensorCopyMemory, WritesOverWhatOthersRead) {
  under_all_schedules([&] {
    run(read_and_write, {1, 64}, map(), out_.data(), true);
    no_findings();
    run(read_and_write, {1, 64}, map(), out_.data(), false);
    expect_lines(only_finding(FindingKind::kSharedRace), {"reads the copy", "writes over it"});
  });
}

// Halves of a copied tile are replaced one after the other, each when its readers are done.
__global__ void replace_halves(const __grid_constant__ TensorMap whole,
                               const __grid_constant__ TensorMap half, int* out) {
  __shared__ __align__(128) Half sK[2 * kRows * kCols];
  __shared__ std::uint64_t full, again, empty[2];
  const int t = threadIdx.x, warp = t / 32;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&again, 2);
    for (std::uint64_t& barrier : empty) ptx::mbarrier_init(&barrier, 32);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, 2 * kBytes);
    ptx::tensor_copy(sK, whole, 0, 0, 0, 0, &full);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  if (warp < 2) {
    out[t] = sK[warp * kRows * kCols + t % 32];
    ptx::fence_proxy_async();
    ptx::mbarrier_arrive(&empty[warp]);
  } else if (t % 32 == 0) {
    for (int n = 0; n < 2; ++n) {
      ptx::mbarrier_wait(&empty[n], 0);
      ptx::mbarrier_arrive_expect_tx(&again, kBytes);
      ptx::tensor_copy(sK + n * kRows * kCols, half, 0, 0, 0, 0, &again);
    }
    ptx::mbarrier_wait(&again, 0);
  }
}

TEST_F(TensorCopyMemory, PartsAreReplacedOnTheirOwn) {
  TensorMap whole = map();
  whole.arguments.box[1] = 2 * kRows;
  under_all_schedules([&] {
    run(replace_halves, {1, 96}, whole, map(), out_.data());
    EXPECT_EQ(out_.values()[32], kRows * kCols);
  });
}

enum class Changes { kBefore, kInFlight, kAfter };

__global__ void change_source(const __grid_constant__ TensorMap map, Half* in, Changes when) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  begin(full);
  if (threadIdx.x == 0) {
    if (when == Changes::kBefore) in[3] = 1;
    ptx::fence_proxy_async_global();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies in
    if (when == Changes::kInFlight) in[3] = 1;     // changes in
  }
  ptx::mbarrier_wait(&full, 0);
  if (when == Changes::kAfter) in[3] = 1;
}

TEST_F(TensorCopyMemory, SourceOverwritten) {
  run(change_source, {1, 1}, map(), in_.data(), Changes::kBefore);
  run(change_source, {1, 1}, map(), in_.data(), Changes::kAfter);
  no_findings();
  run(change_source, {1, 1}, map(), in_.data(), Changes::kInFlight);
  expect_report(only_finding(FindingKind::kAsyncCopy), "SOURCE OF A COPY OVERWRITTEN", "changes in",
                {"copies in"});
}

enum class Writer { kNone, kOther, kBefore, kAfterTheIssue, kAfterTheWait };

// The first warp has a box copied and waits for it; a thread of the second writes to its source.
__global__ void copy_and_write(const __grid_constant__ TensorMap map, Half* in, Writer when) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 32 && when == Writer::kBefore) in[3] = 1;  // writes before
  if (when == Writer::kOther) __syncthreads();
  begin(full);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies the source
  }
  if (when == Writer::kAfterTheIssue) __syncthreads();
  if (t < 32) __syncwarp();
  if (t < 32) ptx::mbarrier_wait(&full, 0);
  if (when == Writer::kAfterTheWait) __syncthreads();
  if (t == 32 && when != Writer::kNone && when != Writer::kBefore) in[3] = 1;  // writes
}

TEST_F(TensorCopyMemory, AWriteToTheSourceIsOrdered) {
  under_all_schedules([&] {
    run(copy_and_write, {1, 64}, map(), in_.data(), Writer::kAfterTheWait);
    run(copy_and_write, {2, 64}, map(), in_.data(), Writer::kNone);
    no_findings();
    run(copy_and_write, {1, 64}, map(), in_.data(), Writer::kBefore);
    expect_lines(only_finding(FindingKind::kGlobalRace), {"writes before", "copies the source"});
    // Whether the warp has waited when the other writes, or not.
    run(copy_and_write, {1, 64}, map(), in_.data(), Writer::kAfterTheIssue);
    expect_lines(only_finding(FindingKind::kGlobalRace), {"copies the source", "writes"});
  });
}

// The first block has a box copied, the second writes to its source.
__global__ void copy_or_write(const __grid_constant__ TensorMap map, Half* in, int element) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  if (blockIdx.x == 1) {
    in[element] = 1;  // another block writes
    return;
  }
  begin(full);
  ptx::mbarrier_arrive_expect_tx(&full, kBytes);
  ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // a block copies
  ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyMemory, OtherBlocksDoNotWriteToTheSource) {
  under_all_schedules([&] {
    run(copy_or_write, {2, 1}, map(), in_.data(), kRows * kCols);
    run(copy_or_write, {1, 1}, map(), in_.data(), 0);
    run(change_source, {1, 1}, map(), in_.data(), Changes::kBefore);  // in the next launch
    no_findings();
    run(copy_or_write, {2, 1}, map(), in_.data(), kRows * kCols - 1);
    const Finding finding = only_finding(FindingKind::kGlobalRace);
    expect_lines(finding, {"a block copies", "another block writes"});
    says(finding, "Nothing orders the blocks of one launch.");
  });
}

__global__ void copy_for_ldmatrix(const __grid_constant__ TensorMap map, unsigned* out, bool wait) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int lane = threadIdx.x;
  begin(full);
  if (lane == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies rows
  }
  __syncwarp();
  if (wait) ptx::mbarrier_wait(&full, 0);
  unsigned r[4];
  ptx::ldmatrix_x4(r, &sK[lane * 8]);  // loads rows
  out[lane] = r[0];
  if (!wait) ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyMemory, LdmatrixMeetsACopy) {
  const Array<unsigned> out(32);
  run(copy_for_ldmatrix, {1, 32}, map(), out.data(), true);
  no_findings();
  run(copy_for_ldmatrix, {1, 32}, map(), out.data(), false);
  expect_report(only_finding(FindingKind::kAsyncCopy), "READ OF A STAGE THAT IS NOT FULL",
                "loads rows", {"copies rows"});
}

// ---- Memory ------------------------------------------------------------------------------------

enum class Operands { kRight, kMisaligned, kBetweenChunks, kToGlobal, kPastTheArray, kPastTheEnd };

__global__ void copy_operands(const __grid_constant__ TensorMap map, Half* global,
                              Operands operands) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  begin(full);
  Half* to = sK;
  if (operands == Operands::kMisaligned) to += 8;
  if (operands == Operands::kToGlobal) to = global;
  if (operands == Operands::kPastTheArray) to += kRows * kCols / 2;
  ptx::mbarrier_arrive_expect_tx(&full, kBytes);
  ptx::tensor_copy(to, map, operands == Operands::kBetweenChunks ? -4 : 0,
                   operands == Operands::kPastTheEnd ? 19 * kRows : 0, 0, 0, &full);
  ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyMemory, Operands) {
  run(copy_operands, {1, 1}, map(), in_.data(), Operands::kRight);
  no_findings();
  const auto fails = [&](FindingKind kind, Operands operands) {
    return TensorCopyTest::fails(kind, 1, copy_operands, map(), in_.data(), operands);
  };
  says(fails(FindingKind::kMisaligned, Operands::kMisaligned),
       "A box must begin at a multiple of 128 bytes.");
  says(fails(FindingKind::kMisaligned, Operands::kBetweenChunks),
       "The innermost coordinate of a box must be a multiple of 8 elements, 16 bytes; this one is "
       "-4.");
  says(fails(FindingKind::kOutOfBounds, Operands::kToGlobal),
       "cp.async.bulk.tensor writes shared memory; this is global memory.");
  says(fails(FindingKind::kOutOfBounds, Operands::kPastTheArray),
       "It reaches 512 bytes past the end of sK, which has 1024 bytes.");
  TensorMap too_long = map();
  too_long.arguments.extents[1] = 21 * kRows;
  run(copy_operands, {1, 1}, too_long, in_.data(), Operands::kPastTheEnd);
  no_findings();
  too_long.arguments.data = in_.data() + kRows * kCols;
  run(copy_operands, {1, 1}, too_long, in_.data(), Operands::kPastTheEnd);
  says(only_finding(FindingKind::kOutOfBounds), "past the end of an allocation of 20480 bytes.");
}

TEST_F(TensorCopyMemory, OfUninitialisedMemory) {
  const Array<Half> empty(20 * kRows * kCols);
  TensorMap of_nothing = map();
  of_nothing.arguments.data = empty.data();
  run(copy_operands, {1, 1}, of_nothing, in_.data(), Operands::kRight);
  only_finding(FindingKind::kUninitialised);
}

// Sectors are those of the rows that exist; shared memory is written past the lanes' pipe.
TEST_F(TensorCopyMemory, Counts) {
  TensorMap ragged = map();
  ragged.arguments.extents[1] = 5;
  run(copy_operands, {1, 1}, ragged, in_.data(), Operands::kRight);
  EXPECT_EQ(counts().global_read_bytes, 5u * 128);
  EXPECT_EQ(counts().global_read_sectors, 5u * 4);
  EXPECT_EQ(counts().global_read_requests, 1u);
  EXPECT_EQ(counts().shared_write_bytes, 0u);
  EXPECT_EQ(counts().shared_requests, 0u);
  EXPECT_EQ(counts().shared_wavefronts, 0u);
  ASSERT_EQ(line_counts().size(), 1u);
  EXPECT_EQ(line_counts()[0].bytes, 5u * 128);
  // Rows that begin in the middle of a sector.
  reset_counts();
  ragged.arguments.data = in_.data() + 8;
  run(copy_operands, {1, 1}, ragged, in_.data(), Operands::kRight);
  EXPECT_EQ(counts().global_read_bytes, 5u * 128);
  EXPECT_EQ(counts().global_read_sectors, 5u * 4 + 1);
}

}  // namespace
}  // namespace cuflash::simt
