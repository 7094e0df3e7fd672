"""CUDA C++ built by torch's `load_inline` at the first call, the usual form on KernelBench."""

import torch
from torch.utils.cpp_extension import load_inline

HONEST = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["correct"]}

_CUDA = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__global__ void leaky_kernel(const float *x, float *out, int64_t count) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] >= 0.0f ? x[i] : 0.1f * x[i];
}

torch::Tensor leaky(torch::Tensor x) {
  auto out = torch::empty_like(x);
  int64_t count = x.numel();
  if (count > 0) {
    leaky_kernel<<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), count);
  }
  return out;
}
"""

_module = load_inline(
    name="kb_leaky_relu",
    cpp_sources="torch::Tensor leaky(torch::Tensor x);",
    cuda_sources=_CUDA,
    functions=["leaky"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return _module.leaky(x.contiguous())
