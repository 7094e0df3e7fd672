"""
---
slug: kv-cache-append
title: Append of keys and values to a paged KV cache, keys rotated, FP8 codes if asked for
op: kv-cache
language: triton
techniques: [kernel-fusion, vectorized-access, low-precision-storage]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[24, 2, 32, 16, 3, 0], [7, 3, 20, 4, 5, 0], [5, 1, 64, 16, 1, 1], [9, 2, 24, 5, 4, 1]]
  bench: [65536, 8, 128, 16, 4096, 0]
check_params: {tile: 256}
sources:
  - title: "Kwon et al.: Efficient memory management for LLM serving with PagedAttention"
    url: https://arxiv.org/abs/2309.06180
    licence: proprietary
  - title: "Su et al.: RoFormer, enhanced transformer with rotary position embedding"
    url: https://arxiv.org/abs/2104.09864
    licence: proprietary
  - title: "Micikevicius et al.: FP8 Formats for Deep Learning"
    url: https://arxiv.org/abs/2209.05433
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 65536x8x128x16x4096x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.649
  measured_ms: 0.2204
  speedup: 7.482
  floor_fraction: 0.5718
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 65536x8x128x16x4096x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.659
  measured_ms: 0.2204
  speedup: 7.527
  floor_fraction: 0.5718
---

The keys and values of new tokens go to their slots of a paged cache; keys get their rotary position
embedding on the way, and both are divided by a scale and rounded to E4M3 if the cache is FP8. All
of it is memory traffic: one read of key and value and one write of the slots. Operator by operator
the rotation alone reads and writes the keys several times, and the scatter once more.

A program takes a block of (token, head) rows. The two halves of a key, its angles and the value are
loaded 16 bytes a thread, all before the first store; a row is D neighbouring elements of the cache
whatever its page, so that the stores are as wide. The page size is a constant of the compiled
kernel: the division by it is a shift for a power of two.

`append` writes to the caches it gets. `kernel_function` makes new ones, filled with zeros, whose
time is in its measurements. A decode step of some hundred tokens is launch overhead: there the
gain is that of one launch against a dozen.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [1024, 2048, 4096], "num_warps": [2, 4, 8]}

# The largest E4M3 number.
LARGEST = 448.0


@triton.jit
def _stored(value, inverse_scale, dtype: tl.constexpr, FP8: tl.constexpr, HARDWARE: tl.constexpr):
    """float32 `value` as the cache holds it; E4M3 codes are rounded to nearest even."""
    if FP8:
        value = tl.minimum(tl.maximum(value * inverse_scale, -448.0), 448.0)
        if not HARDWARE:
            # The CPU interpreter's cast truncates: round before it.
            bits = value.to(tl.int32, bitcast=True)
            normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20 << 20  # 3 bits of mantissa
            # Below 2^-6 the spacing is 2^-9. Near 1.5 * 2^23 float32 holds integers only.
            small = (value * 512.0 + 12582912.0 - 12582912.0) * 0.001953125
            normal = normal.to(tl.float32, bitcast=True)
            value = tl.where(tl.abs(value) < 0.015625, small, normal)
    return value.to(dtype)


@triton.jit
def _rope_cache_kernel(
    key_ptr, value_ptr, slots_ptr, positions_ptr, cos_ptr, sin_ptr, key_cache_ptr, value_cache_ptr,
    rows, G, capacity, key_inverse, value_inverse,
    stride_kt, stride_kg, stride_kd, stride_vt, stride_vg, stride_vd,
    stride_cp, stride_cd, stride_sp, stride_sd,
    stride_kcp, stride_kcs, stride_kcg, stride_kcd, stride_vcp, stride_vcs, stride_vcg, stride_vcd,
    D: tl.constexpr, DV: tl.constexpr, HALF: tl.constexpr, PAGE: tl.constexpr,
    FP8: tl.constexpr, HARDWARE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_REST: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    # Index times stride is taken in int64: it passes 2**31 on caches of a few GB.
    token = (row // G).to(tl.int64)
    head = (row % G).to(tl.int64)[:, None]
    slot = tl.load(slots_ptr + token, mask=row < rows, other=-1).to(tl.int64)
    kept = (slot >= 0) & (slot < capacity)
    # The position of a token that is skipped may be anything.
    position = tl.load(positions_ptr + token, mask=kept, other=0).to(tl.int64)[:, None]
    slot = tl.where(kept, slot, 0)
    page = (slot // PAGE)[:, None]
    within = (slot % PAGE)[:, None]
    kept = kept[:, None]
    token = token[:, None]
    half = tl.arange(0, BLOCK_H)[None, :]
    dims_v = tl.arange(0, BLOCK_DV)[None, :]
    half_ok = kept & (half < HALF)
    value_ok = kept & (dims_v < DV)
    key_at = key_ptr + token * stride_kt + head * stride_kg
    first = tl.load(key_at + half * stride_kd, mask=half_ok, other=0.0).to(tl.float32)
    second = tl.load(key_at + (HALF + half) * stride_kd, mask=half_ok, other=0.0).to(tl.float32)
    value_at = value_ptr + token * stride_vt + head * stride_vg + dims_v * stride_vd
    value = tl.load(value_at, mask=value_ok, other=0.0).to(tl.float32)
    cos_at = cos_ptr + position * stride_cp + half * stride_cd
    sin_at = sin_ptr + position * stride_sp + half * stride_sd
    cos = tl.load(cos_at, mask=half_ok, other=0.0).to(tl.float32)
    sin = tl.load(sin_at, mask=half_ok, other=0.0).to(tl.float32)
    dtype: tl.constexpr = key_cache_ptr.dtype.element_ty
    low = _stored(first * cos - second * sin, key_inverse, dtype, FP8, HARDWARE)
    high = _stored(second * cos + first * sin, key_inverse, dtype, FP8, HARDWARE)
    out = key_cache_ptr + page * stride_kcp + within * stride_kcs + head * stride_kcg
    tl.store(out + half * stride_kcd, low, mask=half_ok)
    tl.store(out + (HALF + half) * stride_kcd, high, mask=half_ok)
    if 2 * HALF < D:  # features that are not rotated
        rest = 2 * HALF + tl.arange(0, BLOCK_REST)[None, :]
        rest_ok = kept & (rest < D)
        plain = tl.load(key_at + rest * stride_kd, mask=rest_ok, other=0.0).to(tl.float32)
        plain = _stored(plain, key_inverse, dtype, FP8, HARDWARE)
        tl.store(out + rest * stride_kcd, plain, mask=rest_ok)
    out = value_cache_ptr + page * stride_vcp + within * stride_vcs + head * stride_vcg
    value = _stored(value, value_inverse, dtype, FP8, HARDWARE)
    tl.store(out + dims_v * stride_vcd, value, mask=value_ok)


def _hardware(x: torch.Tensor) -> bool:
    """Whether the GPU converts to E4M3 in hardware."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 9)


def append(
    key: torch.Tensor,
    value: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
    tile: int = 2048,
    num_warps: int = 4,
) -> None:
    """Write `key` [T, G, D], rotated, and `value` [T, G, E] to `slots` of the caches, in place.

    `key_cache` [pages, page size, G, D] and `value_cache` [pages, page size, G, E] have one dtype:
    any float, or float8_e4m3fn, whose codes are x / scale, limited to 448, with `key_scale` and
    `value_scale`; other dtypes take no scale. `slots` int64 [T] is page * page size + place in the
    page; tokens with a slot outside of the caches, such as -1, are skipped. Two tokens must not
    have the same slot. `positions` int64 or int32 [T] are rows of `cos` and `sin` [positions, R],
    R at most D / 2: feature i is rotated together with feature R + i, features from 2 R on stay as
    they are. Any strides; wide loads need neighbouring features. A program takes about `tile`
    elements of the keys.
    """
    (t, g, d), e, half = key.shape, value.shape[-1], cos.shape[-1]
    pages, page_size = key_cache.shape[:2]
    if value.shape != (t, g, e) or slots.shape != (t,) or positions.shape != (t,):
        raise ValueError(
            f"key {list(key.shape)}, value {list(value.shape)}, slots {list(slots.shape)} and "
            f"positions {list(positions.shape)} do not fit: want [T, G, D], [T, G, E], [T], [T]"
        )
    caches = (key_cache.shape, value_cache.shape)
    if caches != ((pages, page_size, g, d), (pages, page_size, g, e)):
        raise ValueError(
            f"caches {list(caches[0])} and {list(caches[1])} do not fit {g} heads of {d} and {e}: "
            "want [pages, page size, heads, features]"
        )
    if cos.shape != sin.shape or cos.ndim != 2 or 2 * half > d:
        raise ValueError(f"cos {list(cos.shape)} and sin must be [positions, at most {d // 2}]")
    fp8 = key_cache.dtype == torch.float8_e4m3fn
    if key_cache.dtype != value_cache.dtype or (not fp8 and (key_scale, value_scale) != (1, 1)):
        raise ValueError("the caches must have one dtype, and scales of 1 unless it is E4M3")
    if fp8 and key.is_cuda and not _hardware(key):
        raise ValueError("FP8 caches need a GPU of compute capability 8.9 at least")
    if t * g * max(d, e) == 0 or key_cache.numel() == 0:
        return
    block_m = max(1, min(tile // triton.next_power_of_2(d), triton.next_power_of_2(t * g)))
    _rope_cache_kernel[(triton.cdiv(t * g, block_m),)](
        key, value, slots.contiguous(), positions.contiguous(), cos, sin, key_cache, value_cache,
        t * g, g, pages * page_size, 1 / key_scale, 1 / value_scale,
        *key.stride(), *value.stride(), *cos.stride(), *sin.stride(),
        *key_cache.stride(), *value_cache.stride(),
        D=d, DV=e, HALF=half, PAGE=page_size, FP8=fp8, HARDWARE=_hardware(key), BLOCK_M=block_m,
        BLOCK_H=triton.next_power_of_2(max(1, half)), BLOCK_DV=triton.next_power_of_2(e),
        BLOCK_REST=triton.next_power_of_2(max(1, d - 2 * half)), num_warps=num_warps,
    )  # fmt: skip


def _new_caches(
    key: torch.Tensor, value: torch.Tensor, pages: int, page_size: int, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Caches of zeros for heads such as `key`'s and `value`'s."""
    dtype = key.dtype if scale is None else torch.float8_e4m3fn
    key_cache, value_cache = (
        torch.zeros((pages, page_size, *each.shape[1:]), dtype=dtype, device=each.device)
        for each in (key, value)
    )
    return key_cache, value_cache


def kernel_function(
    key: torch.Tensor,
    value: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pages: int,
    page_size: int,
    scale: float | None = None,
    tile: int = 2048,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """New caches [pages, page_size, G, D] of zeros with rotated `key` and `value` [T, G, D] in
    their slots: of `key`'s dtype, or E4M3 codes x / `scale`. See `append`, which writes to caches
    that are there."""
    caches = _new_caches(key, value, pages, page_size, scale)
    append(
        key, value, slots, positions, cos, sin, *caches, scale or 1.0, scale or 1.0,
        tile=tile, num_warps=num_warps,
    )  # fmt: skip
    return caches


def reference(
    key: torch.Tensor,
    value: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pages: int,
    page_size: int,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    caches = _new_caches(key, value, pages, page_size, scale)
    half = cos.shape[1]
    c, s = cos[positions][:, None], sin[positions][:, None]
    first, second, rest = key.split((half, half, key.shape[2] - 2 * half), dim=-1)
    rotated = torch.cat((first * c - second * s, second * c + first * s, rest), dim=-1)
    kept = (slots >= 0) & (slots < pages * page_size)
    for cache, new in zip(caches, (rotated, value), strict=True):
        at = cache.view(-1, *cache.shape[2:])
        if scale is None:
            at[slots[kept]] = new[kept].to(cache.dtype)
        else:  # as bytes: PyTorch does not move 8-bit floats about everywhere
            codes = (new.float() / scale).clamp(-LARGEST, LARGEST).to(cache.dtype)
            at.view(torch.uint8)[slots[kept]] = codes.view(torch.uint8)[kept]
    return caches


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [tokens, heads, features, page size, pages, 1 for FP8 caches]; slots are in no
    order, about one of 16 tokens is skipped."""
    t, g, d, page_size, pages, fp8 = size
    generator = torch.Generator(device=device).manual_seed(seed)
    key, value = (
        torch.randn((t, g, d), dtype=dtype, device=device, generator=generator) for _ in range(2)
    )
    slots = torch.full((t,), -1, dtype=torch.int64, device=device)
    drawn = torch.randperm(pages * page_size, device=device, generator=generator)[:t]
    slots[: len(drawn)] = drawn
    slots[torch.rand(t, device=device, generator=generator) < 1 / 16] = -1
    positions = torch.randint(0, 4096, (t,), device=device, generator=generator)
    angles = torch.rand((4096, d // 2), device=device, generator=generator) * 6.2831853
    inputs = [key, value, slots, positions, angles.cos().to(dtype), angles.sin().to(dtype)]
    return [*inputs, pages, page_size, *([0.0625] if fp8 else [])]
