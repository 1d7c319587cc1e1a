// Access to tensors in kernels: a view of the rows of a head. The offsets are 64-bit, so tensors
// may exceed 2^31 elements.
#ifndef CUFLASH_DEVICE_TENSOR_H_
#define CUFLASH_DEVICE_TENSOR_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cuflash/problem.h"
#include "device/mask.h"

namespace cuflash {

// A kernel's parameter: the sizes, the tensors and the mask.
struct ForwardParams : Problem, Forward, Band {
  ForwardParams(const Problem& p, const Forward& args) : Problem(p), Forward(args), Band(p) {}
};
struct BackwardParams : Problem, Backward, Band {
  BackwardParams(const Problem& p, const Backward& args) : Problem(p), Backward(args), Band(p) {}
};

// The rows of one head: gQ(i, d) is element d of row i.
template <class T>
struct Rows {
  T* data;
  std::int64_t row_stride;

  __device__ __forceinline__ T& operator()(std::int64_t row, int d) const {
    return data[row * row_stride + d];
  }
};

template <class T>
__device__ __forceinline__ Rows<T> rows(const Tensor& t, int batch, int head) {
  return {static_cast<T*>(t.data) + batch * t.batch_stride + head * t.head_stride, t.row_stride};
}

// The index of a row of a head in a contiguous [batch, heads_q, seq_q] array (LSE, delta).
__device__ __forceinline__ std::int64_t row_index(const Problem& p, int batch, int head, int row) {
  return (std::int64_t{batch} * p.heads_q + head) * p.seq_q + row;
}

// The KV head of a query head: groups are contiguous.
__device__ __forceinline__ int kv_head(const Problem& p, int head) {
  return head / (p.heads_q / p.heads_kv);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TENSOR_H_
