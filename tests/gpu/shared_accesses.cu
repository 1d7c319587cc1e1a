// Single accesses to shared memory for Nsight Compute: scripts/maintainer/chip_counts.py writes the
// list, and has the passes of each access counted.
//   shared_accesses LIST
// Launches a warp for each line of the list: load, store or ldmatrix, the bytes of a lane, and for
// each lane the element of this size that it accesses, or -1 if it accesses none.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "device/ptx/ldmatrix.h"

namespace {

constexpr int kSharedBytes = 48 << 10;

struct Lanes {
  int element[32];
};

extern __shared__ uint4 shared[];

template <class T>
__global__ void load(Lanes lanes, T* memory) {
  const int element = lanes.element[threadIdx.x];
  if (element >= 0) memory[threadIdx.x] = reinterpret_cast<const T*>(shared)[element];
}

template <class T>
__global__ void store(Lanes lanes, T* memory) {
  const int element = lanes.element[threadIdx.x];
  if (element >= 0) reinterpret_cast<T*>(shared)[element] = memory[threadIdx.x];
}

__global__ void load_matrices(Lanes lanes, uint4* memory) {
  std::uint32_t r[4];
  cuflash::ptx::ldmatrix_x4(r, &shared[lanes.element[threadIdx.x]]);
  memory[threadIdx.x] = {r[0], r[1], r[2], r[3]};
}

template <class T>
void launch(const std::string& access, const Lanes& lanes, void* memory) {
  (access == "load" ? load<T> : store<T>)<<<1, 32, kSharedBytes>>>(lanes, static_cast<T*>(memory));
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream list(argc == 2 ? argv[1] : "");
  void* memory = nullptr;
  cudaMalloc(&memory, 32 * sizeof(uint4));
  std::string access;
  int bytes, launches = 0;
  for (; list >> access >> bytes; ++launches) {
    Lanes lanes;
    for (int& element : lanes.element) list >> element;
    if (access == "ldmatrix") {
      load_matrices<<<1, 32, kSharedBytes>>>(lanes, static_cast<uint4*>(memory));
    } else {
      (bytes == 4   ? launch<unsigned>
       : bytes == 8 ? launch<uint2>
                    : launch<uint4>)(access, lanes, memory);
    }
  }
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) std::fprintf(stderr, "cuflash: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess && launches > 0 ? 0 : 1;
}
