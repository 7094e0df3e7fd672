"""
---
slug: matmul-short-k
title: Matrix product with a short inner dimension, one block of rows against many columns
op: matmul
language: triton
techniques: [register-caching, tma-host-descriptor, thread-coarsening, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[64, 64, 64], [33, 45, 70], [1, 72, 17], [40, 136, 33]]
  bench: [16384, 16384, 64]
check_params: {block_m: 32, block_n: 32, walk: 2}
sources:
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
  - title: "PTX ISA: cp.async.bulk.tensor"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.2162
  measured_ms: 0.1803
  speedup: 1.199
  floor_fraction: 0.9925
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2114
  measured_ms: 0.1803
  speedup: 1.172
  floor_fraction: 0.9925
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2113
  measured_ms: 0.1803
  speedup: 1.172
  floor_fraction: 0.9925
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.1989
  measured_ms: 0.1476
  speedup: 1.348
  floor_fraction: 0.8652
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1742
  measured_ms: 0.1476
  speedup: 1.18
  floor_fraction: 0.8652
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x16384x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1739
  measured_ms: 0.1476
  speedup: 1.178
  floor_fraction: 0.8652
---

C = A @ B where K is at most 256: there are so few products to an element of C that writing C takes
the time, and the usual loop over K ends before its pipeline is full. Here the loop runs over
columns instead. A program loads its rows of A once, whole, and walks over `walk` blocks of
columns: the next blocks of B, which lie in L2, are on their way while a block is multiplied and
the one before it is written. Results leave through TMA, which the threads do not wait for, where
the rows of C are whole 16-byte units; else with plain stores. `after` is an elementwise function
that is run on the float32 results before they are rounded.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "walk": [1, 2, 4, 8, 16],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}

# What tl.dot takes at least, and the inner dimension of which a block of rows still fits.
MIN_DOT, MAX_K = 16, 256


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _matmul_kernel(
    a_desc, b_desc, c_desc, c_ptr, after_operands,
    M, N,
    B_TURNED: tl.constexpr, BY_TMA: tl.constexpr, AFTER: tl.constexpr, WALK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    walks = tl.cdiv(tl.cdiv(N, BLOCK_N), WALK)
    row = tl.program_id(0) // walks * BLOCK_M
    first = tl.program_id(0) % walks * (WALK * BLOCK_N)
    a = a_desc.load([row, 0])
    rows = row + tl.arange(0, BLOCK_M)[:, None]
    # Counted in int64: results of a few GB have more than 2**31 elements.
    lead = rows.to(tl.int64) * N
    for col in tl.range(first, tl.minimum(first + WALK * BLOCK_N, N), BLOCK_N):
        b = b_desc.load([col, 0]).trans() if B_TURNED else b_desc.load([0, col])
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        c = tl.dot(a, b, input_precision="tf32x3")
        cols = col + tl.arange(0, BLOCK_N)[None, :]
        mask = (rows < M) & (cols < N)
        c = AFTER(c, lead, cols, mask, after_operands)
        if BY_TMA:
            c_desc.store([row, col], c.to(c_desc.dtype))
        else:
            tl.store(c_ptr + lead + cols, c.to(c_ptr.dtype.element_ty), mask=mask)


def _for_tma(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """`x` [R, C] with its contiguous dimension last, and whether that turned it round.

    What TMA cannot address is copied, its rows padded to whole 16-byte units.
    """
    unit = 16 // x.element_size()
    padded = triton.cdiv(x.shape[1], unit) * unit
    for turned, each in ((False, x), (True, x.T)):
        # One row alone may have any stride: it is never used.
        rows = each.stride(0) if each.shape[0] > 1 else triton.cdiv(each.shape[1], unit) * unit
        fits = each.stride(1) == 1 and rows >= each.shape[1]
        if fits and each.data_ptr() % 16 == 0 and rows % unit == 0:
            return each.as_strided(each.shape, (rows, 1)), turned
    copy = torch.empty((x.shape[0], padded), dtype=x.dtype, device=x.device)
    return copy[:, : x.shape[1]].copy_(x), False


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block_m: int = 64,
    block_n: int = 128,
    walk: int = 2,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `after(a @ b)`: `a` [M, K] and `b` [K, N] of one dtype, K at most 256, any strides.

    The result is contiguous, [M, N] of `out_dtype` (`a`'s if None). `after` is a Triton function
    `(values, lead, lane, mask, operands)`.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    if k > MAX_K:
        raise ValueError(f"the inner dimension is {k}: this kernel is for at most {MAX_K}")
    c = torch.empty((m, n), dtype=out_dtype or a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    if k == 0:  # nothing to describe: one column of zeros stands for none
        a, b, k = a.new_zeros((m, 1)), b.new_zeros((1, n)), 1
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    block_k = max(MIN_DOT, triton.next_power_of_2(k))
    if block_k * a.element_size() > 256:  # a row of 128 16-bit values: what is longer, in less rows
        block_m, block_n = min(block_m, 64), min(block_n, 64)
    a, a_turned = _for_tma(a)
    if a_turned:  # its rows are read once: a copy costs little
        a = torch.empty((m, triton.cdiv(k, 8) * 8), dtype=a.dtype, device=a.device)[:, :k].copy_(
            a.T
        )
    b, b_turned = _for_tma(b)
    by_tma = n * c.element_size() % 16 == 0
    block_c = [block_m, block_n]
    _matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(triton.cdiv(n, block_n), walk),)](
        TensorDescriptor.from_tensor(a, [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_n, block_k] if b_turned else [block_k, block_n]),
        TensorDescriptor.from_tensor(c, block_c) if by_tma else c, c, after_operands,
        m, n,
        B_TURNED=b_turned, BY_TMA=by_tma, AFTER=after, WALK=walk,
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
