// Attention forward and backward from C++, compared with plain loops. To build and run it:
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=<where cuflash is installed>
//   cmake --build build
//   build/attention
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cuflash/flash_attention.h"

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

static void check(bool good, const char* why) {
  if (good) return;
  std::fprintf(stderr, "%s\n", why);
  std::exit(1);
}
static void check(cuflash::FlashAttentionError error) {
  check(error == cuflash::FlashAttentionError::SUCCESS, cuflash::last_error_message());
}

// ---- Device memory: the GPU's, or the program's own if the CPU simulator runs the kernels -------

#ifdef ON_GPU
#include <cuda_runtime.h>
static void check(cudaError_t error) { check(error == cudaSuccess, cudaGetErrorString(error)); }

static float* to_device(const Floats& host) {
  float* data = nullptr;
  check(cudaMalloc(&data, host.size() * sizeof(float)));
  check(cudaMemcpy(data, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  return data;
}
static Floats to_host(const float* data, size_t size) {  // after the default stream's work
  Floats host(size);
  check(cudaMemcpy(host.data(), data, size * sizeof(float), cudaMemcpyDeviceToHost));
  return host;
}
static void release(float* data) { check(cudaFree(data)); }
#else
static float* to_device(const Floats& host) {
  float* data = new float[host.size()];
  std::copy(host.begin(), host.end(), data);
  return data;
}
static Floats to_host(const float* data, size_t size) { return Floats(data, data + size); }
static void release(float* data) { delete[] data; }
#endif

// ---- The expected results ----------------------------------------------------------------------

template <typename T>
static double dot(const float* x, const T* y, size_t size) {
  double sum = 0;
  for (size_t n = 0; n < size; ++n) sum += double(x[n]) * y[n];
  return sum;
}

static size_t at(const cuflash::Tensor& t, int b, int h, int s) {
  return b * t.batch_stride + h * t.head_stride + s * t.row_stride;
}

// O = softmax(scale Q K^T) V in double; only the strides of `t` are used.
static Doubles plain(const cuflash::Problem& p, const cuflash::Forward& t, const Floats& Q,
                     const Floats& K, const Floats& V) {
  Doubles O(size_t(p.batch) * p.heads_q * p.seq_q * p.head_dim);
  for (int row = 0; row < p.batch * p.heads_q * p.seq_q; ++row) {
    const int i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    const int hk = h / (p.heads_q / p.heads_kv);
    const int keys = p.causal ? std::min(p.seq_kv, i + 1 + p.seq_kv - p.seq_q) : p.seq_kv;
    const float* q = &Q[at(t.q, b, h, i)];
    double *o = &O[at(t.o, b, h, i)], sum = 0;
    for (int j = 0; j < keys; ++j) {
      const float *k = &K[at(t.k, b, hk, j)], *v = &V[at(t.v, b, hk, j)];
      const double weight = std::exp(p.softmax_scale * dot(q, k, p.head_dim));
      for (int d = 0; d < p.head_dim; ++d) o[d] += weight * v[d];
      sum += weight;
    }
    for (int d = 0; d < p.head_dim; ++d) o[d] /= sum;
  }
  return O;
}

static void compare(const char* what, const Floats& result, const Doubles& expected,
                    double tolerance) {
  double error = 0;
  for (size_t n = 0; n < result.size(); ++n) {
    const double e = std::fabs(result[n] - expected[n]);
    error = std::fmax(error, std::isnan(e) ? INFINITY : e);
  }
  std::printf("%s: max |error| %.1e, tolerance %.0e\n", what, error, tolerance);
  check(error <= tolerance, "That is too much.");
}

static Floats random(size_t size) {
  static std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats values(size);
  for (float& value : values) value = uniform(generator);
  return values;
}

int main() {
  // The simple form: contiguous [batch_size, num_heads, seq_len, head_dim].
  const int batch_size = 1, num_heads = 2, seq_len = 64, head_dim = 64;
  const float scale = cuflash::default_scale(head_dim);
  const size_t rows = size_t(batch_size) * num_heads * seq_len, size = rows * head_dim;
  const cudaStream_t stream = nullptr;  // the default stream

  const Floats Q = random(size), K = random(size), V = random(size), dO = random(size);
  const Floats zeros(size);
  float *d_Q = to_device(Q), *d_K = to_device(K), *d_V = to_device(V), *d_dO = to_device(dO);
  float *d_O = to_device(zeros), *d_L = to_device(Floats(rows));
  float *d_dQ = to_device(zeros), *d_dK = to_device(zeros), *d_dV = to_device(zeros);

  // clang-format off
  auto err = cuflash::flash_attention_forward(d_Q, d_K, d_V, d_O, d_L, batch_size, num_heads, seq_len, head_dim, scale, true, stream);
  // clang-format on
  check(err);
  check(cuflash::flash_attention_backward(d_Q, d_K, d_V, d_O, d_L, d_dO, d_dQ, d_dK, d_dV,
                                          batch_size, num_heads, seq_len, head_dim, scale, true,
                                          stream));

  cuflash::Problem p{batch_size, num_heads,   num_heads, seq_len, seq_len,
                     head_dim,   CUFLASH_F32, true,      scale};
  const cuflash::Tensor bhsd = cuflash::contiguous(nullptr, num_heads, seq_len, head_dim);
  std::printf("forward %s, backward %s\n", cuflash::chosen_stage(CUFLASH_FORWARD, p),
              cuflash::chosen_stage(CUFLASH_BACKWARD, p));
  compare("O", to_host(d_O, size), plain(p, {bhsd, bhsd, bhsd, bhsd}, Q, K, V), 3e-6);

  // The loss dO · O is linear in V, so dV · V is the loss. Q and K appear only in scale Q K^T, so
  // dQ · Q and dK · K both equal scale d(loss)/d(scale), here by a central difference.
  const auto loss = [&](float s) {
    p.softmax_scale = s;
    return dot(dO.data(), plain(p, {bhsd, bhsd, bhsd, bhsd}, Q, K, V).data(), size);
  };
  const float low = scale * 0.999f, high = scale * 1.001f;
  const double slope = scale * (loss(high) - loss(low)) / (double(high) - low);
  const auto along = [&](const float* gradient, const Floats& x) {
    return float(dot(to_host(gradient, size).data(), x.data(), size));
  };
  compare("dQ, dK, dV along Q, K, V", {along(d_dQ, Q), along(d_dK, K), along(d_dV, V)},
          {slope, slope, loss(scale)}, 1e-4);

  // The full form: the same memory as [batch, seq, heads, head_dim]; four query heads share two KV
  // heads, and there are half as many queries as keys.
  p = {1, 4, 2, 32, 64, 32, CUFLASH_F32, true, cuflash::default_scale(32)};
  const auto bshd = [&](float* data, int seq, int heads) -> cuflash::Tensor {
    return {data, seq * heads * p.head_dim, p.head_dim, heads * p.head_dim};
  };
  const cuflash::Forward args{bshd(d_Q, p.seq_q, p.heads_q), bshd(d_K, p.seq_kv, p.heads_kv),
                              bshd(d_V, p.seq_kv, p.heads_kv), bshd(d_O, p.seq_q, p.heads_q), d_L};
  check(cuflash::forward(p, args, stream));
  std::printf("full form: forward %s\n", cuflash::chosen_stage(CUFLASH_FORWARD, p));
  const Doubles expected = plain(p, args, Q, K, V);
  compare("O", to_host(d_O, expected.size()), expected, 3e-6);

  for (float* data : {d_Q, d_K, d_V, d_dO, d_O, d_L, d_dQ, d_dK, d_dV}) release(data);
}
