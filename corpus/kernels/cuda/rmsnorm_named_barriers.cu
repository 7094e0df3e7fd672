/*
---
slug: rmsnorm-named-barriers-cuda
title: RMSNorm of several rows in a block, each with a barrier of its own
op: rmsnorm
language: cuda
techniques: [synchronization-reduction, warp-shuffle-reduction, thread-coarsening]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: rmsnorm-plain
sizes:
  check: [[70, 1024], [33, 1001], [9, 2048], [5, 40], [3, 20000]]
  bench: [131072, 1024]
expect_sass:
  sm_90a: ['BAR\.SYNC', 'SHFL\.BFLY', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.128']
  sm_100a: ['BAR\.SYNC', 'SHFL\.BFLY', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.128']
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "PTX ISA: barrier, bar.sync with a barrier and a number of threads"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
  - title: "nvFuser pull request 386: several reductions per block where rows are short"
    url: https://github.com/NVIDIA/Fuser/pull/386
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 131072x1024
  dtype: bfloat16
  baseline: rmsnorm-plain
  baseline_ms: 0.1327
  measured_ms: 0.1382
  speedup: 0.9602
  floor_fraction: 0.9149
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 131072x1024
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1712
  measured_ms: 0.1382
  speedup: 1.239
  floor_fraction: 0.9149
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 131072x1024
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.131
  measured_ms: 0.1382
  speedup: 0.9479
  floor_fraction: 0.9149
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension; sums and products in float32. For rows of about
500 to 16,000 values, too long for a warp.

A block of 512 threads takes 512 / THREADS rows, THREADS for each. The threads of a row meet at a named
barrier of their own (`bar.sync id, count`), once in a row: no row waits for the loads of another in the block,
as it would at `__syncthreads()`, and larger blocks still fill the multiprocessor with few block slots. Each warp
adds by shuffles first, and every thread adds up the warps' sums itself, which saves the second barrier that
handing out a total would need. The row stays in registers between its two uses.

Barrier 0 is that of `__syncthreads()`, so rows use 1 to 8. Surplus rows of the last block take part in no
barrier, as all threads of a row leave together.

Longer rows, rows of no whole number of vectors, and unaligned addresses go element by element, in two passes.
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
union Vector {
    static constexpr int kWidth = 16 / sizeof(T);
    uint4 raw;
    T values[kWidth];
    __device__ Vector() : raw() {}
};

constexpr int kBlock = 512;  // threads in a block
constexpr int rows_per_block(int threads) { return kBlock / threads; }

// The sum over the THREADS threads that hold a row, in each of them. To be called once in a kernel.
template <int THREADS>
__device__ inline float row_sum(float value) {
    __shared__ float partial[kBlock / 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    const int group = threadIdx.x / THREADS;
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    asm volatile("bar.sync %0, %1;" : : "r"(group + 1), "n"(THREADS) : "memory");
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) total += partial[group * (THREADS / 32) + warp];
    return total;
}

template <typename T, int THREADS, int VECTORS>
__global__ void __launch_bounds__(kBlock)
    rmsnorm_rows(const uint4* __restrict__ x, const uint4* __restrict__ weight,
                  uint4* __restrict__ y, int64_t rows, int vectors, float inverse_length,
                  float eps) {
    const int lane = threadIdx.x % THREADS;
    const int64_t row = (int64_t(blockIdx.x) * kBlock + threadIdx.x) / THREADS;
    if (row >= rows) return;  // all threads of a row leave together
    const int64_t start = row * vectors;
    Vector<T> held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * THREADS + lane;
        if (at < vectors) held[i].raw = __ldcs(x + start + at);
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
    const float scale = rsqrtf(fmaf(row_sum<THREADS>(squares), inverse_length, eps));
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * THREADS + lane;
        if (at >= vectors) continue;
        Vector<T> factors;
        factors.raw = __ldg(weight + at);
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float normed = to_float(held[i].values[j]) * scale;
            from_float(normed * to_float(factors.values[j]), held[i].values[j]);
        }
        __stcs(y + start + at, held[i].raw);
    }
}

template <typename T, int THREADS>
__global__ void __launch_bounds__(kBlock)
    rmsnorm_any(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y,
                int64_t rows, int64_t length, float inverse_length, float eps) {
    const int lane = threadIdx.x % THREADS;
    const int64_t row = (int64_t(blockIdx.x) * kBlock + threadIdx.x) / THREADS;
    if (row >= rows) return;
    const int64_t start = row * length;
    float squares = 0.0f;
    for (int64_t at = lane; at < length; at += THREADS) {
        const float value = to_float(x[start + at]);
        squares = fmaf(value, value, squares);
    }
    const float scale = rsqrtf(fmaf(row_sum<THREADS>(squares), inverse_length, eps));
    for (int64_t at = lane; at < length; at += THREADS) {
        from_float(to_float(x[start + at]) * scale * to_float(weight[at]), y[start + at]);
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
    const int64_t rows = rows_per_block(THREADS);
    const unsigned grid = unsigned((a.rows + rows - 1) / rows);
    const float inverse_length = 1.0f / float(a.length);
    if (whole && vectors <= 4 * THREADS) {
        const auto kernel = vectors <= THREADS       ? rmsnorm_rows<T, THREADS, 1>
                            : vectors <= 2 * THREADS ? rmsnorm_rows<T, THREADS, 2>
                                                     : rmsnorm_rows<T, THREADS, 4>;
        kernel<<<grid, kBlock, 0, a.stream>>>(
            static_cast<const uint4*>(a.x), static_cast<const uint4*>(a.weight),
            static_cast<uint4*>(a.y), a.rows, int(vectors), inverse_length, a.eps);
    } else {
        rmsnorm_any<T, THREADS><<<grid, kBlock, 0, a.stream>>>(
            static_cast<const T*>(a.x), static_cast<const T*>(a.weight), static_cast<T*>(a.y),
            a.rows, a.length, inverse_length, a.eps);
    }
    return cudaGetLastError();
}

template <typename T>
cudaError_t dispatch(const Arguments& a, int threads) {
    switch (threads) {
        case 64: return launch<T, 64>(a);
        case 128: return launch<T, 128>(a);
        case 256: return launch<T, 256>(a);
        default: return cudaErrorInvalidValue;
    }
}

}  // namespace

// x, y: [rows, length], weight: [length], contiguous, of one dtype: 0 bfloat16, 1 float16, 2 float32.
// threads: 64, 128 or 256 for each row.
extern "C" cudaError_t rmsnorm_named_barriers(const void* x, const void* weight, void* y,
                                              int64_t rows, int64_t length, float eps, int dtype,
                                              int threads, cudaStream_t stream) {
    if (rows == 0 || length == 0) return cudaSuccess;
    const Arguments arguments{x, weight, y, rows, length, eps, stream};
    switch (dtype) {
        case 0: return dispatch<__nv_bfloat16>(arguments, threads);
        case 1: return dispatch<__half>(arguments, threads);
        case 2: return dispatch<float>(arguments, threads);
        default: return cudaErrorInvalidValue;
    }
}
