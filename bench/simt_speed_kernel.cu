// The kernels of simt_speed, each with accesses of one kind only.
#include <cuda_runtime.h>

#include "device/host/launch.h"
#include "simt_speed_kernel.h"

namespace cuflash {
namespace {

constexpr int kThreads = 256;

// Each warp reads rows of 32 elements, one element per lane.
template <class T>
__global__ void read_rows(const T* in, float* out, int count) {
  const int lane = threadIdx.x % 32;
  float sum = 0.f;
  for (int i = 0; i < count; ++i) sum += float(in[i * 32 + lane]);
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

// Each thread writes one element of a tile, then reads the tile 32 times, between two barriers.
__global__ void read_tiles(const float* in, float* out, int count) {
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int i = 0; i < count; ++i) {
    tile[t] = in[i * kThreads + t];
    __syncthreads();
    for (int j = 0; j < 32; ++j) sum += tile[(t + j) % kThreads];
    __syncthreads();
  }
  out[blockIdx.x * kThreads + t] = sum;
}

}  // namespace

void run_read_rows(const float* in, float* out, int blocks, int count) {
  (void)launch(read_rows<float>, {dim3(blocks), dim3(kThreads)}, in, out, count);
}

void run_read_rows(const __half* in, float* out, int blocks, int count) {
  (void)launch(read_rows<__half>, {dim3(blocks), dim3(kThreads)}, in, out, count);
}

void run_read_tiles(const float* in, float* out, int blocks, int count) {
  (void)launch(read_tiles, {dim3(blocks), dim3(kThreads)}, in, out, count);
}

}  // namespace cuflash
