// Accesses to shared memory, one warp instruction per launch, whose passes Nsight Compute counts:
// scripts/maintainer/chip_counts.py runs this program and writes docs/results/<device>/passes.json,
// with which tests/simt/chip_test.cpp compares the simulator.
//   shared_passes list   one JSON object for each pattern, in the order of the launches
//   shared_passes        launches them
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kSharedBytes = 32768;

enum class Op { kLoad, kStore, kMatrix };
constexpr const char* kOpNames[] = {"load", "store", "ldmatrix"};

// A warp instruction: the byte at which each lane's access begins, or −1 for a lane that makes
// none.
struct Pattern {
  Op op;
  int bytes;  // of a lane
  std::array<int, 32> offset;
};

struct Lanes {
  int offset[32];
};

// Makes the access `times` times; loaded values are stored, so that the compiler keeps the loads.
template <Op kOp, int kBytes>
__global__ void access(Lanes lanes, int times, unsigned* out) {
  extern __shared__ __align__(128) char shared[];
  const int offset = lanes.offset[threadIdx.x];
  unsigned a = 1, b = 2, c = 3, d = 4;
  const auto s = static_cast<unsigned>(__cvta_generic_to_shared(shared + offset));
  for (int n = 0; n < times; ++n) {
    if (offset < 0) continue;
    if constexpr (kOp == Op::kMatrix) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                   : "r"(s));
    } else if constexpr (kOp == Op::kLoad && kBytes == 4) {
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(a) : "r"(s));
    } else if constexpr (kOp == Op::kLoad && kBytes == 8) {
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(s));
    } else if constexpr (kOp == Op::kLoad) {
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                   : "r"(s));
    } else if constexpr (kBytes == 4) {
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(s), "r"(a));
    } else if constexpr (kBytes == 8) {
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(s), "r"(a), "r"(b));
    } else {
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(s), "r"(a), "r"(b), "r"(c),
                   "r"(d));
    }
  }
  out[threadIdx.x] = a + b + c + d;
}

using Kernel = void (*)(Lanes, int, unsigned*);
Kernel kernel_of(const Pattern& p) {
  const int width = p.bytes == 4 ? 0 : p.bytes == 8 ? 1 : 2;
  static constexpr Kernel kLoad[] = {access<Op::kLoad, 4>, access<Op::kLoad, 8>,
                                     access<Op::kLoad, 16>};
  static constexpr Kernel kStore[] = {access<Op::kStore, 4>, access<Op::kStore, 8>,
                                      access<Op::kStore, 16>};
  switch (p.op) {
    case Op::kLoad:
      return kLoad[width];
    case Op::kStore:
      return kStore[width];
    case Op::kMatrix:
      break;
  }
  return access<Op::kMatrix, 16>;
}

void add_patterns(Op op, int bytes, std::mt19937& random, std::vector<Pattern>& all) {
  const auto add = [&](auto offset_of_lane) {
    Pattern p{op, bytes, {}};
    for (int lane = 0; lane < 32; ++lane) p.offset[lane] = offset_of_lane(lane);
    all.push_back(p);
  };
  for (int stride = 1; stride <= 32; stride *= 2) {
    add([&](int lane) { return lane * stride * bytes; });
  }
  for (int bit = 1; bit <= 16; bit *= 2) {  // two lanes share an address
    add([&](int lane) { return (lane & ~bit) * bytes; });
    add([&](int lane) { return (lane & ~bit) * 4 * bytes; });
  }
  if (op != Op::kMatrix) {
    for (int bit = 1; bit <= 32; bit *= 2) {  // one address for all, for half of them, …
      add([&](int lane) { return lane / bit * bytes; });
      add([&](int lane) { return lane % 3 == 0 ? -1 : lane / bit * bytes; });
    }
    for (int bit = 2; bit <= 8; bit *= 2) {  // lane and lane ^ bit share one, without gaps
      add([&](int lane) { return (lane / (2 * bit) * bit + lane % bit) * bytes; });
    }
    for (int bit = 1; bit <= 16; bit *= 2) {  // half of the lanes
      add([&](int lane) { return (lane & bit) != 0 ? -1 : lane * bytes; });
    }
    for (int count = 1; count < 32; count *= 2) {  // the first lanes
      add([&](int lane) { return lane < count ? lane * bytes : -1; });
    }
  }
  for (int slots = 2; slots <= 64; slots *= 2) {  // lanes pick among a few places
    for (int n = 0; n < 4; ++n) {
      const bool some = n % 2 == 1 && op != Op::kMatrix;  // not all lanes
      const int apart = n < 2 ? bytes : 36 * bytes;
      add([&](int) {
        const int offset = static_cast<int>(random() % slots) * apart % kSharedBytes;
        return some && random() % 4 == 0 ? -1 : offset / bytes * bytes;
      });
    }
  }
}

std::vector<Pattern> patterns() {
  std::mt19937 random(1);
  std::vector<Pattern> all;
  for (const Op op : {Op::kLoad, Op::kStore}) {
    for (const int bytes : {4, 8, 16}) add_patterns(op, bytes, random, all);
  }
  add_patterns(Op::kMatrix, 16, random, all);
  return all;
}

// An element has the bytes of a lane.
void list(const Pattern& p) {
  std::string elements;
  for (const int offset : p.offset) {
    elements += (elements.empty() ? "" : ", ") + std::to_string(offset < 0 ? -1 : offset / p.bytes);
  }
  std::printf("{\"op\": \"%s\", \"bytes\": %d, \"elements\": [%s]}\n",
              kOpNames[static_cast<int>(p.op)], p.bytes, elements.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_list = argc > 1 && std::strcmp(argv[1], "list") == 0;
  const int times = argc > 1 ? std::atoi(argv[1]) : 1;
  unsigned* out = nullptr;
  if (!only_list) cudaMalloc(&out, 32 * sizeof *out);
  for (const Pattern& p : patterns()) {
    if (only_list) {
      list(p);
      continue;
    }
    Lanes lanes;
    std::memcpy(lanes.offset, p.offset.data(), sizeof lanes.offset);
    kernel_of(p)<<<1, 32, kSharedBytes>>>(lanes, times, out);
  }
  const cudaError_t error = only_list ? cudaSuccess : cudaDeviceSynchronize();
  if (error != cudaSuccess) std::printf("%s\n", cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 1;
}
