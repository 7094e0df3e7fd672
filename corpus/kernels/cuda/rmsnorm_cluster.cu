/*
---
slug: rmsnorm-cluster-cuda
title: RMSNorm of long rows, each held by a cluster of blocks
op: rmsnorm
language: cuda
techniques: [cluster-launch, register-caching, vectorized-access]
architectures: [sm_90a, sm_100a]
dtypes: [bfloat16, float16, float32]
derived_from: rmsnorm-plain
sizes:
  check: [[4, 256], [3, 1001], [2, 131072], [5, 40]]
  bench: [256, 524288]
expect_sass:
  sm_90a: ['UCGABAR_ARV', 'UCGABAR_WAIT', 'LDG\.E\.EF\.128']
  sm_100a: ['UCGABAR_ARV', 'UCGABAR_WAIT', 'LDG\.E\.EF\.128']
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "CUDA Programming Guide: thread block clusters, distributed shared memory"
    url: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#thread-block-clusters
    licence: proprietary
  - title: "TensorRT-LLM pull request 15590: parallel cluster reduction in RMSNorm"
    url: https://github.com/NVIDIA/TensorRT-LLM/pull/15590
    licence: Apache-2.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 256x524288
  dtype: bfloat16
  baseline: rmsnorm-plain
  baseline_ms: 0.2195
  measured_ms: 0.2941
  speedup: 0.7463
  floor_fraction: 0.4308
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 256x524288
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.8925
  measured_ms: 0.2941
  speedup: 3.035
  floor_fraction: 0.4308
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 256x524288
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2621
  measured_ms: 0.2941
  speedup: 0.8912
  floor_fraction: 0.4308
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension; sums and products in float32. For few, long
rows: 100 rows of 500,000 values cannot fill a large GPU with one block each, and one multiprocessor
cannot hold such a row.

A cluster of CLUSTER blocks takes a row. Block r has every CLUSTER-th piece of it; the first VECTORS * THREADS
vectors of its share stay in registers, what goes beyond is read again in the second pass. The
blocks' sums are exchanged by distributed shared memory: each block stores its sum into the shared memory
of all the others (stores do not wait), a cluster barrier follows, and each adds up what it received.
No second kernel, no atomics, no memory to clear, and the same order at every run.

Shared memory of another block may be used only once that block runs: all arrive at the barrier when they
start, and wait for it just before the exchange, when it has long been passed. No barrier is needed before the
end, as nobody touches another block's memory after the exchange.
Rows of no whole number of 16-byte vectors and unaligned addresses go element by element.

With 256 rows of 524288 there are rows enough for one block each, and a cluster of 8 holds a quarter of one in
registers: the plain kernel was faster there. A cluster pays where rows are fewer than multiprocessors.
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>

#include <cstdint>
#include <utility>

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

namespace cg = cooperative_groups;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kVectors = 4;    // 16-byte vectors that a thread keeps
constexpr int kLargest = 8;    // blocks in a cluster, the portable limit

using Started = cg::cluster_group::arrival_token;

// The sum over all threads of the cluster, in each of them. To be called once in a kernel. `started`
// is the token of an arrival at the cluster's barrier: other blocks must run before their memory is used.
__device__ inline float cluster_sum(float value, Started&& started) {
    __shared__ float warp_sums[kWarps];
    __shared__ float block_sums[kLargest];
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned blocks = cluster.num_blocks();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
    __syncthreads();
    cluster.barrier_wait(std::move(started));
    if (threadIdx.x < blocks) {
        float total = 0.0f;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) total += warp_sums[warp];
        cluster.map_shared_rank(block_sums, threadIdx.x)[cluster.block_rank()] = total;
    }
    cluster.sync();
    float total = 0.0f;
    for (unsigned block = 0; block < blocks; ++block) total += block_sums[block];
    return total;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    rmsnorm_vectors(const uint4* __restrict__ x, const uint4* __restrict__ weight,
                    uint4* __restrict__ y, int64_t vectors, float inverse_length, float eps) {
    cg::cluster_group cluster = cg::this_cluster();
    auto started = cluster.barrier_arrive();
    const int64_t stride = int64_t(cluster.num_blocks()) * kThreads;
    const int64_t first = int64_t(cluster.block_rank()) * kThreads + threadIdx.x;
    const int64_t row = int64_t(blockIdx.y) * vectors;
    Vector<T> held[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int64_t at = first + i * stride;
        if (at < vectors) held[i].raw = __ldcs(x + row + at);
    }
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float value = to_float(held[i].values[j]);
            squares = fmaf(value, value, squares);
        }
    }
    for (int64_t at = first + kVectors * stride; at < vectors; at += stride) {
        Vector<T> more;
        more.raw = x[row + at];
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float value = to_float(more.values[j]);
            squares = fmaf(value, value, squares);
        }
    }
    const float scale = rsqrtf(fmaf(cluster_sum(squares, std::move(started)), inverse_length, eps));
    const auto finish = [&](Vector<T>& vector, int64_t at) {
        Vector<T> factors;
        factors.raw = __ldg(weight + at);
#pragma unroll
        for (int j = 0; j < Vector<T>::kWidth; ++j) {
            const float normed = to_float(vector.values[j]) * scale;
            from_float(normed * to_float(factors.values[j]), vector.values[j]);
        }
        __stcs(y + row + at, vector.raw);
    };
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int64_t at = first + i * stride;
        if (at < vectors) finish(held[i], at);
    }
    for (int64_t at = first + kVectors * stride; at < vectors; at += stride) {
        Vector<T> more;
        more.raw = x[row + at];
        finish(more, at);
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    rmsnorm_elements(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y,
                     int64_t length, float inverse_length, float eps) {
    cg::cluster_group cluster = cg::this_cluster();
    auto started = cluster.barrier_arrive();
    const int64_t stride = int64_t(cluster.num_blocks()) * kThreads;
    const int64_t first = int64_t(cluster.block_rank()) * kThreads + threadIdx.x;
    const int64_t row = int64_t(blockIdx.y) * length;
    float squares = 0.0f;
    for (int64_t at = first; at < length; at += stride) {
        const float value = to_float(x[row + at]);
        squares = fmaf(value, value, squares);
    }
    const float scale = rsqrtf(fmaf(cluster_sum(squares, std::move(started)), inverse_length, eps));
    for (int64_t at = first; at < length; at += stride) {
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

template <typename T>
cudaError_t launch_rows(const Arguments& a, int cluster) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = unsigned(cluster);
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(unsigned(cluster), unsigned(a.rows));
    config.blockDim = dim3(kThreads);
    config.stream = a.stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    const auto addresses = reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.y) |
                           reinterpret_cast<uintptr_t>(a.weight);
    const float inverse_length = 1.0f / float(a.length);
    if (addresses % 16 == 0 && a.length % Vector<T>::kWidth == 0) {
        return cudaLaunchKernelEx(&config, rmsnorm_vectors<T>, static_cast<const uint4*>(a.x),
                                  static_cast<const uint4*>(a.weight), static_cast<uint4*>(a.y),
                                  a.length / Vector<T>::kWidth, inverse_length, a.eps);
    }
    return cudaLaunchKernelEx(&config, rmsnorm_elements<T>, static_cast<const T*>(a.x),
                              static_cast<const T*>(a.weight), static_cast<T*>(a.y), a.length,
                              inverse_length, a.eps);
}

// A grid has at most 65,535 rows of blocks.
template <typename T>
cudaError_t launch(Arguments a, int cluster) {
    constexpr int64_t kMostRows = 65535;
    const int64_t rows = a.rows;
    for (int64_t done = 0; done < rows; done += kMostRows) {
        a.rows = rows - done < kMostRows ? rows - done : kMostRows;
        const cudaError_t error = launch_rows<T>(a, cluster);
        if (error != cudaSuccess) return error;
        a.x = static_cast<const T*>(a.x) + a.rows * a.length;
        a.y = static_cast<T*>(a.y) + a.rows * a.length;
    }
    return cudaGetLastError();
}

}  // namespace

// x, y: [rows, length], weight: [length], contiguous, of one dtype: 0 bfloat16, 1 float16, 2 float32.
// cluster: blocks per row, 1, 2, 4 or 8.
extern "C" cudaError_t rmsnorm_cluster(const void* x, const void* weight, void* y, int64_t rows,
                                       int64_t length, float eps, int dtype, int cluster,
                                       cudaStream_t stream) {
    if (cluster != 1 && cluster != 2 && cluster != 4 && cluster != 8) return cudaErrorInvalidValue;
    if (rows == 0 || length == 0) return cudaSuccess;
    const Arguments arguments{x, weight, y, rows, length, eps, stream};
    switch (dtype) {
        case 0: return launch<__nv_bfloat16>(arguments, cluster);
        case 1: return launch<__half>(arguments, cluster);
        case 2: return launch<float>(arguments, cluster);
        default: return cudaErrorInvalidValue;
    }
}
