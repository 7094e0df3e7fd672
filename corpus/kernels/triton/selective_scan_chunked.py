"""
---
slug: selective-scan-chunked
title: Selective scan (Mamba) in parallel over chunks of time, the states in registers
op: ssm
language: triton
techniques: [parallel-scan]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: selective-scan-plain
sizes:
  check: [[1, 12, 40, 4], [2, 13, 33, 5], [1, 1, 8, 4]]
  bench: [1, 8192, 4096, 16]
check_params: {block_t: 2, block_d: 32, programs: 6}
sources:
  - title: "Gu, Dao: Mamba, linear-time sequence modeling with selective state spaces"
    url: https://arxiv.org/abs/2312.00752
    licence: proprietary
  - title: "Blelloch: Prefix sums and their applications"
    url: https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf
    licence: proprietary
  - title: "Triton: triton.language.associative_scan"
    url: https://triton-lang.org/main/python-api/generated/triton.language.associative_scan.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 1x8192x4096x16
  dtype: bfloat16
  baseline: selective-scan-plain
  baseline_ms: 3.971
  measured_ms: 0.5822
  speedup: 6.821
  floor_fraction: 0.08118
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 1x8192x4096x16
  dtype: bfloat16
  baseline: eager
  baseline_ms: 87.84
  measured_ms: 0.5822
  speedup: 150.9
  floor_fraction: 0.08118
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 1x8192x4096x16
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 46.19
  measured_ms: 0.5822
  speedup: 79.34
  floor_fraction: 0.08118
---

h[t] = exp(delta[t] A) h[t - 1] + delta[t] B[t] x[t], y[t] = C[t] h[t] + D x[t]: each of the D
channels has N states of its own. In PyTorch the states of all steps go through memory, N times as
much as x; here they never leave registers, and x, delta and y are read and written once.

Step by step, the sequence is as many dependent steps as it is long, and one thread a channel
leaves most of the GPU idle: 4,096 channels are 128 warps. The recurrence is associative: the pair
(decay, increment) of two steps is again such a pair. So the sequence is cut into chunks until about
`programs` programs run. The first kernel brings each chunk from a state of 0 to its end and stores
that state and the sum of delta, which gives the decay of the whole chunk as exp(A sum). The second
walks over the chunks and turns each end into the state at which the next one begins. The third goes
through the chunks again, from these states, and writes y. Recomputing costs a second exponential
for each state and step, the limit of this kernel; to store the states of all steps would cost far
more. Where batch times channels fill the GPU there is one chunk, and only the third kernel runs.

In a chunk, tiles [N, block_t, block_d] are scanned over their time. Channels lie across threads,
times and states within one, so that the scan and the sum over states need no exchange.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_t": [2, 4, 8],
    "block_d": [32, 64, 128],
    "programs": [1056, 2112, 4224],
    "num_warps": [1, 2, 4],
}

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _then(decay_1, value_1, decay_2, value_2):
    """The first step and then the second one, as one step."""
    return decay_1 * decay_2, value_1 * decay_2 + value_2


@triton.jit
def _scan_kernel(
    x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr, states_ptr, sums_ptr, last_ptr,
    L, D, chunks, span,
    stride_xb, stride_xt, stride_xd, stride_db, stride_dt, stride_dd, stride_ad, stride_an,
    stride_bb, stride_bt, stride_bn, stride_cb, stride_ct, stride_cn,
    FINISH: tl.constexpr, BEGINS: tl.constexpr, ENDS: tl.constexpr, N: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """A chunk of time of a block of channels: its end state, or with FINISH its outputs.

    `states` is [B, chunks, N, D] and `sums` [B, chunks, D]: written, or with FINISH and BEGINS
    the states at which the chunks begin.
    """
    blocks = tl.cdiv(D, BLOCK_D)
    chunk = tl.program_id(0) // blocks % chunks
    batch = (tl.program_id(0) // blocks // chunks).to(tl.int64)
    state = tl.arange(0, BLOCK_N)
    step = tl.arange(0, BLOCK_T)
    channel = (tl.program_id(0) % blocks * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)
    in_n = state < N
    in_d = channel < D
    rates = tl.load(
        a_ptr + state[:, None] * stride_an + channel[None, :] * stride_ad,
        mask=in_n[:, None] & in_d[None, :], other=0.0,
    )  # fmt: skip
    rates = (rates.to(tl.float32) * LOG2_E)[:, None, :]
    slot = states_ptr + (batch * chunks + chunk) * N * D
    own = state.to(tl.int64)[:, None] * D + channel[None, :]
    mask_own = in_n[:, None] & in_d[None, :]
    h = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
    if BEGINS:
        h = tl.load(slot + own, mask=mask_own, other=0.0)
    total = tl.zeros((BLOCK_T, BLOCK_D), dtype=tl.float32)
    skip = tl.zeros((BLOCK_D,), dtype=tl.float32)
    if FINISH:
        skip = tl.load(skip_ptr + channel, mask=in_d, other=0.0).to(tl.float32)
    first = chunk * span
    end = tl.minimum(first + span, L)
    # In a thread these comparisons are known: they cost nothing.
    opens = (step == 0)[None, :, None]
    closes = (step == BLOCK_T - 1)[None, :, None]
    for start in tl.range(first, end, BLOCK_T):
        t = (start + step).to(tl.int64)
        in_t = t < end
        mask = in_t[:, None] & in_d[None, :]
        x_at = batch * stride_xb + t[:, None] * stride_xt + channel[None, :] * stride_xd
        x = tl.load(x_ptr + x_at, mask=mask, other=0.0).to(tl.float32)
        # Past the end delta is 0: the state stays as it is.
        delta_at = batch * stride_db + t[:, None] * stride_dt + channel[None, :] * stride_dd
        delta = tl.load(delta_ptr + delta_at, mask=mask, other=0.0).to(tl.float32)
        mask_n = in_n[:, None] & in_t[None, :]
        b_at = batch * stride_bb + state[:, None] * stride_bn + t[None, :] * stride_bt
        b = tl.load(b_ptr + b_at, mask=mask_n, other=0.0).to(tl.float32)
        decay = tl.exp2(delta[None, :, :] * rates)
        value = (delta * x)[None, :, :] * b[:, :, None]
        value = tl.where(opens, decay * h[:, None, :] + value, value)
        _, value = tl.associative_scan((decay, value), 1, _then)
        # -0.0 is what leaves every number as it is when added, so the compiler drops it.
        h = tl.sum(tl.where(closes, value, -0.0), axis=1)
        if FINISH:
            c_at = batch * stride_cb + state[:, None] * stride_cn + t[None, :] * stride_ct
            c = tl.load(c_ptr + c_at, mask=mask_n, other=0.0).to(tl.float32)
            y = tl.sum(value * c[:, :, None], axis=0) + skip[None, :] * x
            y_at = (batch * L + t)[:, None] * D + channel[None, :]
            tl.store(y_ptr + y_at, y.to(y_ptr.dtype.element_ty), mask=mask)
        else:
            total += delta
    if FINISH:
        if ENDS and chunk == chunks - 1:
            tl.store(last_ptr + batch * N * D + own, h, mask=mask_own)
    else:
        tl.store(slot + own, h, mask=mask_own)
        place = sums_ptr + (batch * chunks + chunk) * D + channel
        tl.store(place, tl.sum(total, axis=0), mask=in_d)


@triton.jit
def _combine_kernel(
    states_ptr, sums_ptr, a_ptr, initial_ptr,
    D, chunks, stride_ad, stride_an,
    BEGINS: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn the end states of chunks, each from 0, into the states at which they begin."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    batch = tl.program_id(1).to(tl.int64)
    inside = place < N * D
    state = place // D
    channel = place % D
    rate = tl.load(a_ptr + state * stride_an + channel * stride_ad, mask=inside, other=0.0)
    rate = rate.to(tl.float32) * LOG2_E
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    if BEGINS:
        h = tl.load(initial_ptr + batch * N * D + place, mask=inside, other=0.0).to(tl.float32)
    for chunk in tl.range(0, chunks):
        slot = states_ptr + (batch * chunks + chunk) * N * D + place
        total = tl.load(sums_ptr + (batch * chunks + chunk) * D + channel, mask=inside, other=0.0)
        ended = tl.load(slot, mask=inside, other=0.0)
        tl.store(slot, h, mask=inside)
        h = tl.exp2(rate * total) * h + ended


def _checked(
    x: torch.Tensor, delta: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor,
    skip: torch.Tensor,
) -> None:  # fmt: skip
    if x.ndim != 3 or a.ndim != 2:
        raise ValueError(f"x is [B, L, D] and a [D, N], not {list(x.shape)} and {list(a.shape)}")
    (batch, length, channels), states = x.shape, a.shape[1]
    wanted = {"delta": (batch, length, channels), "a": (channels, states), "skip": (channels,)}
    wanted |= {"b": (batch, length, states), "c": (batch, length, states)}
    for name, given in (("delta", delta), ("a", a), ("b", b), ("c", c), ("skip", skip)):
        if tuple(given.shape) != wanted[name]:
            raise ValueError(f"{name} must be {list(wanted[name])}, not {list(given.shape)}")
    if not 1 <= states <= 256:
        raise ValueError(f"a channel has 1 to 256 states, not {states}")


def kernel_function(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    return_state: bool = False,
    block_t: int = 4,
    block_d: int = 32,
    programs: int = 2112,
    num_warps: int = 1,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Selective scan of `x` [B, L, D] with steps `delta` [B, L, D], rates `a` [D, N], `b` and `c`
    [B, L, N] and `skip` [D] -> [B, L, D] in x's dtype.

    `delta` is what multiplies `a` and `x`: after its bias and softplus. The state before the first
    step is `initial_state` [B, N, D] (0 if None); with `return_state` the result is a pair of the
    output and the state after the last step, float32 [B, N, D]. Any strides; at most 256 states.
    The sequence is cut into chunks until `programs` programs run.
    """
    _checked(x, delta, a, b, c, skip)
    (batch, length, channels), states = x.shape, a.shape[1]
    if initial_state is not None and tuple(initial_state.shape) != (batch, states, channels):
        wanted = [batch, states, channels]
        raise ValueError(f"initial_state must be {wanted}, not {list(initial_state.shape)}")
    y = torch.empty((batch, length, channels), dtype=x.dtype, device=x.device)
    wide = {"dtype": torch.float32, "device": x.device}
    last = torch.empty((batch, states, channels), **wide) if return_state else y
    if y.numel() == 0:
        if return_state:
            last = last.zero_() if initial_state is None else last.copy_(initial_state)
        return (y, last) if return_state else y
    # 64 states a thread and tile, or registers do not suffice.
    block_n = triton.next_power_of_2(states)
    block_t = max(1, min(block_t, triton.next_power_of_2(length), 128 // block_n))
    blocks = batch * triton.cdiv(channels, block_d)
    # A second pass pays from two chunks on, of some steps.
    chunks = min(programs // blocks, length // (2 * block_t))
    chunks = 1 if chunks < 3 else chunks
    span = triton.cdiv(triton.cdiv(length, chunks), block_t) * block_t
    chunks = triton.cdiv(length, span)
    begins = initial_state is not None or chunks > 1
    sums = y
    ends = y
    if chunks > 1:
        ends = torch.empty((batch, chunks, states, channels), **wide)
        sums = torch.empty((batch, chunks, channels), **wide)
    elif begins:
        ends = initial_state.float().contiguous()
    given = (
        x, delta, a, b, c, skip.contiguous(), y, ends, sums, last,
        length, channels, chunks, span,
        *x.stride(), *delta.stride(), *a.stride(), *b.stride(), *c.stride(),
    )  # fmt: skip
    shape = {"N": states, "BLOCK_N": block_n, "BLOCK_T": block_t, "BLOCK_D": block_d}
    grid = (blocks * chunks,)
    if chunks > 1:
        _scan_kernel[grid](
            *given, FINISH=False, BEGINS=False, ENDS=False, **shape, num_warps=num_warps
        )
        block = 128
        _combine_kernel[(triton.cdiv(states * channels, block), batch)](
            ends, sums, a, sums if initial_state is None else initial_state.contiguous(),
            channels, chunks, *a.stride(),
            BEGINS=initial_state is not None, N=states, BLOCK=block, num_warps=4,
        )  # fmt: skip
    _scan_kernel[grid](
        *given, FINISH=True, BEGINS=begins, ENDS=return_state, **shape, num_warps=num_warps
    )
    return (y, last) if return_state else y


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
