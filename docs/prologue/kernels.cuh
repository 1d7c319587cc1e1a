// The prologue's kernels. Each shows one thing that the chapter explains, in the chapter's order.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/shared_memory.h"
#include "device/warp.h"

namespace cuflash::prologue {

constexpr int kHeadDim = 2;
constexpr int kKeys = 3;

// Attention as one works it out by hand. Thread i computes row i of S, P and O.
static __global__ void attention(const float* Q, const float* K, const float* V, float scale,
                                 float* S, float* P, float* O) {
  const int i = threadIdx.x;
  float row_max = -INFINITY, row_sum = 0.f;
  for (int j = 0; j < kKeys; ++j) {
    float s = 0.f;
    for (int d = 0; d < kHeadDim; ++d) s += Q[i * kHeadDim + d] * K[j * kHeadDim + d];
    S[i * kKeys + j] = scale * s;
    row_max = fmaxf(row_max, scale * s);
  }
  for (int j = 0; j < kKeys; ++j) row_sum += expf(S[i * kKeys + j] - row_max);
  for (int j = 0; j < kKeys; ++j) P[i * kKeys + j] = expf(S[i * kKeys + j] - row_max) / row_sum;
  for (int d = 0; d < kHeadDim; ++d) {
    float o = 0.f;
    for (int j = 0; j < kKeys; ++j) o += P[i * kKeys + j] * V[j * kHeadDim + d];
    O[i * kHeadDim + d] = o;
  }
}

// Each thread owns one of `count` elements and writes down the indices of its block and its thread.
static __global__ void who(int* block, int* thread, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  block[n] = blockIdx.x;
  thread[n] = threadIdx.x;
}

// Each block draws a number when it runs.
static __global__ void draw(int* next, int* number) { number[blockIdx.x] = atomicAdd(next, 1); }

// Each thread writes down its warp, its lane, and the sum of all lane numbers of its warp.
static __global__ void lanes(int* warp, int* lane, float* sum) {
  const int t = threadIdx.x;
  warp[t] = t / 32;
  lane[t] = t % 32;
  sum[t] = warp_sum(static_cast<float>(lane[t]));
}

// `width` neighbouring threads take one branch, and the next `width` threads take the other.
static __global__ void branch(const float* in, float* out, int width) {
  const int t = threadIdx.x;
  if (t / width % 2 == 0) {
    out[t] = in[t];
  } else {
    out[t] = -in[t];
  }
}

// Thread t adds up a column of `rows` numbers, with the running sum in global memory.
static __global__ void sum_in_memory(const float* in, float* out, int rows) {
  const int t = threadIdx.x;
  out[t] = 0.f;
  for (int i = 0; i < rows; ++i) out[t] += in[i * blockDim.x + t];
}

// The same, with the running sum in a register.
static __global__ void sum_in_register(const float* in, float* out, int rows) {
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int i = 0; i < rows; ++i) sum += in[i * blockDim.x + t];
  out[t] = sum;
}

// Lane t reads element t · stride.
static __global__ void read_strided(const float* in, float* out, int stride) {
  const int t = threadIdx.x;
  out[t] = in[t * stride];
}

constexpr int kThreads = 64;

// Reverses the elements of a block, through shared memory.
static __global__ void reverse(const float* in, float* out) {
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  tile[t] = in[t];
  __syncthreads();  // All threads have written tile before any thread reads it.
  out[t] = tile[kThreads - 1 - t];
}

// The same without the barrier, which is wrong.
static __global__ void reverse_too_soon(const float* in, float* out) {
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  tile[t] = in[t];
  out[t] = tile[kThreads - 1 - t];
}

// One warp reads a column of a matrix in shared memory. The rows begin `pitch` floats apart.
static __global__ void read_column(float* out, int pitch) {
  __shared__ float tile[32 * 33];
  const int lane = threadIdx.x;
  for (int i = lane; i < 32 * 33; i += 32) tile[i] = static_cast<float>(i);
  __syncwarp();  // All lanes have written tile before any lane reads another's element.
  out[lane] = tile[lane * pitch];
}

// The shared memory of a block of sum_tile.
template <int kRows>
struct SharedStorage {
  float sK[kRows][64];
};

// One block copies a tile of K into shared memory; then each thread adds up some of its rows.
template <int kRows>
__global__ void sum_tile(const float* K, float* out) {
  auto& sK = shared_storage<SharedStorage<kRows>>().sK;
  for (int n = threadIdx.x; n < kRows * 64; n += blockDim.x) sK[n / 64][n % 64] = K[n];
  __syncthreads();  // The whole tile has been written before a row is read.
  for (int row = threadIdx.x; row < kRows; row += blockDim.x) {
    float sum = 0.f;
    for (int d = 0; d < 64; ++d) sum += sK[row][d];
    out[row] = sum;
  }
}

// y = a x + y. The chapter shows its SASS.
static __global__ void scale_and_add(float a, const float* x, float* y, std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  y[n] = a * x[n] + y[n];
}

}  // namespace cuflash::prologue
