/*
---
slug: scale-elements-cuda
title: Scaled copy, one element a thread
op: scale
language: cuda
techniques: [coalesced-access]
architectures: [sm_90a, sm_100a]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4096], [1000003], [7], [8191]]
  bench: [268435456]
expect_sass:
  sm_90a: ['LDG\.E\.EF\.U16', 'STG\.E\.EF\.U16']
  sm_100a: ['LDG\.E\.EF\.U16', 'STG\.E\.EF\.U16']
sources:
  - title: "CUDA C++ Best Practices Guide: coalesced access to global memory"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#coalesced-access-to-global-memory
    licence: proprietary
---

y = factor * x over contiguous elements of any number; the product is taken in float32.

Neighbouring threads take neighbouring elements, so no fetched byte is wasted. But an access is one
element wide: a warp's request of 16-bit values covers 64 bytes, and each thread has one request in
flight. `streaming-scale-cuda` differs in the width and number of its accesses alone: both read and
write with the streaming hint.
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline void from_float(float v, float& out) { out = v; }
__device__ inline void from_float(float v, __half& out) { out = __float2half_rn(v); }
__device__ inline void from_float(float v, __nv_bfloat16& out) { out = __float2bfloat16_rn(v); }

template <typename T>
__global__ void scale_kernel(const T* __restrict__ x, T* __restrict__ y, float factor,
                             int64_t count) {
    const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count) return;
    T scaled;
    from_float(to_float(__ldcs(x + at)) * factor, scaled);
    __stcs(y + at, scaled);
}

template <typename T>
cudaError_t launch(const void* x, void* y, float factor, int64_t count, int threads,
                   cudaStream_t stream) {
    const unsigned grid = unsigned((count + threads - 1) / threads);
    scale_kernel<<<grid, threads, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(y),
                                               factor, count);
    return cudaGetLastError();
}

}  // namespace

// y[i] = factor * x[i] for `count` contiguous elements. dtype: 0 bfloat16, 1 float16, 2 float32.
extern "C" cudaError_t scale_elements(const void* x, void* y, float factor, int64_t count,
                                      int dtype, int threads, cudaStream_t stream) {
    if (threads < 32 || threads > 1024 || dtype < 0 || dtype > 2) return cudaErrorInvalidValue;
    if (count == 0) return cudaSuccess;
    const auto run = dtype == 0   ? launch<__nv_bfloat16>
                     : dtype == 1 ? launch<__half>
                                  : launch<float>;
    return run(x, y, factor, count, threads, stream);
}
