"""
---
slug: matmul-skinny
title: Matrix product with few rows or columns, the inner dimension split over programs
op: matmul
language: triton
techniques: [split-k, vectorized-access, kernel-fusion, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[16, 64, 128], [3, 45, 70], [70, 5, 200], [1, 40, 33]]
  bench: [16, 14336, 14336]
check_params: {block_n: 32, block_k: 32, programs: 8}
sources:
  - title: "Hoque et al.: Accelerating a Triton Fused Kernel ... with SplitK work decomposition"
    url: https://arxiv.org/abs/2402.00025
    licence: CC-BY-4.0
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.1358
  measured_ms: 0.103
  speedup: 1.318
  floor_fraction: 0.9319
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1117
  measured_ms: 0.103
  speedup: 1.084
  floor_fraction: 0.9319
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1114
  measured_ms: 0.103
  speedup: 1.082
  floor_fraction: 0.9319
---

C = A @ B where A has few rows, as in decoding, or B few columns: there are two operations for each
element of the large operand, so the work is to read it once at full bandwidth. The tile has as
many rows as there are, 16 to 64, so that nothing is padded to 128; and K is split over programs
until about `programs` of them run, each with several loads in flight. The parts are added up in
float32 by a second kernel in a fixed order, which rounds once and also runs `after`, an
elementwise function.

Few columns are few rows of the transposed product: the operands change places as views, and the
result is written through its strides.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [32, 64, 128],
    "block_k": [64, 128, 256],
    "programs": [264, 528, 1056],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}

# What tl.dot takes at least, and elements that one program of the second pass adds up.
MIN_DOT, REDUCE_BLOCK = 16, 1024


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _part_kernel(
    a_ptr, b_ptr, part_ptr,
    M, N, K, parts, span,
    stride_am, stride_ak, stride_bk, stride_bn, stride_pm, stride_pn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, WHOLE_K: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0) % parts
    tile = tl.program_id(0) // parts
    tiles_n = tl.cdiv(N, BLOCK_N)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows = ((tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    cols = ((tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    first = part * span
    end = tl.minimum(first + span, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        k64 = k.to(tl.int64)
        a_at = a_ptr + rows * stride_am + k64[None, :] * stride_ak
        b_at = b_ptr + k64[:, None] * stride_bk + cols * stride_bn
        # A mask over K where steps are not whole alone: it would narrow the loads along K.
        if WHOLE_K:
            a = tl.load(a_at, mask=rows < M, other=0.0)
            b = tl.load(b_at, mask=cols < N, other=0.0)
        else:
            a = tl.load(a_at, mask=(rows < M) & (k < end)[None, :], other=0.0)
            b = tl.load(b_at, mask=(cols < N) & (k < end)[:, None], other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    place = part.to(tl.int64) * M * N + rows * stride_pm + cols * stride_pn
    tl.store(part_ptr + place, acc, mask=(rows < M) & (cols < N))


@triton.jit
def _add_kernel(
    part_ptr, c_ptr, after_operands, total, parts, AFTER: tl.constexpr, BLOCK: tl.constexpr
):
    lead = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    mask = lead + lane < total
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.range(0, parts):
        at = tl.cast(part, tl.int64) * total + lead + lane
        acc += tl.load(part_ptr + at, mask=mask, other=0.0)
    # All of an element's place is its lead: the lanes of a program cross the ends of rows.
    acc = AFTER(acc, lead + lane, tl.zeros((BLOCK,), tl.int64), mask, after_operands)
    tl.store(c_ptr + lead + lane, acc.to(c_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block_n: int = 64,
    block_k: int = 64,
    programs: int = 528,
    num_warps: int = 4,
    num_stages: int = 5,
) -> torch.Tensor:
    """Return `after(a @ b)`: `a` [M, K] and `b` [K, N] of one dtype, any strides, M or N small.

    The result is contiguous, [M, N] of `out_dtype` (`a`'s if None). `after` is a Triton function
    `(values, lead, lane, mask, operands)`.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=out_dtype or a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    strides = (n, 1)
    if m > n:
        a, b, strides = b.T, a.T, (1, n)
    (rows, _), cols = a.shape, b.shape[1]
    block_m = min(64, max(MIN_DOT, triton.next_power_of_2(rows)))
    block_k = min(block_k, 256 // a.element_size())
    if block_m == 64:
        block_k = min(block_k, 128 // a.element_size())
    tiles = triton.cdiv(rows, block_m) * triton.cdiv(cols, block_n)
    # Parts of two steps at least.
    parts = max(1, min(programs // tiles, k // (2 * block_k)))
    span = triton.cdiv(triton.cdiv(k, parts), block_k) * block_k
    parts = max(1, triton.cdiv(k, span)) if span else 1
    part = torch.empty((parts, m, n), dtype=torch.float32, device=a.device)
    _part_kernel[(tiles * parts,)](
        a, b, part,
        rows, cols, k, parts, span,
        *a.stride(), *b.stride(), *strides,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, WHOLE_K=k % block_k == 0,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    _add_kernel[(triton.cdiv(m * n, REDUCE_BLOCK),)](
        part, c, after_operands, m * n, parts, AFTER=after, BLOCK=REDUCE_BLOCK, num_warps=4
    )
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]; `b` is the transpose of a weight [N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    a, weight = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (n, k))
    )
    return [a, weight.T]
