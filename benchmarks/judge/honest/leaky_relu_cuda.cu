/*
---
entry: leaky_relu
inputs: [x]
outputs: [{name: out, like: x}]
arguments: [x, out, int64 x.numel, stream]
---
A lone CUDA file whose entry point is declared above: four values per thread where they are aligned.
*/
// HONEST = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["correct"]}

#include <cuda_runtime.h>

#include <cstdint>

__device__ float leaky(float x) { return x >= 0.0f ? x : 0.1f * x; }

__global__ void leaky_four(const float4 *x, float4 *out, int64_t quads) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= quads) return;
  float4 v = x[i];
  out[i] = make_float4(leaky(v.x), leaky(v.y), leaky(v.z), leaky(v.w));
}

__global__ void leaky_rest(const float *x, float *out, int64_t start, int64_t count) {
  int64_t i = start + threadIdx.x;
  if (i < count) out[i] = leaky(x[i]);
}

extern "C" int leaky_relu(const float *x, float *out, int64_t count, cudaStream_t stream) {
  bool aligned = ((uintptr_t)x | (uintptr_t)out) % sizeof(float4) == 0;
  int64_t quads = aligned ? count / 4 : 0;
  if (quads > 0) {
    leaky_four<<<(unsigned)((quads + 255) / 256), 256, 0, stream>>>((const float4 *)x, (float4 *)out, quads);
  }
  for (int64_t start = quads * 4; start < count; start += 256) {
    leaky_rest<<<1, 256, 0, stream>>>(x, out, start, count);
  }
  return (int)cudaGetLastError();
}
