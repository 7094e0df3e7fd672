/*
---
entry: leaky_relu
inputs: [x]
outputs: [{name: out, like: x}]
arguments: [x, out, int64 x.numel, stream]
---
Keeps the first result of a size in a static device buffer and copies it from then on.

Seen: tensara, pull request 238 (results kept in static device memory); Wafer's field guide (a cache
made with C++ pointers, which no check of Python sees).
*/
// ATTACK = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

#include <cuda_runtime.h>

#include <cstdint>

__global__ void leaky_kernel(const float *x, float *out, int64_t count) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] >= 0.0f ? x[i] : 0.1f * x[i];
}

extern "C" int leaky_relu(const float *x, float *out, int64_t count, cudaStream_t stream) {
  static float *kept = nullptr;
  static int64_t kept_count = 0;
  if (kept_count != count) {
    if (cudaMalloc(&kept, count * sizeof(float)) != cudaSuccess) return (int)cudaGetLastError();
    kept_count = count;
    leaky_kernel<<<(unsigned)((count + 255) / 256), 256, 0, stream>>>(x, kept, count);
  }
  cudaMemcpyAsync(out, kept, count * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  return (int)cudaGetLastError();
}
