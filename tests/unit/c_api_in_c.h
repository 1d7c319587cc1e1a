// The functions of c_api_in_c.c that c_api_test.cpp calls.
#ifndef CUFLASH_TESTS_UNIT_C_API_IN_C_H_
#define CUFLASH_TESTS_UNIT_C_API_IN_C_H_

#ifdef __cplusplus
extern "C" {
#endif

// The tensors of api_example.h's problem, in device memory.
struct c_tensors {
  float *q, *k, *v, *o, *lse, *d_o, *dq, *dk, *dv;
};

// One forward and one backward call, of the stage with this name or, if null, of the fastest.
// Returns the first error.
int c_forward_and_backward(const struct c_tensors* t, const char* stage);

// The first stage in the list that supports the backward pass of the problem.
const char* c_first_stage_with_backward(void);

#ifdef __cplusplus
}
#endif

#endif  // CUFLASH_TESTS_UNIT_C_API_IN_C_H_
