"""
---
slug: linear-attention-chunked
title: Gated linear attention in chunks, products on tensor cores
op: linear-attention
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: linear-attention-plain
sizes:
  check: [[1, 2, 40, 32, 32], [2, 1, 33, 24, 20], [1, 1, 1, 16, 16]]
  bench: [4, 16, 4096, 128, 128]
check_params: {chunk: 16, block_d: 16, block_e: 32, programs: 1}
sources:
  - title: "Yang et al.: Gated linear attention transformers with hardware-efficient training"
    url: https://arxiv.org/abs/2312.06635
    licence: proprietary
  - title: "Dao, Gu: Transformers are SSMs (structured state space duality)"
    url: https://arxiv.org/abs/2405.21060
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
  baseline: linear-attention-plain
  baseline_ms: 5.188
  measured_ms: 0.2226
  speedup: 23.31
  floor_fraction: 0.2831
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4x16x4096x128x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.703
  measured_ms: 0.2226
  speedup: 21.13
  floor_fraction: 0.2831
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4x16x4096x128x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.104
  measured_ms: 0.2226
  speedup: 4.96
  floor_fraction: 0.2831
---

S[t] = exp(g[t]) S[t - 1] + k[t]^T v[t], o[t] = q[t] S[t], with one log decay g for each head and
step. Step by step this is a chain of T updates of a D x E matrix, on CUDA cores, and few programs.

In a chunk of C steps the same sums are matrix products. With G the running sum of g in the chunk,
o[i] = exp(G[i]) q[i] S + sum over j <= i of exp(G[i] - G[j]) (q[i] . k[j]) v[j], where S is the
state before the chunk; and the state after it is exp(G[C - 1]) S + sum over j of
exp(G[C - 1] - G[j]) k[j]^T v[j]. The chain is T / C steps long. The first kernel walks along it,
one program for a block of the state, and stores the state before each chunk in the dtype of the
inputs: tensor cores take it so anyway. In the second one every chunk is a program of its own.

A chunk of C costs C (D + E) further multiplications a step and D E / C numbers of state; at C of
64 to 128 both are about as much as q, k and v. For one step at a time, as in decoding, there is
nothing to put together: the state has to be read and written, and a recurrent kernel does that.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "chunk": [32, 64, 128],
    "block_d": [32, 64, 128],
    "block_e": [32, 64, 128],
    "programs": [132, 264, 528],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = tl.constexpr(1.4426950408889634)
# What tl.dot takes at least.
MIN_DOT = 16


@triton.jit
def _states_kernel(
    k_ptr, v_ptr, g_ptr, initial_ptr, states_ptr, last_ptr,
    H, T, chunks,
    stride_kb, stride_kh, stride_kt, stride_kd, stride_vb, stride_vh, stride_vt, stride_ve,
    stride_gb, stride_gh, stride_gt,
    BEGINS: tl.constexpr, ENDS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    C: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """The state [D, E] before each chunk: `states` is [B, H, chunks, D, E]."""
    blocks_d = tl.cdiv(D, BLOCK_D)
    blocks = blocks_d * tl.cdiv(E, BLOCK_E)
    block = tl.program_id(0) % blocks
    head = (tl.program_id(0) // blocks).to(tl.int64)
    d = block % blocks_d * BLOCK_D + tl.arange(0, BLOCK_D)
    e = block // blocks_d * BLOCK_E + tl.arange(0, BLOCK_E)
    step = tl.arange(0, C)
    batch, own = head // H, head % H
    k_head = k_ptr + batch * stride_kb + own * stride_kh + d[:, None] * stride_kd
    v_head = v_ptr + batch * stride_vb + own * stride_vh + e[None, :] * stride_ve
    g_head = g_ptr + batch * stride_gb + own * stride_gh
    mask = (d < D)[:, None] & (e < E)[None, :]
    place = d[:, None] * E + e[None, :]
    state = tl.zeros((BLOCK_D, BLOCK_E), dtype=tl.float32)
    if BEGINS:
        begin = tl.load(initial_ptr + head * D * E + place, mask=mask, other=0.0)
        state = begin.to(tl.float32)
    for chunk in tl.range(0, chunks):
        slot = states_ptr + (head * chunks + chunk) * D * E + place
        tl.store(slot, state.to(states_ptr.dtype.element_ty), mask=mask)
        t = chunk * C + step
        in_t = t < T
        t64 = t.to(tl.int64)
        g = tl.load(g_head + t64 * stride_gt, mask=in_t, other=0.0).to(tl.float32) * LOG2_E
        # What of step j is left after the chunk.
        left = tl.exp2(tl.sum(g, axis=0) - tl.cumsum(g, axis=0))
        k = tl.load(
            k_head + t64[None, :] * stride_kt, mask=(d < D)[:, None] & in_t[None, :], other=0.0
        )
        v = tl.load(
            v_head + t64[:, None] * stride_vt, mask=in_t[:, None] & (e < E)[None, :], other=0.0
        )
        v = (v.to(tl.float32) * left[:, None]).to(k.dtype)
        state = tl.dot(k, v, state * tl.exp2(tl.sum(g, axis=0)), input_precision="tf32x3")
    if ENDS:
        tl.store(last_ptr + head * D * E + place, state, mask=mask)


@triton.jit
def _outputs_kernel(
    q_ptr, k_ptr, v_ptr, g_ptr, states_ptr, out_ptr,
    H, T, chunks, scale,
    stride_qb, stride_qh, stride_qt, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_ve, stride_gb, stride_gh, stride_gt,
    D: tl.constexpr, E: tl.constexpr,
    C: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(E, BLOCK_E)
    e = tl.program_id(0) % blocks * BLOCK_E + tl.arange(0, BLOCK_E)
    chunk = tl.program_id(0) // blocks % chunks
    head = (tl.program_id(0) // blocks // chunks).to(tl.int64)
    batch, own = head // H, head % H
    step = tl.arange(0, C)
    t = chunk * C + step
    in_t = t < T
    t64 = t.to(tl.int64)
    g_at = batch * stride_gb + own * stride_gh + t64 * stride_gt
    g = tl.load(g_ptr + g_at, mask=in_t, other=0.0).to(tl.float32) * LOG2_E
    decay = tl.cumsum(g, axis=0)
    q_rows = q_ptr + batch * stride_qb + own * stride_qh + t64[:, None] * stride_qt
    k_cols = k_ptr + batch * stride_kb + own * stride_kh + t64[None, :] * stride_kt
    slot = states_ptr + (head * chunks + chunk) * D * E + e[None, :]
    acc = tl.zeros((C, BLOCK_E), dtype=tl.float32)
    scores = tl.zeros((C, C), dtype=tl.float32)
    for start in tl.range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        in_d = d < D
        q = tl.load(q_rows + d[None, :] * stride_qd, mask=in_t[:, None] & in_d[None, :], other=0.0)
        k = tl.load(k_cols + d[:, None] * stride_kd, mask=in_d[:, None] & in_t[None, :], other=0.0)
        state = tl.load(slot + d[:, None] * E, mask=in_d[:, None] & (e < E)[None, :], other=0.0)
        scores = tl.dot(q, k, scores, input_precision="tf32x3")
        acc = tl.dot(q, state, acc, input_precision="tf32x3")
    # Above the diagonal the exponent could be large: it is replaced before, not after.
    back = tl.where(step[:, None] >= step[None, :], decay[:, None] - decay[None, :], float("-inf"))
    scores = scores * tl.exp2(back)
    v_at = batch * stride_vb + own * stride_vh + t64[:, None] * stride_vt + e[None, :] * stride_ve
    v = tl.load(v_ptr + v_at, mask=in_t[:, None] & (e < E)[None, :], other=0.0)
    acc = acc * tl.exp2(decay)[:, None]
    acc = tl.dot(scores.to(v.dtype), v, acc, input_precision="tf32x3") * scale
    out_at = (head * T + t64[:, None]) * E + e[None, :]
    mask = in_t[:, None] & (e < E)[None, :]
    tl.store(out_ptr + out_at, acc.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    scale: float = 1.0,
    initial_state: torch.Tensor | None = None,
    return_state: bool = False,
    chunk: int = 64,
    block_d: int = 64,
    block_e: int = 64,
    programs: int = 264,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Linear attention of `q`, `k` [B, H, T, D] and `v` [B, H, T, E] with log decays `g` [B, H, T]
    -> [B, H, T, E] in q's dtype; `scale` multiplies the output.

    The state before the first step is `initial_state` [B, H, D, E] (0 if None); with `return_state`
    the result is a pair of the output and the state after the last step, float32 [B, H, D, E]. Any
    strides; decays are finite and at most 0. Blocks of the state are made smaller until
    `programs` programs walk along the chunks.
    """
    if q.ndim != 4 or k.shape != q.shape or v.ndim != 4 or v.shape[:3] != q.shape[:3]:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    if g.shape != q.shape[:3] or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError("g is [B, H, T] like q's first dimensions, and q, k, v of one dtype")
    (b, h, t, d), e = q.shape, v.shape[3]
    if initial_state is not None and tuple(initial_state.shape) != (b, h, d, e):
        wanted = [b, h, d, e]
        raise ValueError(f"initial_state must be {wanted}, not {list(initial_state.shape)}")
    out = torch.empty((b, h, t, e), dtype=q.dtype, device=q.device)
    last = torch.empty((b, h, d, e), dtype=torch.float32, device=q.device) if return_state else out
    if out.numel() == 0 or d == 0:
        if return_state:
            last = last.zero_() if initial_state is None else last.copy_(initial_state)
        return (out.zero_(), last) if return_state else out.zero_()
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    if q.element_size() > 2:  # such tiles are twice as large, and products take three passes
        chunk, block_d, block_e = min(chunk, 64), min(block_d, 32), min(block_e, 64)
    block_d = max(MIN_DOT, min(block_d, triton.next_power_of_2(d)))
    block_e = max(MIN_DOT, min(block_e, triton.next_power_of_2(e)))
    chunks = triton.cdiv(t, chunk)
    states = torch.empty((b * h, chunks, d, e), dtype=q.dtype, device=q.device)
    # A block of the state walks along all chunks: many small ones where there are few heads.
    part_d, part_e = block_d, block_e
    while b * h * triton.cdiv(d, part_d) * triton.cdiv(e, part_e) < programs:
        if max(part_d, part_e) <= 2 * MIN_DOT:
            break
        part_d, part_e = (part_d // 2, part_e) if part_d > part_e else (part_d, part_e // 2)
    _states_kernel[(b * h * triton.cdiv(d, part_d) * triton.cdiv(e, part_e),)](
        k, v, g, g if initial_state is None else initial_state.contiguous(), states, last,
        h, t, chunks, *k.stride(), *v.stride(), *g.stride(),
        BEGINS=initial_state is not None, ENDS=return_state, D=d, E=e,
        C=chunk, BLOCK_D=part_d, BLOCK_E=part_e,
        num_warps=4, num_stages=num_stages,
    )  # fmt: skip
    _outputs_kernel[(b * h * chunks * triton.cdiv(e, block_e),)](
        q, k, v, g, states, out,
        h, t, chunks, scale, *q.stride(), *k.stride(), *v.stride(), *g.stride(),
        D=d, E=e, C=chunk, BLOCK_D=block_d, BLOCK_E=block_e,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return (out, last) if return_state else out


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
