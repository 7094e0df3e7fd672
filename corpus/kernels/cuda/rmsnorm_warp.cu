/*
---
slug: rmsnorm-warp-cuda
title: RMSNorm of short rows, a group of lanes for each row
op: rmsnorm
language: cuda
techniques: [warp-shuffle-reduction, thread-utilization, shape-specialization, loop-unrolling, vectorized-access]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: rmsnorm-plain
sizes:
  check: [[70, 128], [33, 1001], [9, 2048], [5, 40], [3, 8200]]
  bench: [2097152, 128]
expect_sass:
  sm_90a: ['SHFL\.BFLY', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.128']
  sm_100a: ['SHFL\.BFLY', 'LDG\.E\.EF\.128', 'STG\.E\.EF\.128']
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "CUDA Programming Guide: warp shuffle functions"
    url: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#warp-shuffle-functions
    licence: proprietary
  - title: "FBGEMM pull request 1278: fewer threads per row for small embedding dimensions"
    url: https://github.com/pytorch/FBGEMM/pull/1278
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2097152x128
  dtype: bfloat16
  baseline: rmsnorm-plain
  baseline_ms: 1.269
  measured_ms: 0.2649
  speedup: 4.79
  floor_fraction: 0.9547
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2097152x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.28
  measured_ms: 0.2649
  speedup: 4.832
  floor_fraction: 0.9547
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2097152x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.256
  measured_ms: 0.2649
  speedup: 0.9664
  floor_fraction: 0.9547
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, for rows such as attention heads (64 to
2,048 values) by the million; sums and products in float32.

A block for each row would leave most of its threads idle and meet at barriers. Here a row belongs to
LANES neighbouring lanes of one warp (2 to 32: as many as there are 16-byte vectors, one vector each, or
32 lanes with 2, 4 or 8 vectors). The sum is a butterfly of shuffles among them, so there is neither shared
memory nor a barrier, and no lane idles where the length is a power of two. The row stays in registers
between its two uses. LANES and VECTORS are template parameters, so that loops unroll, and the host
chooses the instance by the length.

Longer rows, rows of no whole number of vectors, and unaligned addresses take one warp per row with
one element per lane and step, in two passes.
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

// The sum over the LANES neighbouring lanes that hold a row, in each of them.
template <int LANES>
__device__ inline float lanes_sum(float value) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset, LANES);
    }
    return value;
}

template <typename T, int LANES, int VECTORS>
__global__ void __launch_bounds__(512)
    rmsnorm_lanes(const uint4* __restrict__ x, const uint4* __restrict__ weight,
                  uint4* __restrict__ y, int64_t rows, int vectors, float inverse_length,
                  float eps) {
    const int lane = threadIdx.x % LANES;
    const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / LANES;
    // Surplus rows keep their lanes in the shuffles, with zeros.
    const int held_vectors = row < rows ? vectors : 0;
    const int64_t start = row * vectors;
    Vector<T> held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * LANES + lane;
        if (at < held_vectors) held[i].raw = __ldcs(x + start + at);
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
    const float scale = rsqrtf(fmaf(lanes_sum<LANES>(squares), inverse_length, eps));
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int at = i * LANES + lane;
        if (at >= held_vectors) continue;
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

template <typename T>
__global__ void __launch_bounds__(512)
    rmsnorm_any(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y,
                int64_t rows, int64_t length, float inverse_length, float eps) {
    const int lane = threadIdx.x % 32;
    const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;  // whole warps leave together
    const int64_t start = row * length;
    float squares = 0.0f;
    for (int64_t at = lane; at < length; at += 32) {
        const float value = to_float(x[start + at]);
        squares = fmaf(value, value, squares);
    }
    const float scale = rsqrtf(fmaf(lanes_sum<32>(squares), inverse_length, eps));
    for (int64_t at = lane; at < length; at += 32) {
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

template <typename T, int LANES, int VECTORS>
void launch_lanes(const Arguments& a, int threads) {
    const int64_t rows_per_block = threads / LANES;
    const unsigned grid = unsigned((a.rows + rows_per_block - 1) / rows_per_block);
    rmsnorm_lanes<T, LANES, VECTORS><<<grid, threads, 0, a.stream>>>(
        static_cast<const uint4*>(a.x), static_cast<const uint4*>(a.weight),
        static_cast<uint4*>(a.y), a.rows, int(a.length / Vector<T>::kWidth),
        1.0f / float(a.length), a.eps);
}

template <typename T>
cudaError_t launch(const Arguments& a, int threads) {
    const auto addresses = reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.y) |
                           reinterpret_cast<uintptr_t>(a.weight);
    const int64_t vectors = a.length / Vector<T>::kWidth;
    if (addresses % 16 != 0 || a.length % Vector<T>::kWidth != 0 || vectors > 256) {
        const unsigned grid = unsigned((a.rows * 32 + threads - 1) / threads);
        rmsnorm_any<T><<<grid, threads, 0, a.stream>>>(
            static_cast<const T*>(a.x), static_cast<const T*>(a.weight), static_cast<T*>(a.y),
            a.rows, a.length, 1.0f / float(a.length), a.eps);
    } else if (vectors <= 2) {
        launch_lanes<T, 2, 1>(a, threads);
    } else if (vectors <= 4) {
        launch_lanes<T, 4, 1>(a, threads);
    } else if (vectors <= 8) {
        launch_lanes<T, 8, 1>(a, threads);
    } else if (vectors <= 16) {
        launch_lanes<T, 16, 1>(a, threads);
    } else if (vectors <= 32) {
        launch_lanes<T, 32, 1>(a, threads);
    } else if (vectors <= 64) {
        launch_lanes<T, 32, 2>(a, threads);
    } else if (vectors <= 128) {
        launch_lanes<T, 32, 4>(a, threads);
    } else {
        launch_lanes<T, 32, 8>(a, threads);
    }
    return cudaGetLastError();
}

}  // namespace

// x, y: [rows, length], weight: [length], contiguous, of one dtype: 0 bfloat16, 1 float16, 2 float32.
// threads: per block, 128, 256 or 512.
extern "C" cudaError_t rmsnorm_warp(const void* x, const void* weight, void* y, int64_t rows,
                                    int64_t length, float eps, int dtype, int threads,
                                    cudaStream_t stream) {
    if (threads != 128 && threads != 256 && threads != 512) return cudaErrorInvalidValue;
    if (rows == 0 || length == 0) return cudaSuccess;
    const Arguments arguments{x, weight, y, rows, length, eps, stream};
    switch (dtype) {
        case 0: return launch<__nv_bfloat16>(arguments, threads);
        case 1: return launch<__half>(arguments, threads);
        case 2: return launch<float>(arguments, threads);
        default: return cudaErrorInvalidValue;
    }
}
