// A library whose calls return what they are told: the problem's size, or the workspace's.
#include "cuflash/c_api.h"

extern "C" {
int cuflash_check_support(int, const cuflash_problem* problem, const char*) {
  return static_cast<int>(problem->size);
}
const char* cuflash_last_error_message() { return ""; }
size_t cuflash_workspace_bytes(int pass, const cuflash_problem*, const char*) {
  return pass == CUFLASH_FORWARD ? 11 : 12;
}
int cuflash_forward(const cuflash_problem*, const cuflash_forward_args* args, const char*,
                    cudaStream_t) {
  return static_cast<int>(args->workspace_bytes);
}
int cuflash_backward(const cuflash_problem*, const cuflash_backward_args* args, const char*,
                     cudaStream_t) {
  return static_cast<int>(args->workspace_bytes);
}
}
