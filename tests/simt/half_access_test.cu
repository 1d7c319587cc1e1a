// A load or store of a 16-bit value, of a pair, or of 16 bytes of them is one access.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "support.h"

namespace cuflash::simt {
namespace {

struct AccessCase {
  const char* name;
  const char* accesses;                    // sorted: R4 is a read of 4 bytes, W16 a write of 16
  void (*run)(void* out, const void* in);  // 64 bytes each, aligned to 16
};

template <class T>
struct alignas(16) Chunk {
  T v[16 / sizeof(T)];
};

template <class X>
X* at(void* p) {
  return static_cast<X*>(p);
}
template <class X>
const X* at(const void* p) {
  return static_cast<const X*>(p);
}

float dot(const __half2 a, const __half2 b) {
  const float2 x = __half22float2(a), y = __half22float2(b);
  return x.x * y.x + x.y * y.y;
}

constexpr AccessCase kCases[] = {
    {"copy a half", "R2 W2", [](void* out, const void* in) { *at<half>(out) = *at<half>(in); }},
    {"copy a half2", "R4 W4", [](void* out, const void* in) { *at<half2>(out) = *at<half2>(in); }},
    {"copy a bfloat162", "R4 W4",
     [](void* out, const void* in) { *at<nv_bfloat162>(out) = *at<nv_bfloat162>(in); }},
    {"copy 16 bytes of half2", "R16 W16",
     [](void* out, const void* in) { *at<Chunk<half2>>(out) = *at<Chunk<half2>>(in); }},
    {"copy 16 bytes of half", "R16 W16",
     [](void* out, const void* in) { *at<Chunk<half>>(out) = *at<Chunk<half>>(in); }},
    {"copy 16 bytes of bfloat16", "R16 W16",
     [](void* out, const void* in) { *at<Chunk<nv_bfloat16>>(out) = *at<Chunk<nv_bfloat16>>(in); }},
    {"load a half2, use its elements", "R4 W4",
     [](void* out, const void* in) {
       const half2 h = *at<half2>(in);
       *at<float>(out) = __low2float(h) + float(h.y);
     }},
    {"widen a half2 in memory", "R4 W4 W4",
     [](void* out, const void* in) {
       const float2 f = __half22float2(*at<half2>(in));
       at<float>(out)[0] = f.x;
       at<float>(out)[1] = f.y;
     }},
    {"both elements by intrinsics", "R4 R4 W4",
     [](void* out, const void* in) {
       *at<float>(out) = __low2float(at<half2>(in)[0]) + __high2float(at<half2>(in)[1]);
     }},
    {"one element by name", "R2 W2",
     [](void* out, const void* in) { *at<half>(out) = at<half2>(in)->y; }},
    {"dot product of two 16-byte loads", "R16 R16 W4",
     [](void* out, const void* in) {
       const Chunk<half2> a = at<Chunk<half2>>(in)[0], b = at<Chunk<half2>>(in)[1];
       float sum = 0;
       for (int i = 0; i < 4; ++i) sum += dot(a.v[i], b.v[i]);
       *at<float>(out) = sum;
     }},
    {"store a pair made of floats", "R4 R4 W4",
     [](void* out, const void* in) {
       *at<half2>(out) = __floats2half2_rn(at<float>(in)[0], at<float>(in)[1]);
     }},
    {"store a pair made of values", "R2 R2 W4",
     [](void* out, const void* in) {
       *at<nv_bfloat162>(out) = nv_bfloat162(at<nv_bfloat16>(in)[0], at<nv_bfloat16>(in)[1]);
     }},
    {"store a pair set by element", "R4 W4",
     [](void* out, const void* in) {
       half2 h;
       h.x = *at<float>(in);
       h.y = h.x;
       *at<half2>(out) = h;
     }},
    {"store 16 bytes converted from floats", "R16 R16 W16",
     [](void* out, const void* in) {
       const Chunk<float> a = at<Chunk<float>>(in)[0], b = at<Chunk<float>>(in)[1];
       Chunk<half> h;
       for (int i = 0; i < 4; ++i) {
         h.v[i] = __float2half(a.v[i]);
         h.v[i + 4] = __float2half(b.v[i]);
       }
       *at<Chunk<half>>(out) = h;
     }},
    {"arithmetic on pairs in memory", "R4 R4 R4 R4 W4",
     [](void* out, const void* in) {
       const half2* const h = at<half2>(in);
       *at<half2>(out) = __hfma2(h[0], h[1], h[2] * h[3]);
     }},
    {"add to a half in memory", "R2 R2 W2",
     [](void* out, const void* in) { *at<half>(out) += *at<half>(in); }},
    {"add to a pair in memory", "R4 R4 W4",
     [](void* out, const void* in) { *at<half2>(out) += *at<half2>(in); }},
    {"shared arrays, with no hidden flag", "R2 R2 R4 R4 R4 W2 W2 W4 W4",
     [](void* out, const void* in) {
       __shared__ half sH[8];
       __shared__ __align__(16) half2 sP[4][8];
       const int i = *at<int>(in) & 3;
       sH[i] = at<half>(in)[1];
       at<half>(out)[0] = sH[i + 1];
       sP[1][i] = at<half2>(in)[1];
       at<half2>(out)[1] = sP[2][i];
     }},
};

class HalfAccess : public AccessTest {
 protected:
  void TearDown() override {
    log_accesses(false);
    take_access_log();
    AccessTest::TearDown();
  }
};

TEST_F(HalfAccess, OneAccessEach) {
  const Array<char> in(64, char{0}), out(64, char{0});
  for (const AccessCase& one : kCases) {
    log_accesses(true);
    run(one.run, {1, 1}, out.data(), in.data());
    log_accesses(false);
    take_findings();  // The shared arrays hold no values.
    std::vector<std::string> seen;
    for (const LoggedAccess& access : take_access_log().accesses) {
      seen.push_back((access.write ? "W" : "R") + std::to_string(access.bytes));
    }
    std::sort(seen.begin(), seen.end());
    std::string accesses;
    for (const std::string& access : seen) accesses += (accesses.empty() ? "" : " ") + access;
    EXPECT_EQ(accesses, one.accesses) << one.name;
  }
}

}  // namespace
}  // namespace cuflash::simt
