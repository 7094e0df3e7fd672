/*
---
entry: abs_sum
inputs: [x]
outputs: [{name: out, shape: ["x.shape[0]"], dtype: x.dtype}]
arguments: [x, out, "int64 x.shape[0]", "int64 x.shape[1]", stream]
---
A block per row: shuffles within warps, then over the warps through shared memory.
*/
// HONEST = {"problem": "abs_sum", "needs": "gpu", "verdicts": ["correct"]}

#include <cuda_runtime.h>

#include <cstdint>

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  return value;
}

__global__ void row_sums(const float *x, float *out, int64_t columns) {
  __shared__ float partial[32];
  const float *row = x + blockIdx.x * columns;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += fabsf(row[i]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

extern "C" int abs_sum(const float *x, float *out, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows > 0) row_sums<<<(unsigned)rows, 256, 0, stream>>>(x, out, columns);
  return (int)cudaGetLastError();
}
