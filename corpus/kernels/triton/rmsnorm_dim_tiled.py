"""
---
slug: rmsnorm-dim-tiled
title: RMSNorm over any dimension with the tile held in registers, no transposition
op: rmsnorm
language: triton
techniques: [register-caching, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: rmsnorm-dim-plain
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 1, 7]]
  bench: [16, 64, 262144]
check_params: {tile: 2048, num_warps: 4}
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "PyTorch: torch.nn.RMSNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    licence: BSD-3-Clause
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x64x262144
  dtype: bfloat16
  baseline: rmsnorm-dim-plain
  baseline_ms: 0.2956
  measured_ms: 0.2651
  speedup: 1.115
  floor_fraction: 0.9483
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x64x262144
  dtype: bfloat16
  baseline: eager
  baseline_ms: 3.709
  measured_ms: 0.2651
  speedup: 13.99
  floor_fraction: 0.9483
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x64x262144
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.4956
  measured_ms: 0.2651
  speedup: 1.869
  floor_fraction: 0.9483
---

y = x / sqrt(mean(x^2) + eps) over one dimension, wherever it lies, with one reading and one
writing of the tensor and no transposition. The tensor is seen as [batch, N, positions]; a program
holds all N times a block of contiguous positions in registers. Every load is along the positions,
16 bytes a thread, and the reduction goes across threads: a few values in each thread, then
shuffles, then one exchange between warps. Over the last dimension the same code runs with rows in
the place of positions.

`tile` is the number of elements a program holds, of rows twice as many. It decides how wide a block
of positions is: too narrow, and each of the N segments is less than the 64 bytes that memory
delivers at a time (or a DRAM page is opened for little); too large, and few programs fit on a
multiprocessor, so that none loads while others reduce or store. Few warps with many values each do
better than many with few: all of them wait for the reduction, and what two warps exchange is
little. On an H200, over 64 channels in bfloat16, 8192 elements (256 bytes of each channel) on 8
warps took 1.28 times as long as on 4; on 2 warps, 128 values a thread, they are faster still. A
dimension longer than the registers of a program hold is refused; the two-pass form takes it.

`before` and `after` are elementwise functions fused in: other models' operators before and after
the norm cost no pass of their own.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [2048, 4096, 8192, 16384, 32768], "num_warps": [1, 2, 4, 8, 16]}

# Added to the mean square, as in most language models.
EPS = 1e-6

# Elements that one thread keeps in float32: half of the registers that it can have.
MAX_PER_THREAD = 128
# The largest tile, 64 each for 512 threads.
MAX_TILE = 32768
# Along positions: in 16-bit dtypes the 64 bytes that memory delivers at a time, or for dimensions
# too long for that the 32 of a sector.
POSITIONS = (32, 16)


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _rmsnorm_kernel(
    x_ptr, weight_ptr, out_ptr, before_operands, after_operands,
    N, P, eps,
    stride_xb, stride_xn, stride_xp, stride_w, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, AFTER: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    p = ((tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    n = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
    mask = (n < N) & (p < P)
    if ROWS:
        lead, lane = p * stride_op, n * stride_on
    else:
        lead, lane = batch * stride_ob + n * stride_on, p * stride_op
    x = tl.load(x_ptr + batch * stride_xb + n * stride_xn + p * stride_xp, mask=mask, other=0.0)
    x = BEFORE(x.to(tl.float32), lead, lane, mask, before_operands)
    x = tl.where(mask, x, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0, keep_dims=True) / N + eps)
    # Read last: before the reduction it would hold registers that x needs, and it is in L2.
    if HAS_WEIGHT:
        y *= tl.load(weight_ptr + n * stride_w, mask=n < N, other=0.0).to(tl.float32)
    y = AFTER(y, lead, lane, mask, after_operands)
    tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


def _split(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """`x` seen as [batch, N, positions], and the dimension counted from the front."""
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"there is no dimension {dim} in a tensor of {x.dim()} dimensions")
    dim %= x.dim()
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    try:
        view = x.view(shape)
    except RuntimeError:  # strides that three numbers cannot tell
        view = x.contiguous().view(shape)
    # Over the last dimension the rows are the positions, and the batch is 1. `unsqueeze` gives that
    # batch a row's stride, often a multiple of 16; Triton takes a stride of 1 for unaligned loads.
    return (view if dim < x.dim() - 1 else view.squeeze(2).t().unsqueeze(0)), dim


def _blocks(length: int, positions: int, rows: bool, tile: int) -> tuple[int, int]:
    """The block along the dimension, and that along positions (or rows)."""
    block_n = triton.next_power_of_2(length)
    least = next((each for each in POSITIONS if block_n * each <= MAX_TILE), POSITIONS[-1])
    least = min(1 if rows else least, triton.next_power_of_2(positions))
    if block_n * least > MAX_TILE:
        raise ValueError(
            f"a dimension of {length} does not fit in registers (at most {MAX_TILE // least} "
            "here): use rmsnorm-dim-plain"
        )
    block_p = max(least, min(tile // block_n, triton.next_power_of_2(positions)))
    return block_n, block_p


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    dim: int = -1,
    eps: float = EPS,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    num_warps: int = 2,
) -> torch.Tensor:
    """Return RMSNorm of `x` over its dimension `dim`, contiguous, in `out_dtype` (`x`'s if None).

    `weight` [N], where given, scales along that dimension. `before` and `after` are Triton
    functions `(values, lead, lane, mask, operands)` applied to each element on the way in and
    out. `num_warps` is raised where a tile needs more registers.
    """
    view, dim = _split(x, dim)
    if weight is not None and weight.shape != (x.shape[dim],):
        raise ValueError(f"weight {list(weight.shape)} does not fit a dimension of {x.shape[dim]}")
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    # Rows are exchanged between all warps: two at a time wait once.
    block_n, block_p = _blocks(length, positions, rows, 2 * tile if rows else tile)
    _rmsnorm_kernel[(batch * triton.cdiv(positions, block_p),)](
        view, weight, out, before_operands, after_operands,
        length, positions, eps,
        *view.stride(), 0 if weight is None else weight.stride(0), *_split(out, dim)[0].stride(),
        BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None, ROWS=rows,
        BLOCK_N=block_n, BLOCK_P=block_p,
        num_warps=max(num_warps, min(32, block_n * block_p // (32 * MAX_PER_THREAD))),
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor, weight: torch.Tensor | None = None, dim: int = -1, eps: float = EPS
) -> torch.Tensor:
    moved = x.movedim(dim, -1)
    return torch.nn.functional.rms_norm(moved, moved.shape[-1:], weight, eps).movedim(-1, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(size[1], dtype=dtype, device=device, generator=generator) + 0.5
    return [x, weight, 1]
