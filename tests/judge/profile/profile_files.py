"""Problem and kernel files that the profile's tests share."""

PROBLEM = """
import torch
N = 4096
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n, bias=False)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.rand(N, N)]
def get_init_inputs():
    return [N]
"""

MATMUL = """
import torch
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"B": 128, "K": 64}, num_warps=8, num_stages=3),
             triton.Config({"B": 64, "K": 32}, num_warps=4)], key=["n"])
@triton.jit
def matmul(a, b, c, n, B: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, K)
    acc = tl.zeros((B, B), tl.float32)
    for s in range(0, n, K):
        x = tl.load(a + i[:, None] * n + (s + k)[None, :])
        y = tl.load(b + j[None, :] * n + (s + k)[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * n + j[None, :], acc.to(c.dtype.element_ty))

class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n, bias=False)
    def forward(self, x):
        assert x.is_cuda
        n = x.shape[0]
        c = torch.empty_like(x)
        matmul[lambda meta: (n // meta["B"], n // meta["B"])](x, self.linear.weight, c, n)
        return c
"""

# A persistent kernel asks the card how large it is; a second one needs contents.
PERSISTENT = """
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, S: tl.constexpr, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, S * B):
        i = start + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def kernel_function(x, linear_weight):
    blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    y = torch.empty_like(x)
    scale[(blocks,)](x, y, x.numel(), blocks, 1024, num_warps=4)
    if y.sum().item() > 0:
        raise SystemError("contents")
    return y
"""

CUDA = """/*
---
entry: copy
inputs: [x]
outputs: [{name: y, like: x}]
arguments: [x, y, int64 x.numel, stream]
---
*/
#include <cuda_runtime.h>
__global__ void copy_vectors(const float4* __restrict__ x, float4* __restrict__ y, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" int copy(const void* x, void* y, long n, cudaStream_t stream) {
    copy_vectors<<<(n / 4 + 255) / 256, 256, 0, stream>>>((const float4*)x, (float4*)y, n / 4);
    return cudaGetLastError();
}
"""

INLINE = """
import tempfile
from pathlib import Path
from kb import nvcc

_SOURCE = '''
extern "C" __global__ void halves(const ushort* x, ushort* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
'''
_PATH = Path(tempfile.mkdtemp()) / "halves.cu"
_PATH.write_text(_SOURCE)
_LIBRARY = nvcc.compile_shared(_PATH, "sm_90a")

def kernel_function(x, linear_weight):
    raise RuntimeError("this one wants to be launched by ctypes")
"""
