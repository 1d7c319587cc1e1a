// Launches: limits, schedules, errors, exceptions, several host threads; streams and events.
#include <algorithm>
#include <stdexcept>
#include <thread>

#include "device/shared_memory.h"
#include "support.h"

namespace cuflash::simt {
namespace {

__global__ void nothing() {}
__global__ void use_shared(int n) { shared_memory[n + threadIdx.x] = 1; }

// ---- Limits ------------------------------------------------------------------------------------

class Limits : public SimulatorTest {
 protected:
  // The launch must be refused, with this sentence.
  template <class... Params, class... Args>
  void refused(const std::string& sentence, void (*kernel)(Params...), const LaunchConfig& config,
               Args... args) {
    EXPECT_EQ(launch(kernel, config, args...), FlashAttentionError::CUDA_ERROR);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    const Finding finding = only_finding(FindingKind::kLaunchLimit);
    says(finding, "LAUNCH REFUSED: " + finding.kernel + "\n");
    says(finding, sentence);
    EXPECT_EQ(counts().launches, 0u);
  }
};

TEST_F(Limits, Threads) {
  run(nothing, {1, 1024});
  run(nothing, {1, dim3(4, 4, 64)});
  reset_counts();
  refused("A block of 1025 x 1 x 1 threads; the limits are 1024", nothing, {1, 1025});
  refused("A block of 32 x 33 x 1 threads", nothing, {1, dim3(32, 33)});
  refused("A block of 1 x 1 x 65 threads", nothing, {1, dim3(1, 1, 65)});
  refused("A block of 0 x 1 x 1 threads", nothing, {1, dim3(0)});
}

TEST_F(Limits, Grid) {
  run(nothing, {dim3(1, 65535, 1), 1});
  run(nothing, {dim3(70000), 1});
  reset_counts();
  refused("A grid of 1 x 65536 x 1 blocks", nothing, {dim3(1, 65536), 1});
  refused("A grid of 1 x 1 x 65536 blocks", nothing, {dim3(1, 1, 65536), 1});
  refused("A grid of 0 x 1 x 1 blocks", nothing, {dim3(0), 1});
}

TEST_F(Limits, Cluster) {
  run(nothing, {2, 32, {}, nullptr, dim3(1, 1, 1)});
  reset_counts();
  refused("A cluster of 2 x 1 x 1 blocks; the simulator runs one block at a time", nothing,
          {2, 32, {}, nullptr, dim3(2)});
  refused("A cluster of 1 x 2 x 1 blocks", nothing, {dim3(1, 2), 32, {}, nullptr, dim3(1, 2)});
  refused("A cluster of 1 x 1 x 0 blocks", nothing, {1, 32, {}, nullptr, dim3(1, 1, 0)});
}

TEST_F(Limits, DynamicSharedMemory) {
  run(use_shared, {1, 32, 227 * 1024}, 227 * 1024 - 32);
  reset_counts();
  refused("232449 bytes of dynamic shared memory; the limit is 232448.", use_shared,
          {1, 32, 227 * 1024 + 1}, 0);
}

TEST_F(Limits, PropertiesAgree) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.minor, 0);
  EXPECT_EQ(properties.sharedMemPerBlock, 48u * 1024);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, 227u * 1024);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(value, 227 * 1024);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidValue);
  cudaGetLastError();
}

// ---- Indices and schedules
// -----------------------------------------------------------------------

__global__ void write_numbers(int* order, int* next, uint3* where) {
  const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned n = b * blockDim.x * blockDim.y * blockDim.z + t;
  where[n] = {threadIdx.z, blockIdx.y, blockIdx.z};
  order[atomicAdd(next, 1)] = static_cast<int>(n);
}

class Schedules : public SimulatorTest {
 protected:
  // The order in which the 24 threads of 2 x 2 x 2 blocks of 1 x 3 x 1 run.
  std::vector<int> order(const Schedule& schedule) {
    Array<int> order(24), next(1, 0);
    const Array<uint3> where(24);
    set_schedule(schedule);
    run(write_numbers, {dim3(2, 2, 2), dim3(1, 3, 1)}, order.data(), next.data(), where.data());
    const std::vector<uint3> places = where.values();
    for (unsigned n = 0; n < 24; ++n) {
      EXPECT_EQ(places[n].x, 0u);
      EXPECT_EQ(places[n].y, n / 3 / 2 % 2);
      EXPECT_EQ(places[n].z, n / 3 / 4);
    }
    return order.values();
  }
};

TEST_F(Schedules, OrderOfBlocksAndThreads) {
  std::vector<int> expected(24);
  for (int n = 0; n < 24; ++n) expected[n] = n;
  EXPECT_EQ(order({Schedule::Order::kInOrder, 0}), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(order({Schedule::Order::kReversed, 0}), expected);

  std::vector<int> shuffled = order({Schedule::Order::kRandom, 7});
  EXPECT_EQ(shuffled, order({Schedule::Order::kRandom, 7}));
  EXPECT_NE(shuffled, order({Schedule::Order::kRandom, 8}));
  EXPECT_NE(shuffled, expected);
  std::sort(shuffled.begin(), shuffled.end());
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(shuffled, expected);
}

TEST_F(Schedules, Names) {
  for (const char* name :
       {"inorder", "reversed", "random:0", "random:18446744073709551615", "lagging:3"}) {
    Schedule schedule;
    EXPECT_TRUE(parse_schedule(name, schedule));
    EXPECT_EQ(schedule_name(schedule), name);
  }
  for (const char* name : {"", "in order", "random", "random:", "random:x", "random:1 ", "lagging",
                           "lagging:", "inorder:1"}) {
    Schedule schedule;
    EXPECT_FALSE(parse_schedule(name, schedule)) << name;
  }
}

// ---- Errors and exceptions
// -----------------------------------------------------------------------

__global__ void throws(int thread) {
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == thread) throw std::runtime_error("from the kernel");
  __syncthreads();
}

TEST_F(SimulatorTest, ExceptionsReachTheLauncher) {
  for (int thread = 0; thread < 64; thread += 63) {
    try {
      (void)launch(throws, {2, 64}, thread);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "from the kernel");
    }
    run(throws, {2, 64}, -1);
  }
}

TEST_F(SimulatorTest, ErrorsBelongToTheirHostThread) {
  EXPECT_EQ(cudaSetDevice(5), cudaErrorInvalidValue);
  std::thread([] {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(launch(nothing, {1, 5000}), FlashAttentionError::CUDA_ERROR);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  take_findings();
  EXPECT_STREQ(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
}

// ---- Host threads
// --------------------------------------------------------------------------------

__global__ void sum_in_shared(int* out, int value) {
  __shared__ int box[96];
  const int t = threadIdx.x;
  box[t] = value + t;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 96; ++i) sum += box[i];
  out[blockIdx.x * 96 + t] = sum;
}

// Host code of this file is instrumented too; it runs beside the other thread's kernels.
void launch_many(int value, bool* right) {
  const Array<int> out(4 * 96);
  std::vector<int> expected(4 * 96, 96 * value + 95 * 96 / 2);
  *right = true;
  for (int i = 0; i < 50; ++i) {
    run(sum_in_shared, {4, 96}, out.data(), value);
    *right = *right && out.values() == expected && take_findings().empty();
    (void)counts();
  }
}

TEST_F(SimulatorTest, TwoHostThreads) {
  bool first = false, second = false;
  std::thread other(launch_many, 1000, &first);
  launch_many(5, &second);
  other.join();
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_EQ(counts().launches, 100u);
}

// ---- Streams and events
// --------------------------------------------------------------------------

TEST_F(SimulatorTest, StreamsAndEventsAreHandles) {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_NE(stream, nullptr);
  EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  run(nothing, {1, 32, 0, stream});
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, end), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  float milliseconds = -1.f;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotSupported);
  EXPECT_EQ(milliseconds, -1.f);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace cuflash::simt
