/*
---
slug: segment-max-lanes-cuda
title: Maxima of ragged segments, a group of lanes for each segment
op: segment-max
language: cuda
techniques: [divergence-avoidance, warp-shuffle-reduction, thread-utilization]
architectures: [sm_90a, sm_100a]
dtypes: [float32]
derived_from: segment-max-threads-cuda
sizes:
  check: [[4096, 64], [1003, 70], [50, 200], [7, 1]]
  bench: [134217728, 4194304]
expect_sass:
  sm_90a: ['SHFL\.BFLY', 'VOTE']
  sm_100a: ['SHFL\.BFLY', 'VOTE']
sources:
  - title: "CUDA C++ Best Practices Guide: branching and divergence"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
  - title: "PyTorch: torch.segment_reduce"
    url: https://docs.pytorch.org/docs/stable/generated/torch.segment_reduce.html
    licence: BSD-3-Clause
  - title: "CUDA Programming Guide: warp vote functions"
    url: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#warp-vote-functions
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 134217728x4194304
  dtype: float32
  baseline: segment-max-threads-cuda
  baseline_ms: 0.2806
  measured_ms: 0.4559
  speedup: 0.6155
  floor_fraction: 0.3034
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 134217728x4194304
  dtype: float32
  baseline: eager
  baseline_ms: 8.755
  measured_ms: 0.4559
  speedup: 19.2
  floor_fraction: 0.3034
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 134217728x4194304
  dtype: float32
  baseline: torch.compile
  baseline_ms: 8.763
  measured_ms: 0.4559
  speedup: 19.22
  floor_fraction: 0.3034
---

y[s] = max of x[offsets[s]] to x[offsets[s + 1] - 1], -inf for an empty segment. LANES neighbouring lanes share a
segment, about a quarter of its mean length, up to a whole warp. They read neighbouring addresses, and a warp
holds 32 / LANES segments only, so its lanes differ by few turns instead of by whole lengths.

The loop runs while any lane of the warp has something left (`__any_sync`): the branch is the same for all
lanes, lanes without work keep -inf by a select, and the warp is whole when it comes to the shuffles. Lanes of
surplus segments stay to the end with an empty range, as a full mask demands.

It did not pay where it was measured: with 32 elements a segment on average, all turns of a thread that has a
segment to itself stay in the same lines of L1, so its scattered addresses cost little, and it needs neither
votes nor shuffles. Lanes are for segments so long or so few that threads alone do not fill the GPU.
*/
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 256;

template <int LANES>
__global__ void __launch_bounds__(kThreads)
    segment_maxima(const float* __restrict__ x, const int64_t* __restrict__ offsets,
                   float* __restrict__ y, int64_t segments) {
    const int lane = threadIdx.x % LANES;
    const int64_t segment = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / LANES;
    const bool real = segment < segments;
    int64_t at = real ? offsets[segment] + lane : 0;
    const int64_t end = real ? offsets[segment + 1] : 0;
    float largest = -INFINITY;
    while (__any_sync(0xFFFFFFFFu, at < end)) {
        largest = fmaxf(largest, at < end ? x[at] : -INFINITY);
        at += LANES;
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset, LANES));
    }
    if (real && lane == 0) y[segment] = largest;
}

template <int LANES>
cudaError_t launch(const float* x, const int64_t* offsets, float* y, int64_t segments,
                   cudaStream_t stream) {
    const int64_t per_block = kThreads / LANES;
    const unsigned grid = unsigned((segments + per_block - 1) / per_block);
    segment_maxima<LANES><<<grid, kThreads, 0, stream>>>(x, offsets, y, segments);
    return cudaGetLastError();
}

}  // namespace

// x: float32. offsets: int64 [segments + 1], not falling. y: float32 [segments].
// lanes: 2, 4, 8, 16 or 32 for each segment.
extern "C" cudaError_t segment_max_lanes(const float* x, const int64_t* offsets, float* y,
                                         int64_t segments, int lanes, cudaStream_t stream) {
    if (segments == 0) return cudaSuccess;
    switch (lanes) {
        case 2: return launch<2>(x, offsets, y, segments, stream);
        case 4: return launch<4>(x, offsets, y, segments, stream);
        case 8: return launch<8>(x, offsets, y, segments, stream);
        case 16: return launch<16>(x, offsets, y, segments, stream);
        case 32: return launch<32>(x, offsets, y, segments, stream);
        default: return cudaErrorInvalidValue;
    }
}
