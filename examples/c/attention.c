// Attention forward and backward from C, compared with plain loops. To build and run it:
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=<where cuflash is installed>
//   cmake --build build
//   build/attention
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuflash/c_api.h"

enum { BATCH = 1, HEADS = 2, SEQ = 64, DIM = 64, ROWS = BATCH * HEADS * SEQ, SIZE = ROWS * DIM };

static void check(bool good, const char* why) {
  if (good) return;
  fprintf(stderr, "%s\n", why);
  exit(1);
}

// ---- Device memory: the GPU's, or the program's own if the CPU simulator runs the kernels -------

#ifdef ON_GPU
#include <cuda_runtime.h>
static void check_cuda(cudaError_t error) {
  check(error == cudaSuccess, cudaGetErrorString(error));
}
static void allocate(void** data, size_t bytes) { check_cuda(cudaMalloc(data, bytes)); }
static void release(void* data) { check_cuda(cudaFree(data)); }
static void copy(void* to, const void* from, size_t bytes) {  // after the default stream's work
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}
#else
static void allocate(void** data, size_t bytes) { *data = malloc(bytes); }
static void release(void* data) { free(data); }
static void copy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
#endif

static float* to_device(const float* host, size_t size) {
  void* data = NULL;
  allocate(&data, size * sizeof(float));
  check(data != NULL, "Out of memory.");
  copy(data, host, size * sizeof(float));
  return data;
}

// ---- The expected results ----------------------------------------------------------------------

static double dot(const float* x, const float* y, int size) {
  double sum = 0;
  for (int n = 0; n < size; ++n) sum += (double)x[n] * y[n];
  return sum;
}

// O = softmax(scale Q K^T) V with a causal mask, in double. Returns the loss dO . O.
static double plain(double scale, const float* Q, const float* K, const float* V, const float* dO,
                    double* O) {
  double loss = 0;
  for (int row = 0; row < ROWS; ++row) {
    const int first = row / SEQ * SEQ;  // this head's first row; keys after `row` are hidden
    double o[DIM] = {0}, sum = 0;
    for (int key = first; key <= row; ++key) {
      const double weight = exp(scale * dot(&Q[row * DIM], &K[key * DIM], DIM));
      for (int d = 0; d < DIM; ++d) o[d] += weight * V[key * DIM + d];
      sum += weight;
    }
    for (int d = 0; d < DIM; ++d) {
      O[row * DIM + d] = o[d] / sum;
      loss += dO[row * DIM + d] * o[d] / sum;
    }
  }
  return loss;
}

static double distance(double result, double expected) {
  const double error = fabs(result - expected);
  return isnan(error) ? INFINITY : error;
}

// The sum of gradient . x, of a gradient on the device.
static double along(const float* gradient, const float* x) {
  float host[SIZE];
  copy(host, gradient, sizeof host);
  return dot(host, x, SIZE);
}

static void fill(float* values) {
  for (int n = 0; n < SIZE; ++n) values[n] = 2.f * (float)rand() / (float)RAND_MAX - 1.f;
}

// [BATCH, HEADS, SEQ, DIM] without gaps.
static cuflash_tensor contiguous(float* data) {
  const cuflash_tensor tensor = {data, HEADS * SEQ * DIM, SEQ * DIM, DIM};
  return tensor;
}

int main(void) {
  const double tolerance = 3e-6, gradient_tolerance = 1e-4;
  static float Q[SIZE], K[SIZE], V[SIZE], dO[SIZE], O[SIZE], zeros[SIZE];
  static double expected[SIZE];
  fill(Q), fill(K), fill(V), fill(dO);
  float *d_Q = to_device(Q, SIZE), *d_K = to_device(K, SIZE), *d_V = to_device(V, SIZE);
  float *d_O = to_device(zeros, SIZE), *d_L = to_device(zeros, ROWS), *d_dO = to_device(dO, SIZE);
  float *d_dQ = to_device(zeros, SIZE), *d_dK = to_device(zeros, SIZE),
        *d_dV = to_device(zeros, SIZE);
  const cudaStream_t stream = NULL;  // the default stream

  // Forward, the simple form: contiguous [batch, heads, seq, head_dim].
  const float scale = 1.f / sqrtf(DIM);
  int error = cuflash_attention_forward_f32(d_Q, d_K, d_V, d_O, d_L, BATCH, HEADS, SEQ, DIM, scale,
                                            true, stream);
  check(error == CUFLASH_SUCCESS, cuflash_last_error_message());

  // Backward, the full form: it also takes grouped heads, other lengths and any strides.
  const cuflash_problem problem = {.size = sizeof problem,
                                   .batch = BATCH,
                                   .heads_q = HEADS,
                                   .heads_kv = HEADS,
                                   .seq_q = SEQ,
                                   .seq_kv = SEQ,
                                   .head_dim = DIM,
                                   .dtype = CUFLASH_F32,
                                   .causal = 1,
                                   .softmax_scale = scale,
                                   CUFLASH_NO_WINDOW};
  const cuflash_backward_args args = {.size = sizeof args,
                                      .deterministic = 1,
                                      .q = contiguous(d_Q),
                                      .k = contiguous(d_K),
                                      .v = contiguous(d_V),
                                      .o = contiguous(d_O),
                                      .d_o = contiguous(d_dO),
                                      .dq = contiguous(d_dQ),
                                      .dk = contiguous(d_dK),
                                      .dv = contiguous(d_dV),
                                      .lse = d_L};
  error = cuflash_backward(&problem, &args, NULL, stream);
  check(error == CUFLASH_SUCCESS, cuflash_last_error_message());
  printf("forward %s, backward %s\n", cuflash_chosen_stage(CUFLASH_FORWARD, &problem, NULL),
         cuflash_chosen_stage(CUFLASH_BACKWARD, &problem, NULL));

  const double loss = plain(scale, Q, K, V, dO, expected);
  copy(O, d_O, sizeof O);
  double max_error = 0;
  for (int n = 0; n < SIZE; ++n) max_error = fmax(max_error, distance(O[n], expected[n]));
  printf("O: max |error| %.1e, tolerance %.0e\n", max_error, tolerance);

  // The loss is linear in V, so dV . V is the loss. Q and K appear only in scale Q K^T, so dQ . Q
  // and dK . K both equal scale d(loss)/d(scale), here by a central difference.
  const double slope =
      (plain(1.001 * scale, Q, K, V, dO, expected) - plain(0.999 * scale, Q, K, V, dO, expected)) /
      0.002;
  const double gradient_error =
      fmax(distance(along(d_dV, V), loss),
           fmax(distance(along(d_dQ, Q), slope), distance(along(d_dK, K), slope)));
  printf("dQ, dK, dV along Q, K, V: max |error| %.1e, tolerance %.0e\n", gradient_error,
         gradient_tolerance);

  float* const all[] = {d_Q, d_K, d_V, d_O, d_L, d_dO, d_dQ, d_dK, d_dV};
  for (size_t n = 0; n < sizeof all / sizeof *all; ++n) release(all[n]);
  return max_error <= tolerance && gradient_error <= gradient_tolerance ? 0 : 1;
}
