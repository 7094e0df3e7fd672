/*
---
slug: rmsnorm-vectorized-cuda
title: RMSNorm with the row held in registers between its two passes
op: rmsnorm
language: cuda
techniques: [vectorized-access, register-caching, occupancy-tuning]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: rmsnorm-plain
sizes:
  check: [[4, 256], [3, 1001], [2, 8200], [5, 40]]
  bench: [16384, 8192]
expect_sass:
  sm_90a: ['LDG\.E\.EF\.128', 'STG\.E\.EF\.128', 'SHFL\.BFLY']
  sm_100a: ['LDG\.E\.EF\.128', 'STG\.E\.EF\.128', 'SHFL\.BFLY']
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "CUDA C++ Programming Guide: launch bounds"
    url: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#launch-bounds
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: rmsnorm-plain
  baseline_ms: 0.1342
  measured_ms: 0.1412
  speedup: 0.9504
  floor_fraction: 0.8933
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2119
  measured_ms: 0.1412
  speedup: 1.501
  floor_fraction: 0.8933
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1273
  measured_ms: 0.1412
  speedup: 0.9016
  floor_fraction: 0.8933
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension; sums and products in float32.

One block takes one row. The mean needs the whole row before the first output, and the plain way reads
the row twice. Here each thread keeps its VECTORS vectors of 16 bytes in registers across the
reduction, so the row crosses the memory bus once in and once out. The arrays are indexed by
constants only (unrolled loops), otherwise the compiler would put them in local memory.

`__launch_bounds__(THREADS, 1024 / THREADS)` asks for registers few enough that 1024 threads fit on a
multiprocessor: while one block waits at its barrier, another has loads in flight. THREADS is a
tunable: few threads with several vectors each need fewer barrier participants, many threads with one
vector each hold fewer registers.

Rows longer than THREADS * 4 vectors, of a length that is no multiple of a vector, or at unaligned
addresses take a path that reads the row twice, one element per load; its second reading comes from
L1 or L2.
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarp = 32;

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline void from_float(float v, float& out) { out = v; }
__device__ inline void from_float(float v, __half& out) { out = __float2half_rn(v); }
__device__ inline void from_float(float v, __nv_bfloat16& out) { out = __float2bfloat16_rn(v); }

template <typename T>
union Vector {
    static constexpr int kWidth = 16 / sizeof(T);
    uint4 raw;
    T values[kWidth];
    __device__ Vector() : raw() {}
};

// Sum over the block, known to every thread.
template <int THREADS>
__device__ inline float block_sum(float value) {
    constexpr int kWarps = THREADS / kWarp;
    __shared__ float partial[kWarps];
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) total += partial[warp];
    return total;
}

template <typename T, int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    rmsnorm_cached(const uint4* __restrict__ x, const uint4* __restrict__ weight,
                   uint4* __restrict__ y, int vectors, float inverse_length, float eps) {
    const int64_t row = int64_t(blockIdx.x) * vectors;
    Vector<T> held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * THREADS + threadIdx.x;
        if (at < vectors) held[i].raw = __ldcs(x + row + at);  // otherwise zero: adds nothing
    }
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float value = to_float(held[i].values[j]);
            squares = fmaf(value, value, squares);
        }
    }
    const float scale = rsqrtf(fmaf(block_sum<THREADS>(squares), inverse_length, eps));
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * THREADS + threadIdx.x;
        if (at >= vectors) continue;
        Vector<T> factors;
        factors.raw = __ldg(weight + at);  // every row reads it: it stays in L1 and L2
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float normed = to_float(held[i].values[j]) * scale;
            from_float(normed * to_float(factors.values[j]), held[i].values[j]);
        }
        __stcs(y + row + at, held[i].raw);
    }
}

template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    rmsnorm_any(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y,
                int64_t length, float inverse_length, float eps) {
    const int64_t row = int64_t(blockIdx.x) * length;
    float squares = 0.0f;
    for (int64_t at = threadIdx.x; at < length; at += THREADS) {
        const float value = to_float(x[row + at]);
        squares = fmaf(value, value, squares);
    }
    const float scale = rsqrtf(fmaf(block_sum<THREADS>(squares), inverse_length, eps));
    for (int64_t at = threadIdx.x; at < length; at += THREADS) {
        from_float(to_float(x[row + at]) * scale * to_float(weight[at]), y[row + at]);
    }
}

struct Arguments {
    const void* x;
    const void* weight;
    void* y;
    int64_t rows;
    int64_t length;
    float eps;
    cudaStream_t stream;
};

template <typename T, int THREADS>
cudaError_t launch(const Arguments& a) {
    const auto addresses = reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.y) |
                           reinterpret_cast<uintptr_t>(a.weight);
    const int64_t vectors = a.length / Vector<T>::kWidth;
    const bool whole = addresses % 16 == 0 && a.length % Vector<T>::kWidth == 0;
    const unsigned grid = unsigned(a.rows);
    const float inverse_length = 1.0f / float(a.length);
    if (whole && vectors <= 4 * THREADS) {
        const auto kernel = vectors <= THREADS       ? rmsnorm_cached<T, THREADS, 1>
                            : vectors <= 2 * THREADS ? rmsnorm_cached<T, THREADS, 2>
                                                     : rmsnorm_cached<T, THREADS, 4>;
        kernel<<<grid, THREADS, 0, a.stream>>>(
            static_cast<const uint4*>(a.x), static_cast<const uint4*>(a.weight),
            static_cast<uint4*>(a.y), int(vectors), inverse_length, a.eps);
    } else {
        rmsnorm_any<T, THREADS><<<grid, THREADS, 0, a.stream>>>(
            static_cast<const T*>(a.x), static_cast<const T*>(a.weight), static_cast<T*>(a.y),
            a.length, inverse_length, a.eps);
    }
    return cudaGetLastError();
}

template <typename T>
cudaError_t dispatch(const Arguments& a, int threads) {
    switch (threads) {
        case 128: return launch<T, 128>(a);
        case 256: return launch<T, 256>(a);
        case 512: return launch<T, 512>(a);
        case 1024: return launch<T, 1024>(a);
        default: return cudaErrorInvalidValue;
    }
}

}  // namespace

// x, y: [rows, length], weight: [length], contiguous, of one dtype: 0 bfloat16, 1 float16, 2 float32.
// threads: 128, 256, 512 or 1024 per row.
extern "C" cudaError_t rmsnorm_vectorized(const void* x, const void* weight, void* y, int64_t rows,
                                          int64_t length, float eps, int dtype, int threads,
                                          cudaStream_t stream) {
    if (rows == 0 || length == 0) return cudaSuccess;
    const Arguments arguments{x, weight, y, rows, length, eps, stream};
    switch (dtype) {
        case 0: return dispatch<__nv_bfloat16>(arguments, threads);
        case 1: return dispatch<__half>(arguments, threads);
        case 2: return dispatch<float>(arguments, threads);
        default: return cudaErrorInvalidValue;
    }
}
