"""
---
slug: lora-plain
title: LoRA for a mixed batch, one program for each token and block of outputs
op: lora
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[24, 64, 48, 8, 3], [5, 33, 20, 4, 2], [10, 100, 70, 20, 6], [3, 16, 40, 1, 1]]
  bench: [8192, 4096, 4096, 32, 64]
check_params: {block_n: 32, block_k: 32}
sources:
  - title: "Chen et al.: Punica, multi-tenant LoRA serving"
    url: https://arxiv.org/abs/2310.18547
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
  baseline: eager
  baseline_ms: 10.12
  measured_ms: 0.4745
  speedup: 21.33
  floor_fraction: 0.1158
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x4096x4096x32x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 10.09
  measured_ms: 0.4745
  speedup: 21.26
  floor_fraction: 0.1158
---

y = base + scale * (x @ A^T) @ B^T, where each token names the adapter whose A and B it uses, or
none. One kernel takes a token each and multiplies it by its A; a second takes a token and a block
of outputs and multiplies by B. A token reads all of its adapter, whoever else uses it: tokens that
share one fetch it again each, from L2 at best, and the products run on the CUDA cores.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_n": [64, 128, 256], "block_k": [64, 128, 256], "num_warps": [2, 4, 8]}


@triton.jit
def _shrink_kernel(
    x_ptr, a_ptr, adapter_ptr, s_ptr, L, R, K,
    stride_xt, stride_xk, stride_al, stride_ar, stride_ak,
    BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    token = tl.program_id(0).to(tl.int64)
    adapter = tl.load(adapter_ptr + token).to(tl.int64)
    if (adapter >= 0) & (adapter < L):
        r = tl.arange(0, BLOCK_R)
        acc = tl.zeros((BLOCK_R,), dtype=tl.float32)
        for start in tl.range(0, K, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K).to(tl.int64)
            x_at = x_ptr + token * stride_xt + k * stride_xk
            a_at = a_ptr + adapter * stride_al + r[:, None] * stride_ar + k[None, :] * stride_ak
            x = tl.load(x_at, mask=k < K, other=0.0).to(tl.float32)
            a = tl.load(a_at, mask=(r < R)[:, None] & (k < K)[None, :], other=0.0)
            acc += tl.sum(a.to(tl.float32) * x[None, :], axis=1)
        tl.store(s_ptr + token * R + r, acc, mask=r < R)


@triton.jit
def _expand_kernel(
    s_ptr, b_ptr, adapter_ptr, base_ptr, out_ptr, L, R, N, scale,
    stride_bl, stride_bn, stride_br, stride_yt, stride_yn,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(N, BLOCK_N)
    token = (tl.program_id(0) // blocks).to(tl.int64)
    n = (tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    adapter = tl.load(adapter_ptr + token).to(tl.int64)
    y = tl.load(base_ptr + token * stride_yt + n * stride_yn, mask=n < N, other=0.0).to(tl.float32)
    if (adapter >= 0) & (adapter < L):
        r = tl.arange(0, BLOCK_R)
        s = tl.load(s_ptr + token * R + r, mask=r < R, other=0.0)
        b_at = b_ptr + adapter * stride_bl + n[:, None] * stride_bn + r[None, :] * stride_br
        b = tl.load(b_at, mask=(n < N)[:, None] & (r < R)[None, :], other=0.0)
        y += tl.sum(b.to(tl.float32) * s[None, :], axis=1) * scale
    tl.store(out_ptr + token * N + n, y.to(out_ptr.dtype.element_ty), mask=n < N)


def kernel_function(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    adapter: torch.Tensor,
    base: torch.Tensor,
    scale: float = 1.0,
    block_n: int = 128,
    block_k: int = 128,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return `base` [T, N] + `scale` * (`x` [T, K] @ `a`[i].T) @ `b`[i].T, where i = `adapter`[t].

    `a` [L, R, K] and `b` [L, N, R]; `adapter` int32 [T], where whatever is not 0 to L - 1, such as
    -1, means no adapter. Any strides; the result is contiguous.
    """
    (t, k), (adapters, r, _), n = x.shape, a.shape, b.shape[1]
    if a.shape[2] != k or b.shape != (adapters, n, r) or base.shape != (t, n):
        shapes = f"x {list(x.shape)}, a {list(a.shape)}, b {list(b.shape)}, base {list(base.shape)}"
        raise ValueError(f"{shapes} do not fit: want [T, K], [L, R, K], [L, N, R], [T, N]")
    if adapter.shape != (t,) or adapter.is_floating_point():
        raise ValueError(f"adapter must be {t} integers, not {adapter.dtype} {list(adapter.shape)}")
    out = torch.empty((t, n), dtype=base.dtype, device=x.device)
    if out.numel() == 0:
        return out
    adapter = adapter.contiguous()
    s = torch.empty((t, r), dtype=torch.float32, device=x.device)
    block_r = triton.next_power_of_2(max(1, r))
    # Tiles of about 4096 elements, whatever the rank.
    block_k, block_n = (max(16, min(block, 8192 // block_r)) for block in (block_k, block_n))
    _shrink_kernel[(t,)](
        x, a, adapter, s, adapters, r, k, *x.stride(), *a.stride(),
        BLOCK_R=block_r, BLOCK_K=block_k, num_warps=num_warps,
    )  # fmt: skip
    _expand_kernel[(t * triton.cdiv(n, block_n),)](
        s, b, adapter, base, out, adapters, r, n, scale, *b.stride(), *base.stride(),
        BLOCK_R=block_r, BLOCK_N=block_n, num_warps=num_warps,
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
