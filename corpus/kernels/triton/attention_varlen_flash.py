"""
---
slug: attention-varlen-flash
title: Causal attention of packed sequences of any lengths, longest tiles first, without padding
op: attention-varlen
language: triton
techniques: [flash-attention, load-balancing, structural-sparsity, tma-host-descriptor]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[3, 2, 1, 5, 60, 32], [2, 3, 3, 0, 45, 20], [1, 4, 2, 70, 70, 80]]
  bench: [64, 32, 8, 32, 2048, 128]
check_params: {block_m: 32, block_n: 32}
sources:
  - title: "Dao: FlashAttention-2, faster attention with better parallelism and work partitioning"
    url: https://arxiv.org/abs/2307.08691
    licence: proprietary
  - title: "Zhai et al.: ByteTransformer, a high-performance transformer for variable-length inputs"
    url: https://arxiv.org/abs/2210.03052
    licence: proprietary
  - title: "PyTorch: torch.nn.attention.varlen"
    url: https://docs.pytorch.org/docs/stable/nn.attention.varlen.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 64x32x8x32x2048x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 7.516
  measured_ms: 1.974
  speedup: 3.807
  floor_fraction: 0.474
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 64x32x8x32x2048x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 6.691
  measured_ms: 1.974
  speedup: 3.39
  floor_fraction: 0.474
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 64x32x8x32x2048x128
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 2.877
  measured_ms: 1.974
  speedup: 1.457
  floor_fraction: 0.474
---

Prompts of different lengths lie behind each other without padding; `cu_seqlens` says where each
begins. Padded to the longest they would cost several times the work, as the scores grow with the
square of the length; a launch for each sequence leaves the GPU partly idle at each end, and the
host must know the lengths.

The grid here has as many programs as there can be tiles of queries: one for each `block_m` tokens
and one more for each sequence. That depends on shapes alone, so the host does not wait and a CUDA
graph can replay the launch with other lengths. A small kernel first gives each program its tile.
Tile j of a sequence sees j + 1 blocks of keys; the tiles are ranked by j, the longest first, so
that no long tile starts last. Programs beyond the last tile return at once.

The walk over the keys is cut in two: blocks that every query of the tile sees run without a mask,
then those on the diagonal are masked. Later keys are never read. Keys and values come through TMA
as blocks of the packed tensors; on the diagonal a block may reach into the next sequence, whose
scores are masked and whose values are set to 0, since a NaN there times 0 would be NaN.

All tiles of a head run together, so that its keys and values are read from DRAM once. With few
tokens, under `block_m` times the number of multiprocessors over all heads, split the keys instead;
sequences of one length are a batch for the dense kernel.
"""

import itertools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634


@triton.jit
def _rank_tiles_kernel(
    bounds_ptr, tiles_ptr, sequences, BLOCK_M: tl.constexpr, BLOCK_B: tl.constexpr
):
    """Write begin and end of the sequence and the first query of one tile, at the tile's rank.

    The tiles are numbered sequence by sequence. Before tile j of sequence s come all tiles of a
    greater j, and those with the same j in sequences before s. The last programs have no tile; they
    write an empty sequence at their own number.
    """
    number = tl.program_id(0)
    lane = tl.arange(0, BLOCK_B)
    inside = lane < sequences
    begin = tl.load(bounds_ptr + lane, mask=inside, other=0).to(tl.int32)
    end = tl.load(bounds_ptr + lane + 1, mask=inside, other=0).to(tl.int32)
    tiles = tl.cdiv(end - begin, BLOCK_M)
    ends = tl.cumsum(tiles, axis=0)
    sequence = tl.sum((ends <= number).to(tl.int32), axis=0)
    tile = number - tl.max(tl.where(ends <= number, ends, 0), axis=0)
    longer = tl.sum(tl.maximum(tiles - tile - 1, 0), axis=0)
    equal = tl.sum(((tiles > tile) & (lane < sequence)).to(tl.int32), axis=0)
    there = number < tl.max(ends, axis=0)
    rank = tl.where(there, longer + equal, number)
    fits = rank < tl.num_programs(0)  # unless a sequence is longer than was said
    place = tiles_ptr + rank * 3
    mine = lane == sequence
    tl.store(place, tl.where(there, tl.sum(tl.where(mine, begin, 0), axis=0), 0), mask=fits)
    tl.store(place + 1, tl.where(there, tl.sum(tl.where(mine, end, 0), axis=0), 0), mask=fits)
    tl.store(place + 2, tl.where(there, tile * BLOCK_M, 0), mask=fits)


@triton.jit
def _walk(
    acc, total, largest, q, k_desc, v_desc, rows,
    begin, keys, key_head, first, end, scale_log2,
    DIAGONAL: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attend to the keys `first` to `end` of the sequence, which has `keys` keys from `begin`."""
    for start in tl.range(first, end, BLOCK_N):
        k = k_desc.load([begin + start, key_head, 0]).reshape(BLOCK_N, BLOCK_D)
        scores = tl.dot(q, k.trans(), input_precision="tf32x3")
        cols = start + tl.arange(0, BLOCK_N)
        if DIAGONAL:
            seen = cols[None, :] <= rows[:, None]
            scores = tl.where(seen, scores * scale_log2, float("-inf"))
            new_largest = tl.maximum(largest, tl.max(scores, axis=1))
            p = tl.math.exp2(scores - new_largest[:, None])
        else:
            # The scale is not negative: it can wait until the difference, one multiply-add.
            new_largest = tl.maximum(largest, tl.max(scores, axis=1) * scale_log2)
            p = tl.math.exp2(scores * scale_log2 - new_largest[:, None])
        alpha = tl.math.exp2(largest - new_largest)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = v_desc.load([begin + start, key_head, 0]).reshape(BLOCK_N, BLOCK_DV)
        if DIAGONAL:
            v = tl.where((cols < keys)[:, None], v, 0.0)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="tf32x3")
        largest = new_largest
    return acc, total, largest


@triton.jit
def _varlen_kernel(
    q_ptr, k_desc, v_desc, tiles_ptr, out_ptr,
    HEADS, SHARING, slots, scale_log2,
    stride_qt, stride_qh, stride_qd,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # The tiles of a head follow each other: they read the same keys.
    tile = tiles_ptr + tl.program_id(0) % slots * 3
    head = tl.program_id(0) // slots
    begin = tl.load(tile)
    keys = tl.load(tile + 1) - begin
    if keys == 0:
        return
    row0 = tl.load(tile + 2)
    rows = row0 + tl.arange(0, BLOCK_M)
    row_ok = rows < keys
    dims = tl.arange(0, BLOCK_D)
    token = (begin + rows).to(tl.int64)
    q = tl.load(
        q_ptr + token[:, None] * stride_qt + head.to(tl.int64) * stride_qh
        + dims[None, :] * stride_qd,
        mask=row_ok[:, None] & (dims < D)[None, :], other=0.0,
    )  # fmt: skip
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_DV), dtype=tl.float32)
    # Whole blocks of keys that all rows see; then those up to the last row.
    whole = row0 // BLOCK_N * BLOCK_N
    acc, total, largest = _walk(
        acc, total, largest, q, k_desc, v_desc, rows,
        begin, keys, head // SHARING, 0, whole, scale_log2,
        False, BLOCK_D, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    acc, total, largest = _walk(
        acc, total, largest, q, k_desc, v_desc, rows,
        begin, keys, head // SHARING, whole, tl.minimum(keys, row0 + BLOCK_M), scale_log2,
        True, BLOCK_D, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    dims_v = tl.arange(0, BLOCK_DV)
    out_at = (token * HEADS + head)[:, None] * DV + dims_v[None, :]
    tl.store(
        out_ptr + out_at, (acc / total[:, None]).to(out_ptr.dtype.element_ty),
        mask=row_ok[:, None] & (dims_v < DV)[None, :],
    )  # fmt: skip


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` [T, G, D] itself where TMA can address it, else a copy with padded rows."""
    unit = 16 // x.element_size()
    addressable = (
        x.stride(2) == 1
        and x.data_ptr() % 16 == 0
        and all(x.stride(dim) % unit == 0 and x.stride(dim) > 0 for dim in range(2))
    )
    if addressable:
        return x
    padded = triton.cdiv(x.shape[2], unit) * unit
    copy = torch.empty((*x.shape[:2], padded), dtype=x.dtype, device=x.device)
    return copy[..., : x.shape[2]].copy_(x)


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor) -> None:
    """Raise a ValueError for inputs that do not belong together."""
    if not q.ndim == k.ndim == v.ndim == 3:
        raise ValueError("give q as [T, H, D] and k and v as [T, G, D], packed without padding")
    (t, h, d), g = q.shape, k.shape[1]
    if k.shape != (t, g, d) or v.shape[:2] != (t, g) or g == 0 or h % g:
        raise ValueError(
            f"q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not fit: all have the"
            " same tokens, and the key heads must divide the query heads"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q is {q.dtype}, k {k.dtype} and v {v.dtype}: give them in one dtype")
    if max(d, v.shape[2]) > 256:
        raise ValueError(f"head sizes {d} and {v.shape[2]}: at most 256")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) == 0 or cu_seqlens.is_floating_point():
        raise ValueError(
            f"cu_seqlens {cu_seqlens.dtype} {list(cu_seqlens.shape)} must be int32 [sequences + 1]"
        )


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor,
    longest: int | None = None,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Causal attention within each of B packed sequences: `q` [T, H, D], `k` [T, G, D] and `v`
    [T, G, E] of one dtype -> [T, H, E].

    Sequence s has the tokens `cu_seqlens[s]` to `cu_seqlens[s + 1]` - 1; `cu_seqlens` int32 [B + 1]
    rises from 0 to at most T. Token i of a sequence sees its tokens 0 to i. The result of tokens
    after the last sequence, such as padding of a CUDA graph, is undefined. No sequence has more
    than `longest` tokens; where the host knows such a bound, fewer programs start for nothing. G
    divides H: neighbouring query heads share a key head. `scale` is 1 / sqrt(D) if None. Any
    strides, but k and v that TMA cannot address are copied; D and E are at most 256. The result is
    contiguous.
    """
    _check(q, k, v, cu_seqlens)
    t, h, d = q.shape
    _, g, e = v.shape
    sequences = len(cu_seqlens) - 1
    out = torch.empty((t, h, e), dtype=q.dtype, device=q.device)
    if out.numel() == 0 or sequences == 0:
        return out
    block_d, block_dv = (max(16, triton.next_power_of_2(size)) for size in (d, e))
    if q.dtype == torch.float32 or max(block_d, block_dv) > 128:
        # Such tiles are twice as large.
        block_m, block_n = min(block_m, 64), min(block_n, 32)
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    scale = d**-0.5 if scale is None else scale
    if scale < 0:
        q, scale = -q, -scale
    # No more tiles than these, whatever the lengths.
    slots = t // block_m + min(sequences, t)
    if longest is not None:
        slots = min(slots, sequences * triton.cdiv(max(longest, 1), block_m))
    tiles = torch.empty((slots, 3), dtype=torch.int32, device=q.device)
    _rank_tiles_kernel[(slots,)](
        cu_seqlens.contiguous(), tiles, sequences,
        BLOCK_M=block_m, BLOCK_B=triton.next_power_of_2(sequences), num_warps=4,
    )  # fmt: skip
    _varlen_kernel[(slots * h,)](
        q,
        TensorDescriptor.from_tensor(_for_tma(k), [block_n, 1, block_d]),
        TensorDescriptor.from_tensor(_for_tma(v), [block_n, 1, block_dv]),
        tiles, out,
        h, h // g, slots, scale * LOG2_E,
        *q.stride(),
        D=d, DV=e, BLOCK_D=block_d, BLOCK_DV=block_dv,
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor,
    longest: int | None = None,
) -> torch.Tensor:
    attend = torch.nn.functional.scaled_dot_product_attention
    out = q.new_empty((*q.shape[:2], v.shape[2]))
    for begin, end in itertools.pairwise(cu_seqlens.tolist()):
        one = (x[begin:end].transpose(0, 1)[None] for x in (q, k, v))
        out[begin:end] = attend(*one, is_causal=True, enable_gqa=True)[0].transpose(0, 1)
    return out


def library(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor, longest: int
) -> torch.Tensor:
    # Public as torch.nn.attention.varlen.varlen_attn, whose options differ between versions.
    return torch.ops.aten._flash_attention_forward(
        q, k, v, cu_seqlens, cu_seqlens, longest, longest, 0.0, True, False
    )[0]


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int]:
    """`size` is [sequences, query heads, key heads, shortest, longest sequence, head size].

    The lengths are spread evenly and shuffled, so that all seeds have as many tokens.
    """
    sequences, h, g, shortest, longest, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    order = torch.randperm(sequences, device=device, generator=generator)
    lengths = torch.linspace(shortest, longest, sequences, device=device).round()[order]
    cu_seqlens = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
    cu_seqlens[1:] = lengths.cumsum(0).to(torch.int32)
    tokens = int(cu_seqlens[-1])
    q, k, v = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((tokens, h, d), (tokens, g, d), (tokens, g, d))
    )
    return [q, k, v, cu_seqlens, longest]
