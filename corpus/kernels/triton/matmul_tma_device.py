"""
---
slug: matmul-tma-device
title: Matrix product on TMA descriptors built inside the kernel
op: matmul
language: triton
techniques: [tma-device-descriptor, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton: triton.language.make_tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.make_tensor_descriptor.html
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
  baseline_ms: 0.2241
  measured_ms: 0.2046
  speedup: 1.095
  floor_fraction: 0.8338
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1779
  measured_ms: 0.2046
  speedup: 0.8695
  floor_fraction: 0.8338
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.178
  measured_ms: 0.2046
  speedup: 0.87
  floor_fraction: 0.8338
---

C = A @ B where every program builds its own TMA descriptors with `tl.make_tensor_descriptor` from
plain pointers, shapes and strides, and then loads and stores whole tiles through them. The host
side is an ordinary launch: the descriptor can depend on values that only the GPU knows (expert
offsets, ragged batches, an address read from memory), and the launch has no encoding cost.

The price is in the kernel: a descriptor is 128 bytes of global memory, written and fenced by each
program before its first load. Triton takes that memory from the allocator set with
`triton.set_allocator`, one piece a launch. A persistent kernel pays it once a multiprocessor.

TMA wants a base on a 16-byte boundary, strides in multiples of 16 bytes and a last stride of 1;
operands that break this are copied once into padded rows.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(
        a_ptr, shape=[M, K], strides=[stride_am, 1], block_shape=[BLOCK_M, BLOCK_K]
    )
    b_desc = tl.make_tensor_descriptor(
        b_ptr, shape=[K, N], strides=[stride_bk, 1], block_shape=[BLOCK_K, BLOCK_N]
    )
    c_desc = tl.make_tensor_descriptor(
        c_ptr, shape=[M, N], strides=[stride_cm, 1], block_shape=[BLOCK_M, BLOCK_N]
    )
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


def _descriptor_workspace(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Global memory in which the programs of a launch build their descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


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
    `block_k` is cut to 128 bytes a row, the widest swizzle that TMA knows. Sets Triton's allocator
    of the current context.
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
    triton.set_allocator(_descriptor_workspace)
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _matmul_kernel[grid](
        a, b, c,
        m, n, k,
        a.stride(0), b.stride(0), c.stride(0),
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
