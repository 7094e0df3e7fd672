"""
---
slug: matmul-tma-host
title: Matrix product on TMA descriptors that the host builds
op: matmul
language: triton
techniques: [tma-host-descriptor, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
  - title: "Triton tutorial: persistent matmul"
    url: https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html
    licence: MIT
  - title: "CUDA driver API: tensor map object management (cuTensorMapEncodeTiled)"
    url: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html
    licence: proprietary
  - title: "PTX ISA: cp.async.bulk.tensor"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.2237
  measured_ms: 0.1943
  speedup: 1.151
  floor_fraction: 0.878
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1773
  measured_ms: 0.1943
  speedup: 0.9125
  floor_fraction: 0.878
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1772
  measured_ms: 0.1943
  speedup: 0.912
  floor_fraction: 0.878
---

C = A @ B where tiles move through the Tensor Memory Accelerator. The host describes each matrix
once (base, shape, strides, tile) in a `TensorDescriptor`, which reaches the kernel as a constant
launch argument. In the kernel one thread issues `desc.load([row, col])` for a whole tile; the copy
engine computes the addresses, fills what lies outside with zeros and writes shared memory in the
swizzled layout that wgmma reads. No thread spends registers or instructions on pointers and masks.

TMA wants a base on a 16-byte boundary, strides in multiples of 16 bytes and a last stride of 1.
Operands that break this (odd row lengths, transposed or sliced views) are copied once into padded
rows. The host encodes three descriptors at every launch, which a CUDA graph saves; they hold the
addresses, so a captured graph needs the same buffers.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_desc, b_desc, c_desc,
    N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    row = (tile // tiles_n) * BLOCK_M
    col = (tile % tiles_n) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, col])
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
        # operands ignore the setting.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    c_desc.store([row, col], acc.to(c_desc.dtype))


def _empty_for_tma(rows: int, cols: int, like: torch.Tensor) -> torch.Tensor:
    """[rows, cols] with the rows padded to whole 16-byte units, as TMA requires of strides."""
    unit = 16 // like.element_size()
    padded = triton.cdiv(cols, unit) * unit
    return torch.empty((rows, padded), dtype=like.dtype, device=like.device)[:, :cols]


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` itself where TMA can address it, else a copy that it can (one more pass over `x`)."""
    addressable = (
        x.stride(1) == 1
        and x.stride(0) >= x.shape[1]
        and x.stride(0) * x.element_size() % 16 == 0
        and x.data_ptr() % 16 == 0
    )
    return x if addressable else _empty_for_tma(*x.shape, like=x).copy_(x)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype -> [M, N] of that dtype.

    Where a row of the result is no multiple of 16 bytes, the result is a view of padded rows.
    `block_k` is cut to 128 bytes a row, the widest swizzle that TMA knows.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = _empty_for_tma(m, n, like=a)
    if 0 in (m, n, k):
        return c.zero_()  # a descriptor cannot describe an empty matrix
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    a, b = _for_tma(a), _for_tma(b)
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _matmul_kernel[grid](
        TensorDescriptor.from_tensor(a, [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_k, block_n]),
        TensorDescriptor.from_tensor(c, [block_m, block_n]),
        n, k,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    ]
