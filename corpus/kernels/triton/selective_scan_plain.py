"""
---
slug: selective-scan-plain
title: Selective scan (Mamba) step by step, one program for a block of channels
op: ssm
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[1, 12, 40, 4], [2, 13, 33, 5], [1, 1, 8, 4]]
  bench: [1, 8192, 4096, 16]
check_params: {block_d: 32}
sources:
  - title: "Gu, Dao: Mamba, linear-time sequence modeling with selective state spaces"
    url: https://arxiv.org/abs/2312.00752
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 1x8192x4096x16
  dtype: bfloat16
  baseline: eager
  baseline_ms: 87.83
  measured_ms: 4.174
  speedup: 21.04
  floor_fraction: 0.01132
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 1x8192x4096x16
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 46.12
  measured_ms: 4.174
  speedup: 11.05
  floor_fraction: 0.01132
---

h[t] = exp(delta[t] A) h[t - 1] + delta[t] B[t] x[t], y[t] = C[t] h[t] + D x[t]. A program keeps
the states of its channels in registers and walks over the whole sequence, one step after another:
x and delta are read once and y is written once. Each step waits for its loads and for the step
before, and no more programs run than there are blocks of channels.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_d": [16, 32, 64, 128], "num_warps": [1, 2, 4]}

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _scan_kernel(
    x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr,
    L, D,
    stride_xb, stride_xt, stride_xd, stride_db, stride_dt, stride_dd, stride_ad, stride_an,
    stride_bb, stride_bt, stride_bn, stride_cb, stride_ct, stride_cn,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(D, BLOCK_D)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    channel = (tl.program_id(0) % blocks * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)
    state = tl.arange(0, BLOCK_N)
    in_d = channel < D
    in_n = state < N
    rates = tl.load(
        a_ptr + state[:, None] * stride_an + channel[None, :] * stride_ad,
        mask=in_n[:, None] & in_d[None, :], other=0.0,
    ).to(tl.float32) * LOG2_E  # fmt: skip
    skip = tl.load(skip_ptr + channel, mask=in_d, other=0.0).to(tl.float32)
    x_ptrs = x_ptr + batch * stride_xb + channel * stride_xd
    delta_ptrs = delta_ptr + batch * stride_db + channel * stride_dd
    b_ptrs = b_ptr + batch * stride_bb + state * stride_bn
    c_ptrs = c_ptr + batch * stride_cb + state * stride_cn
    y_ptrs = y_ptr + batch * L * D + channel
    h = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
    for _ in tl.range(0, L):
        x = tl.load(x_ptrs, mask=in_d, other=0.0).to(tl.float32)
        delta = tl.load(delta_ptrs, mask=in_d, other=0.0).to(tl.float32)
        b = tl.load(b_ptrs, mask=in_n, other=0.0).to(tl.float32)
        c = tl.load(c_ptrs, mask=in_n, other=0.0).to(tl.float32)
        h = tl.exp2(delta[None, :] * rates) * h + (delta * x)[None, :] * b[:, None]
        y = tl.sum(h * c[:, None], axis=0) + skip * x
        tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=in_d)
        x_ptrs += stride_xt
        delta_ptrs += stride_dt
        b_ptrs += stride_bt
        c_ptrs += stride_ct
        y_ptrs += D


def kernel_function(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    block_d: int = 32,
    num_warps: int = 1,
) -> torch.Tensor:
    """Selective scan of `x` [B, L, D] with steps `delta` [B, L, D], rates `a` [D, N], `b` and `c`
    [B, L, N] and `skip` [D] -> [B, L, D] in x's dtype; any strides."""
    batch, length, channels = x.shape
    states = a.shape[1]
    if delta.shape != x.shape or b.shape != (batch, length, states) or b.shape != c.shape:
        raise ValueError(f"{list(x.shape)}, {list(delta.shape)}, {list(b.shape)} do not fit")
    y = torch.empty((batch, length, channels), dtype=x.dtype, device=x.device)
    if y.numel():
        _scan_kernel[(batch * triton.cdiv(channels, block_d),)](
            x, delta, a, b, c, skip.contiguous(), y,
            length, channels,
            *x.stride(), *delta.stride(), *a.stride(), *b.stride(), *c.stride(),
            N=states, BLOCK_N=triton.next_power_of_2(states), BLOCK_D=block_d,
            num_warps=num_warps,
        )  # fmt: skip
    return y


def reference(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
) -> torch.Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    x_wide, delta = x.to(wide), delta.to(wide)
    # [B, L, D, N]. A loop over the steps would be L launches of some kernels each: spans of 1, 2,
    # 4, ... steps are put together instead.
    decay = torch.exp(delta[..., None] * a.to(wide))
    state = (delta * x_wide)[..., None] * b.to(wide)[:, :, None, :]
    reach = 1
    while reach < x.shape[1]:
        state = torch.cat(
            [state[:, :reach], state[:, reach:] + decay[:, reach:] * state[:, :-reach]], 1
        )
        decay = torch.cat([decay[:, :reach], decay[:, reach:] * decay[:, :-reach]], 1)
        reach *= 2
    y = (state * c.to(wide)[:, :, None, :]).sum(-1) + skip.to(wide) * x_wide
    return y.to(x.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, steps, channels, states]; `a` and `skip` are float32, as models keep them."""
    batch, length, channels, states = size
    generator = torch.Generator(device=device).manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=generator)

    delta = torch.nn.functional.softplus(randn(batch, length, channels) - 2)
    a = -torch.exp(randn(channels, states))
    x, b, c = (randn(batch, length, n).to(dtype) for n in (channels, states, states))
    return [x, delta.to(dtype), a, b, c, randn(channels)]
