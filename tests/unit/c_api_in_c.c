// The C interface as a C program uses it. Compiled as C11.
#include "c_api_in_c.h"

#include "cuflash/flash_attention.h"

// As in api_example.h. 0.17677669 is 1/sqrt(32).
static const cuflash_problem kProblem = {.size = sizeof(cuflash_problem),
                                         .batch = 2,
                                         .heads_q = 4,
                                         .heads_kv = 2,
                                         .seq_q = 5,
                                         .seq_kv = 7,
                                         .head_dim = 32,
                                         .dtype = CUFLASH_F32,
                                         .causal = 1,
                                         .softmax_scale = 0.17677669f,
                                         CUFLASH_NO_WINDOW};

static cuflash_tensor contiguous(float* data, int heads, int seq) {
  const cuflash_tensor tensor = {data, (int64_t)heads * seq * 32, (int64_t)seq * 32, 32};
  return tensor;
}

static cuflash_tensor queries(float* data) { return contiguous(data, 4, 5); }
static cuflash_tensor keys(float* data) { return contiguous(data, 2, 7); }

int c_forward_and_backward(const struct c_tensors* t, const char* stage) {
  const cuflash_forward_args forward = {.size = sizeof forward,
                                        .q = queries(t->q),
                                        .k = keys(t->k),
                                        .v = keys(t->v),
                                        .o = queries(t->o),
                                        .lse = t->lse};
  const cuflash_backward_args backward = {.size = sizeof backward,
                                          .deterministic = 1,
                                          .q = queries(t->q),
                                          .k = keys(t->k),
                                          .v = keys(t->v),
                                          .o = queries(t->o),
                                          .d_o = queries(t->d_o),
                                          .dq = queries(t->dq),
                                          .dk = keys(t->dk),
                                          .dv = keys(t->dv),
                                          .lse = t->lse};
  const int error = cuflash_forward(&kProblem, &forward, stage, NULL);
  return error != CUFLASH_SUCCESS ? error : cuflash_backward(&kProblem, &backward, stage, NULL);
}

const char* c_first_stage_with_backward(void) {
  for (int n = 0; n < cuflash_num_stages(); ++n) {
    const char* name = cuflash_stage_name(n);
    if (cuflash_check_support(CUFLASH_BACKWARD, &kProblem, name) == CUFLASH_SUCCESS) return name;
  }
  return NULL;
}
