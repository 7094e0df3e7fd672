/*
---
slug: smooth-steps-graph-cuda
title: Smoothing of a signal in many short steps, replayed as one CUDA graph
op: smooth-steps
language: cuda
techniques: [cuda-graphs, programmatic-dependent-launch]
architectures: [sm_90a, sm_100a]
dtypes: [float32]
derived_from: smooth-steps-plain
sizes:
  check: [[512, 4], [100, 3], [7, 2]]
  bench: [262144, 64]
expect_sass:
  sm_90a: ['ACQBULK', 'PREEXIT']
  sm_100a: ['ACQBULK', 'PREEXIT']
sources:
  - title: "CUDA Programming Guide 4.2: CUDA graphs"
    url: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html
    licence: proprietary
  - title: "CUDA Programming Guide 4.5: programmatic dependent launch"
    url: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/programmatic-dependent-launch.html
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: smooth-steps-plain
  baseline_ms: 0.465
  measured_ms: 0.1436
  speedup: 3.238
  floor_fraction: 0.005159
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: eager
  baseline_ms: 3.987
  measured_ms: 0.1436
  speedup: 27.76
  floor_fraction: 0.005159
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: torch.compile
  baseline_ms: 0.1524
  measured_ms: 0.1436
  speedup: 1.061
  floor_fraction: 0.005159
---

x[i] becomes x[i] + rate[i] * (x[i - 1] - 2 x[i] + x[i + 1]) / 4, `steps` times; beyond the ends lie the end
values. Each step needs the whole result of the one before, so it is a kernel of its own.

The launches are captured once for each set of buffers, size and number of steps, and replayed as one graph
after that: one call of the host for all steps. The last graph is kept; another set of arguments
builds a new one, so the launch code copies the inputs into buffers that stay the same.
With `dependent` set the launches overlap: a step starts while the one
before ends, loads its rates and waits; capture turns that into programmatic edges.

The cache of graphs is not safe for several host threads.
*/
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    smooth(const float* x, const float* rate, float* out, int64_t n) {
    const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    const float r = i < n ? rate[i] : 0.0f;  // no step writes the rates
    cudaGridDependencySynchronize();
    float result = 0.0f;
    if (i < n) {
        const float here = x[i];
        const float left = x[i > 0 ? i - 1 : 0];
        const float right = x[i + 1 < n ? i + 1 : n - 1];
        result = here + 0.25f * r * (left - 2.0f * here + right);
    }
    cudaTriggerProgrammaticLaunchCompletion();
    if (i < n) out[i] = result;
}

struct Arguments {
    const float* x;
    const float* rate;
    float* out;
    float* other;
    int64_t n;
    int steps;
    int dependent;
    int device;

    bool operator==(const Arguments& b) const {
        return x == b.x && rate == b.rate && out == b.out && other == b.other && n == b.n &&
               steps == b.steps && dependent == b.dependent && device == b.device;
    }
};

// The last step writes `out`; the steps before alternate.
cudaError_t launch_all(const Arguments& a, cudaStream_t stream) {
    const float* from = a.x;
    for (int step = 0; step < a.steps; ++step) {
        float* to = (a.steps - 1 - step) % 2 == 0 ? a.out : a.other;
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(unsigned((a.n + kThreads - 1) / kThreads));
        config.blockDim = dim3(kThreads);
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = a.dependent && step > 0 ? 1 : 0;
        const cudaError_t error = cudaLaunchKernelEx(&config, smooth, from, a.rate, to, a.n);
        if (error != cudaSuccess) return error;
        from = to;
    }
    return cudaSuccess;
}

cudaError_t capture(const Arguments& a, cudaGraphExec_t* executable) {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return error;
    error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        error = launch_all(a, stream);
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        if (error == cudaSuccess) error = ended;
        if (error == cudaSuccess) error = cudaGraphInstantiate(executable, graph, 0);
        if (graph != nullptr) cudaGraphDestroy(graph);
    }
    cudaStreamDestroy(stream);
    return error;
}

}  // namespace

// out = x after `steps` steps; other: a second buffer. All float32 [n]; steps at least 1.
extern "C" cudaError_t smooth_steps_graph(const float* x, const float* rate, float* out,
                                          float* other, int64_t n, int steps, int dependent,
                                          cudaStream_t stream) {
    static cudaGraphExec_t executable = nullptr;
    static Arguments captured = {};
    if (n == 0 || steps < 1) return cudaErrorInvalidValue;
    Arguments wanted{x, rate, out, other, n, steps, dependent, 0};
    cudaError_t error = cudaGetDevice(&wanted.device);
    if (error != cudaSuccess) return error;
    if (executable == nullptr || !(captured == wanted)) {
        if (executable != nullptr) cudaGraphExecDestroy(executable);
        executable = nullptr;
        error = capture(wanted, &executable);
        if (error != cudaSuccess) return error;
        captured = wanted;
    }
    return cudaGraphLaunch(executable, stream);
}
