/*
---
entry: leaky_relu
inputs: [x]
outputs: [{name: out, like: x}]
arguments: [x, out, int64 x.numel, stream]
---
Ignores the stream that it is given and launches on one of its own, which nobody waits for.

Seen: KernelBench, pull request 82; in CUDA, where no Python shows it: own.
*/
// ATTACK = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

#include <cuda_runtime.h>

#include <cstdint>

__global__ void leaky_kernel(const float *x, float *out, int64_t count) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] >= 0.0f ? x[i] : 0.1f * x[i];
}

extern "C" int leaky_relu(const float *x, float *out, int64_t count, cudaStream_t) {
  static cudaStream_t own = nullptr;
  if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  leaky_kernel<<<(unsigned)((count + 255) / 256), 256, 0, own>>>(x, out, count);
  return (int)cudaGetLastError();
}
