"""
---
slug: linear-attention-plain
title: Gated linear attention step by step, one program for some columns of a head's state
op: linear-attention
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[1, 2, 40, 32, 32], [2, 1, 33, 24, 20], [1, 1, 1, 16, 16]]
  bench: [4, 16, 4096, 128, 128]
check_params: {block_e: 32}
sources:
  - title: "Katharopoulos et al.: Transformers are RNNs, fast transformers with linear attention"
    url: https://arxiv.org/abs/2006.16236
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4x16x4096x128x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.077
  measured_ms: 5.18
  speedup: 0.7871
  floor_fraction: 0.01216
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4x16x4096x128x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.8206
  measured_ms: 5.18
  speedup: 0.1584
  floor_fraction: 0.01216
---

S[t] = exp(g[t]) S[t - 1] + k[t]^T v[t], o[t] = q[t] S[t]. A program keeps all D rows and `block_e`
columns of a head's state in registers and walks over the whole sequence, one step after another,
with products on CUDA cores. Nothing but q, k, v and the output goes through memory; the time is
that of T dependent steps.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_e": [8, 16, 32, 64], "num_warps": [1, 2, 4]}


@triton.jit
def _recurrent_kernel(
    q_ptr, k_ptr, v_ptr, g_ptr, out_ptr,
    H, T,
    stride_qb, stride_qh, stride_qt, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_ve, stride_gb, stride_gh, stride_gt,
    D: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(E, BLOCK_E)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    batch, own = head // H, head % H
    d = tl.arange(0, ROWS)
    e = tl.program_id(0) % blocks * BLOCK_E + tl.arange(0, BLOCK_E)
    q_ptrs = q_ptr + batch * stride_qb + own * stride_qh + d * stride_qd
    k_ptrs = k_ptr + batch * stride_kb + own * stride_kh + d * stride_kd
    v_ptrs = v_ptr + batch * stride_vb + own * stride_vh + e * stride_ve
    g_ptrs = g_ptr + batch * stride_gb + own * stride_gh
    out_ptrs = out_ptr + head * T * E + e
    state = tl.zeros((ROWS, BLOCK_E), dtype=tl.float32)
    for _ in tl.range(0, T):
        q = tl.load(q_ptrs, mask=d < D, other=0.0).to(tl.float32)
        k = tl.load(k_ptrs, mask=d < D, other=0.0).to(tl.float32)
        v = tl.load(v_ptrs, mask=e < E, other=0.0).to(tl.float32)
        g = tl.load(g_ptrs).to(tl.float32)
        state = state * tl.exp(g) + k[:, None] * v[None, :]
        out = tl.sum(state * q[:, None], axis=0)
        tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=e < E)
        q_ptrs += stride_qt
        k_ptrs += stride_kt
        v_ptrs += stride_vt
        g_ptrs += stride_gt
        out_ptrs += E


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    block_e: int = 16,
    num_warps: int = 1,
) -> torch.Tensor:
    """Linear attention of `q`, `k` [B, H, T, D] and `v` [B, H, T, E] with log decays `g` [B, H, T]
    -> [B, H, T, E] in q's dtype; any strides."""
    if k.shape != q.shape or v.shape[:3] != q.shape[:3] or g.shape != q.shape[:3]:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    (b, h, t, d), e = q.shape, v.shape[3]
    out = torch.empty((b, h, t, e), dtype=q.dtype, device=q.device)
    if out.numel():
        _recurrent_kernel[(b * h * triton.cdiv(e, block_e),)](
            q, k, v, g, out,
            h, t, *q.stride(), *k.stride(), *v.stride(), *g.stride(),
            D=d, E=e, ROWS=triton.next_power_of_2(d), BLOCK_E=block_e, num_warps=num_warps,
        )  # fmt: skip
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    t = q.shape[2]
    size = 64
    more = -t % size
    pad = torch.nn.functional.pad
    # [B, H, chunks, size, ...]; step by step there would be some launches for each step.
    q, k, v = (pad(x, (0, 0, 0, more)).unflatten(2, (-1, size)) for x in (q, k, v))
    decay = pad(g.to(torch.promote_types(q.dtype, torch.float32)), (0, more))
    decay = decay.unflatten(2, (-1, size)).cumsum(-1)
    back = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
    within = ((q @ k.mT) * back).to(q.dtype) @ v
    left = (decay[..., -1:] - decay).exp()
    added = k.mT @ (v * left[..., None]).to(v.dtype)
    total = decay[..., -1].exp()[..., None, None]
    state = torch.zeros_like(added[:, :, 0], dtype=decay.dtype)
    before = []
    for chunk in range(added.shape[2]):
        before.append(state.to(q.dtype))
        state = state * total[:, :, chunk] + added[:, :, chunk]
    across = (q @ torch.stack(before, 2)) * decay.exp()[..., None]
    out = (within + across).flatten(2, 3)[:, :, :t]
    return out.to(q.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, heads, steps, head size of q and k, that of v]; `g` is float32, as models
    compute it."""
    b, h, t, d, e = size
    generator = torch.Generator(device=device).manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=generator)

    q, k, v = (randn(b, h, t, n).to(dtype) for n in (d, d, e))
    return [q * d**-0.5, k, v, torch.nn.functional.logsigmoid(randn(b, h, t) + 3)]
