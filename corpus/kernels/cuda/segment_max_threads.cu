/*
---
slug: segment-max-threads-cuda
title: Maxima of ragged segments, one thread for each segment
op: segment-max
language: cuda
techniques: []
architectures: [sm_90a, sm_100a]
dtypes: [float32]
sizes:
  check: [[4096, 64], [1003, 70], [50, 200], [7, 1]]
  bench: [134217728, 4194304]
expect_sass:
  sm_90a: ['FMNMX']
  sm_100a: ['FMNMX']
sources:
  - title: "CUDA C++ Best Practices Guide: branching and divergence"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
  - title: "PyTorch: torch.segment_reduce"
    url: https://docs.pytorch.org/docs/stable/generated/torch.segment_reduce.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 134217728x4194304
  dtype: float32
  baseline: eager
  baseline_ms: 8.739
  measured_ms: 0.2806
  speedup: 31.14
  floor_fraction: 0.4929
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 134217728x4194304
  dtype: float32
  baseline: torch.compile
  baseline_ms: 8.742
  measured_ms: 0.2806
  speedup: 31.15
  floor_fraction: 0.4929
---

y[s] = max of x[offsets[s]] to x[offsets[s + 1] - 1], -inf for an empty segment. One thread walks along one
segment. The 32 segments of a warp are of unequal length, so the warp takes as long as the longest while the
other lanes idle, and neighbouring lanes read addresses that lie a segment apart.
*/
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

__global__ void __launch_bounds__(256)
    segment_maxima(const float* x, const int64_t* offsets, float* y, int64_t segments) {
    const int64_t segment = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (segment >= segments) return;
    float largest = -INFINITY;
    for (int64_t i = offsets[segment]; i < offsets[segment + 1]; ++i) largest = fmaxf(largest, x[i]);
    y[segment] = largest;
}

}  // namespace

// x: float32. offsets: int64 [segments + 1], not falling. y: float32 [segments].
extern "C" cudaError_t segment_max_threads(const float* x, const int64_t* offsets, float* y,
                                           int64_t segments, cudaStream_t stream) {
    if (segments == 0) return cudaSuccess;
    segment_maxima<<<unsigned((segments + 255) / 256), 256, 0, stream>>>(x, offsets, y, segments);
    return cudaGetLastError();
}
