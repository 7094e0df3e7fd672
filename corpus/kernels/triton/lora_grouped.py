"""
---
slug: lora-grouped
title: LoRA for a mixed batch, tokens grouped by adapter, expansion fused with the addition
op: lora
language: triton
techniques: [grouped-gemm, split-k, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: lora-plain
sizes:
  check: [[24, 64, 48, 8, 3], [5, 33, 20, 4, 2], [10, 100, 70, 20, 6], [3, 16, 40, 1, 1]]
  bench: [8192, 4096, 4096, 32, 64]
check_params: {block_m: 16, block_n: 32, block_k: 32, programs: 16}
sources:
  - title: "Chen et al.: Punica, multi-tenant LoRA serving"
    url: https://arxiv.org/abs/2310.18547
    licence: proprietary
  - title: "Sheng et al.: S-LoRA, serving thousands of concurrent LoRA adapters"
    url: https://arxiv.org/abs/2311.03285
    licence: proprietary
  - title: "Hu et al.: LoRA, low-rank adaptation of large language models"
    url: https://arxiv.org/abs/2106.09685
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x4096x4096x32x64
  dtype: bfloat16
  baseline: lora-plain
  baseline_ms: 0.4775
  measured_ms: 0.08368
  speedup: 5.706
  floor_fraction: 0.6564
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x4096x4096x32x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 10.23
  measured_ms: 0.08368
  speedup: 122.3
  floor_fraction: 0.6564
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x4096x4096x32x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 10.17
  measured_ms: 0.08368
  speedup: 121.5
  floor_fraction: 0.6564
---

y = base + scale * (x @ A^T) @ B^T, where each token names the adapter whose A and B it uses, or
none. The rank is small: the work is to read x, base and the adapters once and to write y once. A
token at a time reads its adapter again for each token, and a loop over adapters on the host waits
for the GPU and launches several small products each.

Serving systems call the grouped products SGMV, and BGMV where each token has an adapter of its own.
Three launches here, and the host learns nothing of the adapters. The first groups the tokens: one
program for each adapter counts the tokens of lower ones, lists its own in order, and writes its
tiles of `block_m` tokens into a table. A group that begins at place s has its tiles from number
s / block_m + group on: that leaves room for the groups before it, at most one number unused each,
so that no program has to know how many tiles the others need.

The second multiplies a tile by its A on the tensor cores (shrink). Rank 32 gives few tiles: K is
split over programs until about `programs` of them run. The third (expand) adds up the parts in a
fixed order, multiplies by B and adds `base` before its only store. Tokens without an adapter are
copied, or left alone if `out` is `base`.

With one adapter for all tokens, or ranks of several hundred, two ordinary products are as fast.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [16, 32, 64, 128],
    "block_n": [64, 128, 256],
    "block_k": [64, 128, 256],
    "programs": [264, 528, 1056],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# What tl.dot takes at least; parts of K that one program adds up; bytes of the tile of an adapter.
MIN_DOT, MAX_PARTS, TILE_BYTES = 16, 16, 32768
# Columns of the table of tiles: group, first place, end of the group.
COLUMNS = 4


@triton.jit
def _group_kernel(
    adapter_ptr, order_ptr, tiles_ptr, T, L,
    BLOCK_M: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """List the tokens of one adapter in order, and its tiles; group L is the tokens without one."""
    group = tl.program_id(0)
    lower = tl.zeros((BLOCK_T,), dtype=tl.int32)
    own = tl.zeros((BLOCK_T,), dtype=tl.int32)
    for start in tl.range(0, T, BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        adapter = tl.load(adapter_ptr + token, mask=token < T, other=-1)
        adapter = tl.where((adapter >= 0) & (adapter < L), adapter, L)
        lower += ((adapter < group) & (token < T)).to(tl.int32)
        own += ((adapter == group) & (token < T)).to(tl.int32)
    first = tl.sum(lower, axis=0)
    end = first + tl.sum(own, axis=0)
    if end > first:
        place = first
        for start in tl.range(0, T, BLOCK_T):
            token = start + tl.arange(0, BLOCK_T)
            adapter = tl.load(adapter_ptr + token, mask=token < T, other=-1)
            adapter = tl.where((adapter >= 0) & (adapter < L), adapter, L)
            mine = ((adapter == group) & (token < T)).to(tl.int32)
            at = place + tl.cumsum(mine, axis=0) - 1
            tl.store(order_ptr + at, token, mask=mine == 1)
            place += tl.sum(mine, axis=0)
    tile = first // BLOCK_M + group
    tiles_end = end // BLOCK_M + group + 1
    for start in tl.range(tile, tiles_end, 256):
        number = start + tl.arange(0, 256)
        row = first + (number - tile) * BLOCK_M
        entry = tiles_ptr + number * 4
        mask = number < tiles_end
        tl.store(entry, tl.where(row < end, group, -1), mask=mask)
        tl.store(entry + 1, row, mask=mask)
        tl.store(entry + 2, tl.zeros_like(row) + end, mask=mask)


@triton.jit
def _shrink_kernel(
    x_ptr, a_ptr, order_ptr, tiles_ptr, s_ptr,
    T, L, R, K, parts, span,
    stride_xt, stride_xk, stride_al, stride_ar, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, WHOLE_K: tl.constexpr,
):  # fmt: skip
    """s[part] = x @ A^T over one part of K, float32, rows in the grouped order."""
    part = tl.program_id(0) % parts
    entry = tiles_ptr + tl.program_id(0) // parts * 4
    group = tl.load(entry)
    if (group >= 0) & (group < L):
        row = tl.load(entry + 1) + tl.arange(0, BLOCK_M)
        row_ok = row < tl.load(entry + 2)
        # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
        token = tl.load(order_ptr + row, mask=row_ok, other=0).to(tl.int64)
        r = tl.arange(0, BLOCK_R)
        x_rows = x_ptr + token[:, None] * stride_xt
        a_rows = a_ptr + group.to(tl.int64) * stride_al + r[None, :].to(tl.int64) * stride_ar
        first = part * span
        end = tl.minimum(first + span, K)
        acc = tl.zeros((BLOCK_M, BLOCK_R), dtype=tl.float32)
        for start in tl.range(first, end, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            k64 = k.to(tl.int64)
            x_at = x_rows + k64[None, :] * stride_xk
            a_at = a_rows + k64[:, None] * stride_ak
            # A mask over K where steps are not whole alone: it would narrow the loads along K.
            if WHOLE_K:
                x = tl.load(x_at, mask=row_ok[:, None], other=0.0)
                a = tl.load(a_at, mask=(r < R)[None, :], other=0.0)
            else:
                x = tl.load(x_at, mask=row_ok[:, None] & (k < end)[None, :], other=0.0)
                a = tl.load(a_at, mask=(r < R)[None, :] & (k < end)[:, None], other=0.0)
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
            acc = tl.dot(x, a, acc, input_precision="tf32x3")
        s_rows = s_ptr + (part.to(tl.int64) * T + row)[:, None] * R
        tl.store(s_rows + r[None, :], acc, mask=row_ok[:, None] & (r < R)[None, :])


@triton.jit
def _expand_add_kernel(
    s_ptr, b_ptr, base_ptr, out_ptr, order_ptr, tiles_ptr,
    T, L, R, N, parts, chunks, span, scale,
    stride_bl, stride_bn, stride_br, stride_yt, stride_yn, stride_ot, stride_on,
    IN_PLACE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """out = base + scale * s @ B^T for one tile and `span` columns."""
    chunk = tl.program_id(0) % chunks
    entry = tiles_ptr + tl.program_id(0) // chunks * 4
    group = tl.load(entry)
    # Where the result is written over `base`, tokens without an adapter are done.
    groups = L if IN_PLACE else L + 1
    if (group >= 0) & (group < groups):
        row = tl.load(entry + 1) + tl.arange(0, BLOCK_M)
        row_ok = row < tl.load(entry + 2)
        token = tl.load(order_ptr + row, mask=row_ok, other=0).to(tl.int64)
        r = tl.arange(0, BLOCK_R)
        rank = tl.where(group < L, R, 0)
        s_ok = row_ok[:, None] & (r < rank)[None, :]
        s_at = s_ptr + row.to(tl.int64)[:, None] * R + r[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_R), dtype=tl.float32)
        for part in tl.range(0, parts):
            at = tl.cast(part, tl.int64) * T * R
            total += tl.load(s_at + at, mask=s_ok, other=0.0)
        s = total.to(b_ptr.dtype.element_ty)
        b_rows = b_ptr + group.to(tl.int64) * stride_bl + r[:, None].to(tl.int64) * stride_br
        r_ok = (r < rank)[:, None]
        first = chunk * span
        end = tl.minimum(first + span, N)
        for start in tl.range(first, end, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            n64 = n.to(tl.int64)[None, :]
            in_n = (n < N)[None, :]
            mask = row_ok[:, None] & in_n
            y_at = base_ptr + token[:, None] * stride_yt + n64 * stride_yn
            base = tl.load(y_at, mask=mask, other=0.0)
            b = tl.load(b_rows + n64 * stride_bn, mask=r_ok & in_n, other=0.0)
            delta = tl.dot(s, b, input_precision="tf32x3")
            y = base.to(tl.float32) + delta * scale
            out_at = out_ptr + token[:, None] * stride_ot + n64 * stride_on
            tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=mask)


def _check(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, adapter: torch.Tensor, base: torch.Tensor
) -> None:
    fits = x.ndim == base.ndim == 2 and a.ndim == b.ndim == 3 and a.shape[2] == x.shape[1]
    fits = fits and b.shape == (a.shape[0], base.shape[1], a.shape[1])
    if not fits or base.shape[0] != x.shape[0]:
        shapes = f"x {list(x.shape)}, a {list(a.shape)}, b {list(b.shape)}, base {list(base.shape)}"
        raise ValueError(f"{shapes} do not fit: want [T, K], [L, R, K], [L, N, R], [T, N]")
    if not x.dtype == a.dtype == b.dtype:
        raise ValueError(f"x, a and b must have one dtype, not {x.dtype}, {a.dtype}, {b.dtype}")
    if not 0 < a.shape[1] <= 256:
        raise ValueError(f"the rank must be 1 to 256, not {a.shape[1]}: split a larger one")
    if adapter.shape != x.shape[:1] or adapter.is_floating_point():
        raise ValueError(
            f"adapter must be {x.shape[0]} integers, not {adapter.dtype} {list(adapter.shape)}"
        )


def kernel_function(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    adapter: torch.Tensor,
    base: torch.Tensor,
    scale: float = 1.0,
    out: torch.Tensor | None = None,
    block_m: int = 64,
    block_n: int = 128,
    block_k: int = 128,
    programs: int = 528,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `base` [T, N] + `scale` * (`x` [T, K] @ `a`[i].T) @ `b`[i].T, where i = `adapter`[t].

    `a` [L, R, K] and `b` [L, N, R], R at most 256, of `x`'s dtype; smaller ranks are padded with
    zeros. `adapter` int32 [T], where whatever is not 0 to L - 1, such as -1, means no adapter. Any
    strides. The result goes to `out` [T, N], which may be `base` itself; a new tensor of `base`'s
    dtype if None. Deterministic. `block_m` is cut to the mean number of tokens an adapter.
    """
    _check(x, a, b, adapter, base)
    (t, k), (adapters, r, _), n = x.shape, a.shape, b.shape[1]
    in_place = out is base
    if out is None:
        out = torch.empty((t, n), dtype=base.dtype, device=x.device)
    elif out.shape != (t, n):
        raise ValueError(f"out must be {[t, n]}, not {list(out.shape)}")
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, a, b = x.float(), a.float(), b.float()
    block_m = min(block_m, max(MIN_DOT, triton.next_power_of_2(triton.cdiv(t, max(1, adapters)))))
    block_r = max(MIN_DOT, triton.next_power_of_2(r))
    # Tiles of x and A, and of B, that leave room for several stages in shared memory.
    block_k = min(block_k, TILE_BYTES // (max(block_r, block_m) * x.element_size()))
    block_n = min(block_n, TILE_BYTES // (block_r * x.element_size()))
    order = torch.empty(t, dtype=torch.int32, device=x.device)
    slots = t // block_m + adapters + 1
    tiles = torch.empty((slots, COLUMNS), dtype=torch.int32, device=x.device)
    _group_kernel[(adapters + 1,)](
        adapter.contiguous(), order, tiles, t, adapters,
        BLOCK_M=block_m, BLOCK_T=min(4096, triton.next_power_of_2(t)), num_warps=8,
    )  # fmt: skip
    # As many tiles as there can be; parts of K of two steps at least.
    most = min(t, slots)
    parts = max(1, min(programs // most, k // (2 * block_k), MAX_PARTS))
    span = max(1, triton.cdiv(triton.cdiv(k, parts), block_k)) * block_k
    parts = max(1, triton.cdiv(k, span))
    s = torch.empty((parts, t, r), dtype=torch.float32, device=x.device)
    _shrink_kernel[(slots * parts,)](
        x, a, order, tiles, s, t, adapters, r, k, parts, span, *x.stride(), *a.stride(),
        BLOCK_M=block_m, BLOCK_R=block_r, BLOCK_K=block_k, WHOLE_K=k % block_k == 0,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    # Programs of the expansion hold little: four times as many keep more loads in flight.
    blocks = triton.cdiv(n, block_n)
    span = triton.cdiv(blocks, max(1, min(blocks, 4 * programs // most))) * block_n
    chunks = triton.cdiv(n, span)
    _expand_add_kernel[(slots * chunks,)](
        s, b, base, out, order, tiles, t, adapters, r, n, parts, chunks, span, scale,
        *b.stride(), *base.stride(), *out.stride(),
        IN_PLACE=in_place, BLOCK_M=block_m, BLOCK_R=block_r, BLOCK_N=block_n,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    adapter: torch.Tensor,
    base: torch.Tensor,
    scale: float = 1.0,
) -> torch.Tensor:
    out = base.clone()
    for index in range(a.shape[0]):
        rows = (adapter == index).nonzero().squeeze(1)
        out[rows] += (x[rows] @ a[index].T) @ b[index].T * scale
    return out


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [tokens, K, N, rank, adapters]; adapters are used unevenly, some tokens have
    none."""
    t, k, n, r, adapters = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, a, b, base = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((t, k), (adapters, r, k), (adapters, n, r), (t, n))
    )
    drawn = torch.rand(t, device=device, generator=generator).square() * (adapters + 1)
    adapter = drawn.to(torch.int32).clamp(max=adapters) - 1
    return [x, a / k**0.5, b, adapter, base, 0.5]
