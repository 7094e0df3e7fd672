"""
---
slug: matmul-split-k
title: Matrix product with K split over programs and a deterministic second pass
op: matmul
language: triton
techniques: [split-k, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[64, 64, 128], [33, 45, 70], [1, 40, 100]]
  bench: [512, 512, 65536]
check_params: {block_m: 32, block_n: 32, block_k: 32, split_k: 2}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Triton: triton.language.atomic_add"
    url: https://triton-lang.org/main/python-api/generated/triton.language.atomic_add.html
    licence: MIT
  - title: "Hoque et al.: Accelerating a Triton Fused Kernel ... with SplitK work decomposition"
    url: https://arxiv.org/abs/2402.00025
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 512x512x65536
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.2618
  measured_ms: 0.06422
  speedup: 4.077
  floor_fraction: 0.6641
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 512x512x65536
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.05053
  measured_ms: 0.06422
  speedup: 0.7868
  floor_fraction: 0.6641
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 512x512x65536
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.05014
  measured_ms: 0.06422
  speedup: 0.7808
  floor_fraction: 0.6641
---

C = A @ B for a small C and a long K. A 512 x 512 result has 16 tiles of 128 x 128: on a large GPU
most multiprocessors would have nothing to do. Here each tile's K range is divided among SPLIT_K
programs, so there are SPLIT_K times as many, each with a shorter loop.

The parts have to be added up. `reduction="workspace"` writes each part in float32 to a [SPLIT_K,
M, N] buffer, and a second kernel adds them in a fixed order: the result is the same bit for bit at
every run. `reduction="atomic"` adds into one float32 buffer with atomics: less memory, no second
pass over the parts, but the order and with it the last bits vary. Either way the extra traffic is
about 2 * SPLIT_K * M * N float32 values, so where C already fills the GPU it only costs.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "split_k": [1, 2, 4, 8, 16, 32],
    "reduction": ["workspace", "atomic"],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# Elements of C that one program of the second pass adds up: 8 for each of its 128 threads.
REDUCE_BLOCK = 1024


@triton.jit
def _partial_matmul_kernel(
    a_ptr, b_ptr, partial_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    # The programs of one tile follow each other: they run together and read one set of rows.
    split = tl.program_id(0) % SPLIT_K
    tile = tl.program_id(0) // SPLIT_K
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_ok = rows[:, None] < M
    col_ok = cols[None, :] < N

    # Whole K tiles for every split. The last one can be short, or empty: then it stores zeros.
    span = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    k_first = split * span
    k_end = tl.minimum(k_first + span, K)
    depth = tl.arange(0, BLOCK_K)

    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows[:, None].to(tl.int64)
    cols64 = cols[None, :].to(tl.int64)
    depth64 = (k_first + depth).to(tl.int64)
    a_ptrs = a_ptr + rows64 * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + depth64[:, None] * stride_bk + cols64 * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(k_first, k_end, BLOCK_K):
        in_k = depth < k_end - k
        a = tl.load(a_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
        # operands ignore the setting.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step

    offsets = rows64 * N + cols64
    if ATOMIC:
        # Nothing is ordered by this addition, so the cheapest memory order will do.
        tl.atomic_add(partial_ptr + offsets, acc, mask=row_ok & col_ok, sem="relaxed")
    else:
        part = split.to(tl.int64) * M * N
        tl.store(partial_ptr + part + offsets, acc, mask=row_ok & col_ok)


@triton.jit
def _add_partials_kernel(partial_ptr, c_ptr, total, SPLIT_K: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < total
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    part_ptrs = partial_ptr + offsets
    for _ in tl.static_range(SPLIT_K):
        acc += tl.load(part_ptrs, mask=mask, other=0.0)
        part_ptrs += total
    tl.store(c_ptr + offsets, acc.to(c_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    split_k: int = 8,
    reduction: str = "workspace",
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    if reduction not in TUNABLES["reduction"]:
        raise ValueError(f"reduction is 'workspace' or 'atomic', not '{reduction}'")
    (m, k), n = a.shape, b.shape[1]
    dtype = a.dtype
    atomic = reduction == "atomic"
    allocate = torch.zeros if atomic else torch.empty
    partial = allocate((1 if atomic else split_k, m, n), dtype=torch.float32, device=a.device)
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n) * split_k,)
    _partial_matmul_kernel[grid](
        a, b, partial,
        m, n, k,
        *a.stride(), *b.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        SPLIT_K=split_k, ATOMIC=atomic,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if atomic:
        return partial[0].to(dtype)
    c = torch.empty((m, n), dtype=dtype, device=a.device)
    _add_partials_kernel[(triton.cdiv(m * n, REDUCE_BLOCK),)](
        partial, c, m * n, SPLIT_K=split_k, BLOCK=REDUCE_BLOCK, num_warps=4
    )
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
