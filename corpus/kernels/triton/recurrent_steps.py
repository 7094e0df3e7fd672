"""
---
slug: recurrent-steps
title: Short GRU and LSTM layers, a launch a time step with product and gates together
op: recurrent-layers
language: triton
techniques: [kernel-fusion, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[3, 4, 10, 24, 4], [2, 18, 16, 17, 3], [3, 2, 20, 33, 3]]
  bench: [256, 128, 512, 1024, 3]
check_params: {block_b: 16, block_h: 16, block_k: 32}
sources:
  - title: "Cho et al.: Learning phrase representations using RNN encoder-decoder"
    url: https://arxiv.org/abs/1406.1078
    licence: arXiv-nonexclusive
  - title: "Appleyard et al.: Optimizing Performance of Recurrent Neural Networks on GPUs"
    url: https://arxiv.org/abs/1604.01946
    licence: arXiv
  - title: "PyTorch: torch.nn.GRU"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
    licence: BSD-3-Clause
---

A step of a recurrent layer multiplies the state by weights, and then the gates are elementwise. The
product with the input needs no state: it is one product for all steps, before the loop. What is
left is one launch a step. A program computes all gates of its units: one product for each gate, of
the same tile of the state with that gate's rows of the weights. So the gates of a unit are in one
thread's registers, and no product is written to memory.

The state of a GRU and the cell of an LSTM stay in float32; what is multiplied is rounded to the
tensors' dtype. The weights come from L2 in every step. A small layer takes as long as its launches:
put the loop in a CUDA graph. `recurrent-persistent` does all steps in one launch with the weights
in shared memory, where they fit, in more than twice the code.

For another cell, change what follows the loop: a norm over all gates of a row needs its sums from
all programs, and so a launch between product and gates.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_b": [16, 32, 64, 128],
    "block_h": [16, 32, 64],
    "block_k": [64, 128],
    "num_warps": [4, 8],
}

GATES = {"gru": 3, "lstm": 4}


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _step_kernel(
    from_x_ptr, h_ptr, w_ptr, bias_ptr, state_ptr, out_ptr, B, H, stride_x, KIND: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B))[:, None]
    unit = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[None, :]
    first = tl.zeros((BLOCK_B, BLOCK_H), tl.float32)
    second = tl.zeros((BLOCK_B, BLOCK_H), tl.float32)
    third = tl.zeros((BLOCK_B, BLOCK_H), tl.float32)
    fourth = tl.zeros((BLOCK_B, BLOCK_H), tl.float32)
    for start in tl.range(0, H, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        h = tl.load(h_ptr + b * H + k[None, :], mask=(b < B) & (k[None, :] < H), other=0.0)
        at, mask = w_ptr + unit * H + k[:, None], (unit < H) & (k[:, None] < H)
        w = tl.load(at, mask=mask, other=0.0)
        first = tl.dot(h, w, first, input_precision="tf32x3")
        w = tl.load(at + H * H, mask=mask, other=0.0)
        second = tl.dot(h, w, second, input_precision="tf32x3")
        w = tl.load(at + 2 * H * H, mask=mask, other=0.0)
        third = tl.dot(h, w, third, input_precision="tf32x3")
        if KIND == "lstm":
            w = tl.load(at + 3 * H * H, mask=mask, other=0.0)
            fourth = tl.dot(h, w, fourth, input_precision="tf32x3")
    mask = (b < B) & (unit < H)
    x_at = from_x_ptr + b * stride_x + unit
    first = tl.sigmoid(first + tl.load(x_at, mask=mask).to(tl.float32))
    second = tl.sigmoid(second + tl.load(x_at + H, mask=mask).to(tl.float32))
    x = tl.load(x_at + 2 * H, mask=mask).to(tl.float32)
    state = tl.load(state_ptr + b * H + unit, mask=mask)
    if KIND == "gru":  # reset, update, new
        bias = tl.load(bias_ptr + 2 * H + unit, mask=unit < H).to(tl.float32)
        new = _tanh(x + first * (third + bias))
        state = new + second * (state - new)
        h = state
    else:  # input, forget, cell, output
        state = second * state + first * _tanh(third + x)
        fourth += tl.load(x_at + 3 * H, mask=mask).to(tl.float32)
        h = tl.sigmoid(fourth) * _tanh(state)
    tl.store(state_ptr + b * H + unit, state, mask=mask)
    tl.store(out_ptr + b * H + unit, h, mask=mask)


def kernel_function(
    x: torch.Tensor,
    h0: torch.Tensor,
    w_x: torch.Tensor,
    w_h: torch.Tensor,
    bias_x: torch.Tensor,
    bias_h: torch.Tensor,
    kind: str = "gru",
    c0: torch.Tensor | None = None,
    block_b: int = 64,
    block_h: int = 16,
    block_k: int = 128,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs [T, B, H] of a layer for inputs `x` [T, B, I], and the last state of a GRU or
    the last cell of an LSTM [B, H].

    `h0` and an LSTM's `c0` are [B, H]. Weights `w_x` [G * H, I] and `w_h` [G * H, H] and biases
    [G * H] are in PyTorch's order: reset, update, new for a GRU; input, forget, cell, output for an
    LSTM. Inputs that are not contiguous are copied.
    """
    if kind not in GATES or w_h.shape != (GATES[kind] * h0.shape[1], h0.shape[1]):
        raise ValueError(f"kind '{kind}' and weights {list(w_h.shape)} do not fit")
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        wide = [each.float() for each in (x, h0, w_x, w_h, bias_x, bias_h)]
        cell = None if c0 is None else c0.float()
        out, last = kernel_function(*wide, kind, cell, block_b, block_h, block_k)
        return out.to(x.dtype), last.to(x.dtype)
    steps, (batch, hidden) = x.shape[0], h0.shape
    bias = bias_x + bias_h
    if kind == "gru":  # that of the new state is inside of the reset
        bias[2 * hidden :] = bias_x[2 * hidden :]
    from_x = torch.nn.functional.linear(x, w_x, bias)
    out = torch.empty((steps, batch, hidden), dtype=x.dtype, device=x.device)
    state = (h0 if kind == "gru" else c0).to(torch.float32, copy=True).contiguous()
    h, w_h, bias_h = h0.contiguous(), w_h.contiguous(), bias_h.contiguous()
    for t in range(steps):
        _step_kernel[(triton.cdiv(batch, block_b), triton.cdiv(hidden, block_h))](
            from_x[t], h, w_h, bias_h, state, out[t], batch, hidden, len(bias),
            KIND=kind, BLOCK_B=block_b, BLOCK_H=block_h, BLOCK_K=block_k, num_warps=num_warps,
        )  # fmt: skip
        h = out[t]
    return out, state.to(x.dtype)


def reference(
    x: torch.Tensor,
    h0: torch.Tensor,
    w_x: torch.Tensor,
    w_h: torch.Tensor,
    bias_x: torch.Tensor,
    bias_h: torch.Tensor,
    kind: str = "gru",
    c0: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    # As in nn.GRU, which torch.compile leaves to the library: it would unroll all steps.
    layer = torch.compiler.disable({"gru": torch.gru, "lstm": torch.lstm}[kind])
    rest = [w_x, w_h, bias_x, bias_h], True, 1, 0.0, False, False, False
    if kind == "gru":
        out, h_n = layer(x, h0[None], *rest)
        return out, h_n[0]
    out, _, c_n = layer(x, (h0[None], c0[None]), *rest)
    return out, c_n[0]


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [steps, batch, inputs, hidden units, gates]; 3 gates are a GRU, 4 an LSTM."""
    steps, batch, wide, hidden, gates = size
    generator = torch.Generator(device=device).manual_seed(seed)
    kind = next(name for name, count in GATES.items() if count == gates)
    shapes = [(steps, batch, wide), (batch, hidden), (gates * hidden, wide),
              (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)]  # fmt: skip
    drawn = [
        torch.randn(shape, dtype=dtype, device=device, generator=generator) for shape in shapes
    ]
    scaled = [each * (0.5 if hidden == 0 else hidden**-0.5) for each in drawn[2:]]
    c0 = torch.randn((batch, hidden), dtype=dtype, device=device, generator=generator)
    return [*drawn[:2], *scaled, kind, c0 if kind == "lstm" else None]
