// The CPU simulator's cuda_runtime.h: the functions and types of CUDA that the stages use.
#ifndef CUFLASH_SIMT_CUDA_RUNTIME_H_
#define CUFLASH_SIMT_CUDA_RUNTIME_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "host_defines.h"

// ---- Vector types ------------------------------------------------------------------------------

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
__forceinline__ float2 make_float2(float x, float y) { return {x, y}; }
__forceinline__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
__forceinline__ int2 make_int2(int x, int y) { return {x, y}; }
__forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
__forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
__forceinline__ int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

// ---- Host runtime ------------------------------------------------------------------------------

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

// Values as in CUDA's driver_types.h.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;

struct cudaDeviceProp {
  char name[256];
  int major, minor;
  int multiProcessorCount;
  int l2CacheSize;
  int warpSize;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  std::size_t sharedMemPerBlockOptin;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* to, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr);
template <class T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// The simulator measures no time: this returns cudaErrorNotSupported.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

// ---- Inside kernels ----------------------------------------------------------------------------

namespace cuflash::simt {

// One lane's arguments of a warp-wide operation.
struct WarpCall {
  enum class Kind {
    kSync,
    kBallot,
    kAny,
    kAll,
    kShuffle,
    kCombine,
    kMatrixAccess,
    kProduct,
    kMma,
    kLdMatrix
  };
  Kind kind;
  unsigned mask;
  std::uint64_t value;  // of a vote: yes if not 0; of a matrix: the lane's operand
  int source;           // of a shuffle: the lane to read
  // The result of `lane`, from the values of `lanes`; values[l] is that of lane l.
  std::uint64_t (*combine)(const std::uint64_t* values, unsigned lanes, int lane) = nullptr;
};
// Waits for all lanes of the mask. Returns the vote, the value of the source lane, or the
// combination.
std::uint64_t warp_call(const WarpCall& call);
unsigned active_lanes();

// Constant while a thread lives, so the compiler may call them once. They return numbers, not
// structs: g++ moves only those out of a loop.
__attribute__((const)) unsigned thread_id(int axis) noexcept;
__attribute__((const)) unsigned block_id(int axis) noexcept;
__attribute__((const)) unsigned block_extent(int axis) noexcept;
__attribute__((const)) unsigned grid_extent(int axis) noexcept;
__attribute__((const)) int lane_id() noexcept;

__forceinline__ uint3 thread_index() { return {thread_id(0), thread_id(1), thread_id(2)}; }
__forceinline__ uint3 block_index() { return {block_id(0), block_id(1), block_id(2)}; }
__forceinline__ dim3 block_shape() { return {block_extent(0), block_extent(1), block_extent(2)}; }
__forceinline__ dim3 grid_shape() { return {grid_extent(0), grid_extent(1), grid_extent(2)}; }

template <class T>
__forceinline__ std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8, "a lane contributes at most 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
__forceinline__ T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
__forceinline__ T shuffle(unsigned mask, T value, int source) {
  return from_bits<T>(warp_call({WarpCall::Kind::kShuffle, mask, to_bits(value), source}));
}

// The values of all lanes, joined by Join::of(a, b).
template <class T, class Join>
__forceinline__ T reduce(unsigned mask, T value) {
  const auto combine = [](const std::uint64_t* values, unsigned lanes, int) {
    T joined = from_bits<T>(values[__builtin_ctz(lanes)]);
    for (lanes &= lanes - 1; lanes != 0; lanes &= lanes - 1) {
      joined = Join::of(joined, from_bits<T>(values[__builtin_ctz(lanes)]));
    }
    return to_bits(joined);
  };
  return from_bits<T>(warp_call({WarpCall::Kind::kCombine, mask, to_bits(value), 0, combine}));
}

// The lanes whose value equals the caller's, bit by bit.
template <class T>
__forceinline__ unsigned match(unsigned mask, T value) {
  const auto combine = [](const std::uint64_t* values, unsigned lanes, int lane) {
    std::uint64_t equal = 0;
    for (; lanes != 0; lanes &= lanes - 1) {
      const int other = __builtin_ctz(lanes);
      if (values[other] == values[lane]) equal |= std::uint64_t{1} << other;
    }
    return equal;
  };
  return static_cast<unsigned>(
      warp_call({WarpCall::Kind::kCombine, mask, to_bits(value), 0, combine}));
}

}  // namespace cuflash::simt

#define threadIdx (::cuflash::simt::thread_index())
#define blockIdx (::cuflash::simt::block_index())
#define blockDim (::cuflash::simt::block_shape())
#define gridDim (::cuflash::simt::grid_shape())
constexpr int warpSize = 32;
constexpr unsigned __clusterSizeInBlocks() { return 1; }  // launch() takes no more

void __syncthreads();
// A barrier that also returns for how many threads (if for any, if for all) the predicate is not 0.
int __syncthreads_count(int predicate);
int __syncthreads_or(int predicate);
int __syncthreads_and(int predicate);

// A fence and a later atomic operation order the thread's accesses before the fence before those of
// every thread after its own atomic operation on the same address; __threadfence_block() only
// within the block.
void __threadfence();
void __threadfence_block();

namespace cuflash::simt {
__forceinline__ unsigned vote(WarpCall::Kind kind, unsigned mask, bool yes) {
  return static_cast<unsigned>(warp_call({kind, mask, yes, 0}));
}
}  // namespace cuflash::simt
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) {
  cuflash::simt::vote(cuflash::simt::WarpCall::Kind::kSync, mask, false);
}
__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
  return cuflash::simt::vote(cuflash::simt::WarpCall::Kind::kBallot, mask, predicate != 0);
}
__forceinline__ int __any_sync(unsigned mask, int predicate) {
  return cuflash::simt::vote(cuflash::simt::WarpCall::Kind::kAny, mask, predicate != 0) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate) {
  return cuflash::simt::vote(cuflash::simt::WarpCall::Kind::kAll, mask, predicate != 0) != 0;
}
// All lanes that have not exited, because the simulator cannot tell which lanes a GPU would run
// together.
__forceinline__ unsigned __activemask() { return cuflash::simt::active_lanes(); }

// Shuffles: segments of `width` lanes; a lane whose source lies outside its segment keeps its own.
template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = cuflash::simt::lane_id();
  return cuflash::simt::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = cuflash::simt::lane_id();
  const int source = lane ^ (lane_mask & 31);
  const bool inside = source < (lane & ~(width - 1)) + width;
  return cuflash::simt::shuffle(mask, value, inside ? source : lane);
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = cuflash::simt::lane_id();
  const int source = lane - static_cast<int>(delta & 31);
  return cuflash::simt::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = cuflash::simt::lane_id();
  const int source = lane + static_cast<int>(delta & 31);
  return cuflash::simt::shuffle(mask, value,
                                source >= (lane & ~(width - 1)) + width ? lane : source);
}

// Reductions: all lanes of the mask get the result.
#define CUFLASH_REDUCE(name, type, joined)                 \
  __forceinline__ type name(unsigned mask, type value) {   \
    struct Join {                                          \
      static type of(type a, type b) { return joined; }    \
    };                                                     \
    return cuflash::simt::reduce<type, Join>(mask, value); \
  }
CUFLASH_REDUCE(__reduce_add_sync, unsigned, a + b)
CUFLASH_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
CUFLASH_REDUCE(__reduce_min_sync, int, b < a ? b : a)
CUFLASH_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
CUFLASH_REDUCE(__reduce_max_sync, int, a < b ? b : a)
CUFLASH_REDUCE(__reduce_and_sync, unsigned, (a & b))
CUFLASH_REDUCE(__reduce_or_sync, unsigned, a | b)
CUFLASH_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef CUFLASH_REDUCE
__forceinline__ int __reduce_add_sync(unsigned mask, int value) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value)));
}

// The lanes of the mask whose value equals the caller's; and whether all lanes have one value.
template <class T>
__forceinline__ unsigned __match_any_sync(unsigned mask, T value) {
  return cuflash::simt::match(mask, value);
}
template <class T>
__forceinline__ unsigned __match_all_sync(unsigned mask, T value, int* all) {
  *all = cuflash::simt::match(mask, value) == mask;
  return *all != 0 ? mask : 0;
}

// Atomics return the old value.
int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);
int atomicSub(int* address, int value);
unsigned atomicSub(unsigned* address, unsigned value);
int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
long long atomicMax(long long* address, long long value);
unsigned long long atomicMax(unsigned long long* address, unsigned long long value);
int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
long long atomicMin(long long* address, long long value);
unsigned long long atomicMin(unsigned long long* address, unsigned long long value);
int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
unsigned long long atomicExch(unsigned long long* address, unsigned long long value);
float atomicExch(float* address, float value);
// Inc wraps from `limit` to 0. Dec wraps to `limit` from 0 and from values above `limit`.
unsigned atomicInc(unsigned* address, unsigned limit);
unsigned atomicDec(unsigned* address, unsigned limit);
int atomicAnd(int* address, int value);
unsigned atomicAnd(unsigned* address, unsigned value);
unsigned long long atomicAnd(unsigned long long* address, unsigned long long value);
int atomicOr(int* address, int value);
unsigned atomicOr(unsigned* address, unsigned value);
unsigned long long atomicOr(unsigned long long* address, unsigned long long value);
int atomicXor(int* address, int value);
unsigned atomicXor(unsigned* address, unsigned value);
unsigned long long atomicXor(unsigned long long* address, unsigned long long value);
int atomicCAS(int* address, int expected, int value);
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value);
unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                             unsigned long long value);

// Bits: how many are set, the lowest (from 1; 0 for none), zeros above the highest, in reverse
// order.
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
__forceinline__ int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
__forceinline__ unsigned long long __brevll(unsigned long long x) {
  unsigned long long reversed = 0;
  for (int bit = 0; bit < 64; ++bit, x >>= 1) reversed = reversed << 1 | (x & 1);
  return reversed;
}
__forceinline__ unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }

__forceinline__ int min(int a, int b) { return b < a ? b : a; }
__forceinline__ long min(long a, long b) { return b < a ? b : a; }
__forceinline__ int max(int a, int b) { return a < b ? b : a; }
__forceinline__ long max(long a, long b) { return a < b ? b : a; }

// A load through the read-only cache.
template <class T>
__forceinline__ T __ldg(const T* address) {
  return *address;
}
// A load that bypasses the L1 cache.
template <class T>
__forceinline__ T __ldcg(const T* address) {
  return *address;
}

// Fast-math names: exact here.
__forceinline__ float rsqrtf(float x) { return 1.f / std::sqrt(x); }
__forceinline__ float __fdividef(float x, float y) { return x / y; }
__forceinline__ unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
__forceinline__ float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
#define __expf expf
#define __logf logf
#define __log2f log2f

#endif  // CUFLASH_SIMT_CUDA_RUNTIME_H_
