"""
---
slug: rope-heads
title: Rotary position embedding in blocks of positions, angles read once for several heads
op: rope
language: triton
techniques: [thread-coarsening, register-caching, vectorized-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: rope-plain
sizes:
  check: [[2, 2, 40, 32], [1, 3, 5, 24], [1, 1, 7, 2], [3, 1, 9, 6]]
  bench: [8, 32, 4096, 128]
check_params: {tile: 256, heads: 2}
sources:
  - title: "Su et al.: RoFormer, enhanced transformer with rotary position embedding"
    url: https://arxiv.org/abs/2104.09864
    licence: proprietary
  - title: "Triton: triton.language.load"
    url: https://triton-lang.org/main/python-api/generated/triton.language.load.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8x32x4096x128
  dtype: bfloat16
  baseline: rope-plain
  baseline_ms: 0.6354
  measured_ms: 0.1316
  speedup: 4.828
  floor_fraction: 0.9572
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8x32x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.052
  measured_ms: 0.1316
  speedup: 7.994
  floor_fraction: 0.9572
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8x32x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1546
  measured_ms: 0.1316
  speedup: 1.175
  floor_fraction: 0.9572
---

Feature i of a row is rotated together with feature D / 2 + i by the angle of its position (with
`interleaved`, feature 2 i with 2 i + 1). A program takes a block of positions and walks over
`heads` heads: cosine and sine are loaded once and stay in registers, and each step has several
16-byte loads a thread in flight, where a single row would end before the next one begins.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096],
    "heads": [1, 2, 4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr,
    BATCH, HEADS, N,
    stride_xb, stride_xh, stride_xn, stride_xd,
    stride_cb, stride_ch, stride_cn, stride_cd, stride_sb, stride_sh, stride_sn, stride_sd,
    HALF: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, WALK: tl.constexpr,
    SHARED: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(N, BLOCK_N)
    n = (tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N))[:, None]
    pid = tl.program_id(0) // blocks
    walks = tl.cdiv(HEADS, WALK)
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (pid // walks).to(tl.int64)
    first_head = pid % walks * WALK
    n64 = n.to(tl.int64)
    # Times strides, which may be those of a transposed tensor.
    dims = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]
    both = tl.arange(0, 2 * BLOCK_D).to(tl.int64)[None, :]
    mask = (n < N) & (dims < HALF)
    cos_at = cos_ptr + batch * stride_cb + n64 * stride_cn + dims * stride_cd
    sin_at = sin_ptr + batch * stride_sb + n64 * stride_sn + dims * stride_sd
    if SHARED:
        cos = tl.load(cos_at, mask=mask, other=0.0).to(tl.float32)
        sin = tl.load(sin_at, mask=mask, other=0.0).to(tl.float32)
    dtype = out_ptr.dtype.element_ty
    for step in tl.static_range(WALK):
        head = (first_head + step).to(tl.int64)
        rows_ok = n < tl.where(head < HEADS, N, 0)
        here = rows_ok & (dims < HALF)
        if not SHARED:
            cos = tl.load(cos_at + head * stride_ch, mask=here, other=0.0).to(tl.float32)
            sin = tl.load(sin_at + head * stride_sh, mask=here, other=0.0).to(tl.float32)
        x_rows = x_ptr + batch * stride_xb + head * stride_xh + n64 * stride_xn
        out_rows = out_ptr + ((batch * HEADS + head) * N + n64) * (2 * HALF)
        if INTERLEAVED:
            pair_ok = rows_ok & (both < 2 * HALF)
            x = tl.load(x_rows + both * stride_xd, mask=pair_ok, other=0.0).to(tl.float32)
            first, second = tl.split(tl.reshape(x, (BLOCK_N, BLOCK_D, 2)))
            y = tl.join(first * cos - second * sin, second * cos + first * sin)
            tl.store(out_rows + both, tl.reshape(y, (BLOCK_N, 2 * BLOCK_D)).to(dtype), mask=pair_ok)
        else:
            first = tl.load(x_rows + dims * stride_xd, mask=here, other=0.0).to(tl.float32)
            at = (dims + HALF) * stride_xd
            second = tl.load(x_rows + at, mask=here, other=0.0).to(tl.float32)
            tl.store(out_rows + dims, (first * cos - second * sin).to(dtype), mask=here)
            tl.store(out_rows + HALF + dims, (second * cos + first * sin).to(dtype), mask=here)


def _four(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """`x` broadcast to `shape` [..., N, last] and seen as [B, heads, N, last]."""
    x = x.expand(shape)
    if x.ndim < 4:
        return x[(None,) * (4 - x.ndim)]
    return x.flatten(0, -4) if x.ndim > 4 else x


def kernel_function(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    tile: int = 2048,
    heads: int = 2,
    num_warps: int = 4,
) -> torch.Tensor:
    """Rotate `x` [..., N, D], feature i with D / 2 + i, or 2 i with 2 i + 1 if `interleaved`.

    `cos` and `sin` [N, D / 2], or broadcast to [..., N, D / 2], are those of the angles. Any
    strides; the result is contiguous. A program
    takes pairs of about `tile` features of `heads` heads each.
    """
    n, d = x.shape[-2:]
    shape = torch.Size((*x.shape[:-1], d // 2))
    fits = d % 2 == 0 and cos.ndim <= x.ndim and sin.shape == cos.shape
    if not fits or torch.broadcast_shapes(cos.shape, shape) != shape:
        raise ValueError(f"x {list(x.shape)} and cos {list(cos.shape)} do not fit")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    x4 = _four(x, x.shape)
    cos, sin = _four(cos, shape), _four(sin, shape)
    half, block_d = d // 2, triton.next_power_of_2(d // 2)
    block_n = max(1, min(tile // (2 * block_d), triton.next_power_of_2(n)))
    heads = min(heads, triton.next_power_of_2(x4.shape[1]))
    grid = (triton.cdiv(n, block_n) * triton.cdiv(x4.shape[1], heads) * x4.shape[0],)
    _rope_kernel[grid](
        x4, cos, sin, out,
        *x4.shape[:3], *x4.stride(), *cos.stride(), *sin.stride(),
        HALF=half, BLOCK_D=block_d, BLOCK_N=block_n, WALK=heads,
        SHARED=(cos.stride(1) == 0 and sin.stride(1) == 0) or x4.shape[1] == 1,
        INTERLEAVED=interleaved, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False
) -> torch.Tensor:
    if interleaved:
        first, second = x[..., ::2], x[..., 1::2]
        pairs = (first * cos - second * sin, second * cos + first * sin)
        return torch.stack(pairs, dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, heads, N, D]."""
    b, h, n, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((b, h, n, d), dtype=dtype, device=device, generator=generator)
    angles = torch.rand((n, d // 2), device=device, generator=generator) * 6.2831853
    return [x, angles.cos().to(dtype), angles.sin().to(dtype)]
