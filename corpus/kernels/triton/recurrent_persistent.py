"""
---
slug: recurrent-persistent
title: LSTM, GRU and RNN layers as one persistent launch, weights kept on chip
op: recurrent-layers
language: triton
techniques: [persistent-kernel, shared-memory-tiling]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[5, 3, 10, 24, 2, 4], [4, 18, 16, 16, 1, 3], [3, 2, 20, 17, 2, 1]]
  bench: [512, 10, 128, 256, 6, 4]
check_params: {block_h: 8, block_b: 16}
sources:
  - title: "Diamos et al.: Persistent RNNs: Stashing Recurrent Weights On-Chip (ICML 2016)"
    url: https://proceedings.mlr.press/v48/diamos16.html
    licence: proprietary
  - title: "Appleyard et al.: Optimizing Performance of Recurrent Neural Networks on GPUs"
    url: https://arxiv.org/abs/1604.01946
    licence: arXiv
  - title: "PTX ISA: memory consistency model"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#memory-consistency-model
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 512x10x128x256x6x4
  dtype: bfloat16
  baseline: eager
  baseline_ms: 38.06
  measured_ms: 1.528
  speedup: 24.91
  floor_fraction: 0.001556
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 512x10x128x256x6x4
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 38.65
  measured_ms: 1.528
  speedup: 25.29
  floor_fraction: 0.001556
---

A recurrent layer is a chain: step t multiplies the state of step t - 1 by weights that never
change. A launch for each step reads these weights from L2 again and costs a launch's latency. Here
all steps are one launch: a program owns `block_h` hidden units of a layer, keeps their rows of the
weights (all gates, input and state) in shared memory, and runs through all steps. After a step it
has written its part of the state and raises its layer's counter (release); before the next step it
waits until all parts have (acquire). All programs have to be resident at once, so the launch is
cooperative, and more layers than the GPU holds run in several launches.

Layers overlap: layer l works on step t as soon as layer l - 1 has finished it, so that L layers of
T steps take T + L - 1 steps and not T * L. The product with the input does not depend on the
layer's own state and is made before waiting for it. With both directions a layer needs the whole
sequence of the layer below, so one layer runs at a time, both directions at once.

The gates of one unit lie beside each other in the tile, and two splits take them apart. An LSTM's
cell and a GRU's state stay in float32; what is multiplied is rounded to the tensors' dtype.
Where programs cannot all be resident, each step is a launch of its own; where the weights of a few
units do not fit into shared memory, each step reads them from L2.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_h": [4, 8, 16, 32],
    "block_b": [16, 32, 64],
    "num_warps": [4, 8],
}

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
# Bytes of weights that one program shall keep, and may: shared memory is 227 KB on Hopper.
_RESIDENT, _MOST_RESIDENT = 128 * 1024, 192 * 1024


@triton.jit
def _tanh(x):
    # A difference of nearly equal numbers loses its digits: near zero the series' first terms.
    square = x * x
    small = x * (1.0 - square * (0.33333333 - square * (0.13333333 - square * 0.05396825)))
    return tl.where(tl.abs(x) < 0.1, small, 2.0 * tl.sigmoid(2.0 * x) - 1.0)


@triton.jit
def _wait(counter_ptr, target):
    """Wait until a counter has reached `target`. What others wrote before they raised it can be
    read afterwards."""
    count = tl.atomic_add(counter_ptr, 0, sem="acquire")
    while count < target:
        count = tl.atomic_add(counter_ptr, 0, sem="acquire")


@triton.jit
def _parted(x, BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr):
    """The four gates of [BLOCK_B, 4 * BLOCK_H] values, in which a unit's gates are neighbours."""
    even, odd = tl.split(tl.reshape(x, (BLOCK_B, BLOCK_H, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def _streamed(
    x_rows, in_b, w_rows, in_row, size,
    BLOCK_B: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of the batch times rows of weights that are not kept, [BLOCK_B, BLOCK_N]."""
    acc = tl.zeros((BLOCK_B, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, size, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < size
        x = tl.load(
            x_rows + k[None, :], mask=in_b & inside[None, :], other=0.0, cache_modifier=".cg"
        )
        w = tl.load(w_rows + k[:, None], mask=in_row & inside[:, None], other=0.0)
        acc = tl.dot(x, w, acc, input_precision="tf32x3")
    return acc


@triton.jit
def _recurrent_kernel(
    x_ptr, y_ptr, h0_ptr, hn_ptr, state_ptr, weights_ptr, counters_ptr,
    first_layer, first_step, last_step, parts, T, B, I, H,
    stride_xt, stride_xb, stride_yl, stride_yt, stride_yb,
    KIND: tl.constexpr, GATES: tl.constexpr, LANES: tl.constexpr, BIAS: tl.constexpr,
    DIRECTIONS: tl.constexpr, WAITS: tl.constexpr, KEPT: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_X: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Steps `first_step` to `last_step` of `parts` programs per layer, direction and block of the
    batch."""
    part = tl.program_id(0) % parts
    group = tl.program_id(0) // parts
    blocks = tl.cdiv(B, BLOCK_B)
    direction = group // blocks % DIRECTIONS
    layer = first_layer + group // (blocks * DIRECTIONS)
    own_ptr = counters_ptr + group * 32  # a line of its own each
    below_ptr = own_ptr - DIRECTIONS * blocks * 32

    b = (group % blocks * BLOCK_B + tl.arange(0, BLOCK_B))[:, None]
    n = tl.arange(0, LANES * BLOCK_H)
    row = n % LANES * H + part * BLOCK_H + n // LANES
    in_row = ((part * BLOCK_H + n // LANES < H) & (n % LANES < GATES))[None, :]
    i = tl.arange(0, BLOCK_X)
    k = tl.arange(0, BLOCK_S)
    unit = (part * BLOCK_H + tl.arange(0, BLOCK_H))[None, :]
    in_unit = (b < B) & (unit < H)

    # The weights, once.
    wide = I
    size = GATES * H * (I + H + 2 * BIAS)
    place = weights_ptr + direction.to(tl.int64) * size
    source_ptr = x_ptr
    stride_t = stride_xt
    stride_b = stride_xb
    if layer > 0:
        wide = DIRECTIONS * H
        deep = GATES * H * (wide + H + 2 * BIAS)
        before = ((layer - 1) * DIRECTIONS + direction).to(tl.int64)
        place = weights_ptr + DIRECTIONS * size + before * deep
        source_ptr = y_ptr + (layer - 1).to(tl.int64) * stride_yl
        stride_t = stride_yt
        stride_b = stride_yb
    x_rows = place + row[None, :] * wide
    place += GATES * H * wide
    h_rows = place + row[None, :] * H
    if KEPT:
        w_x = tl.load(x_rows + i[:, None], mask=in_row & (i < wide)[:, None], other=0.0)
        w_h = tl.load(h_rows + k[:, None], mask=in_row & (k < H)[:, None], other=0.0)
    bias_x = tl.zeros((1, LANES * BLOCK_H), dtype=tl.float32)
    bias_h = tl.zeros((1, LANES * BLOCK_H), dtype=tl.float32)
    if BIAS:
        place += GATES * H * H
        bias_x += tl.load(place + row[None, :], mask=in_row, other=0.0).to(tl.float32)
        bias_h += tl.load(place + GATES * H + row[None, :], mask=in_row, other=0.0).to(tl.float32)

    mine = (layer * DIRECTIONS + direction).to(tl.int64) * B * H
    own = mine + b * H + unit
    state = tl.load(state_ptr + own, mask=in_unit, other=0.0)
    out_ptr = y_ptr + layer.to(tl.int64) * stride_yl + direction * H
    for s in tl.range(first_step, last_step, num_stages=1):
        t = s
        back = 1
        if direction == 1:
            t = T - 1 - s
            back = -1
        if WAITS and DIRECTIONS == 1 and layer > first_layer:
            _wait(below_ptr, parts * (s + 1))
        x_ptrs = source_ptr + t.to(tl.int64) * stride_t + b * stride_b
        if KEPT:
            x = tl.load(
                x_ptrs + i[None, :],
                mask=(b < B) & (i < wide)[None, :], other=0.0, cache_modifier=".cg",
            )  # fmt: skip
            from_x = tl.dot(x, w_x, input_precision="tf32x3") + bias_x
        else:
            from_x = _streamed(
                x_ptrs, b < B, x_rows, in_row, wide, BLOCK_B, LANES * BLOCK_H, BLOCK_X
            ) + bias_x  # fmt: skip
        if WAITS and s > 0:
            _wait(own_ptr, parts * s)
        before_ptr = h0_ptr + mine
        stride_h = H
        if s > 0:
            before_ptr = out_ptr + (t - back).to(tl.int64) * stride_yt
            stride_h = stride_yb
        h_ptrs = before_ptr + b * stride_h
        if KEPT:
            h = tl.load(
                h_ptrs + k[None, :],
                mask=(b < B) & (k < H)[None, :], other=0.0, cache_modifier=".cg",
            )  # fmt: skip
            from_h = tl.dot(h, w_h, input_precision="tf32x3") + bias_h
        else:
            from_h = _streamed(
                h_ptrs, b < B, h_rows, in_row, H, BLOCK_B, LANES * BLOCK_H, BLOCK_S
            ) + bias_h  # fmt: skip
        if KIND == "lstm":
            gate_i, gate_f, gate_g, gate_o = _parted(from_x + from_h, BLOCK_B, BLOCK_H)
            state = tl.sigmoid(gate_f) * state + tl.sigmoid(gate_i) * _tanh(gate_g)
            new = tl.sigmoid(gate_o) * _tanh(state)
        elif KIND == "gru":
            reset_x, update_x, new_x, _x = _parted(from_x, BLOCK_B, BLOCK_H)
            reset_h, update_h, new_h, _h = _parted(from_h, BLOCK_B, BLOCK_H)
            update = tl.sigmoid(update_x + update_h)
            new = _tanh(new_x + tl.sigmoid(reset_x + reset_h) * new_h)
            state = new + update * (state - new)
            new = state
        elif KIND == "rnn_tanh":
            new = _tanh(from_x + from_h)
        else:
            new = tl.maximum(from_x + from_h, 0.0)
        rounded = new.to(y_ptr.dtype.element_ty)
        tl.store(out_ptr + t.to(tl.int64) * stride_yt + b * stride_yb + unit, rounded, mask=in_unit)
        if s == T - 1:
            tl.store(hn_ptr + own, rounded, mask=in_unit)
        if WAITS:
            # All threads have stored, then one of them tells the other programs.
            tl.debug_barrier()
            tl.atomic_add(own_ptr, 1, sem="release")
    tl.store(state_ptr + own, state, mask=in_unit)


def kernel_function(
    x: torch.Tensor,
    h0: torch.Tensor,
    weights: torch.Tensor,
    kind: str = "lstm",
    c0: torch.Tensor | None = None,
    bias: bool = True,
    bidirectional: bool = False,
    batch_first: bool = False,
    block_h: int = 16,
    block_b: int = 16,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return outputs [T, B, D * H] ([B, T, D * H] with `batch_first`), the last states and, for an
    LSTM, the last cells (else the states again), both [L * D, B, H].

    `x` is [T, B, I] or [B, T, I], `h0` and an LSTM's `c0` are [L * D, B, H]; D is 2 with
    `bidirectional`. `weights` has the parameters of all layers and directions one after the other
    as PyTorch orders them: input, state, and with `bias` the two biases of each.
    """
    if kind not in GATES:
        raise ValueError(f"kind is one of {', '.join(GATES)}, not '{kind}'")
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        wide = [None if each is None else each.float() for each in (x, h0, weights, c0)]
        given = (kind, wide[3], bias, bidirectional, batch_first, block_h, block_b)
        y, h_n, c_n = kernel_function(*wide[:3], *given)
        return y.to(x.dtype), h_n.to(x.dtype), c_n.to(x.dtype)
    gates, directions = GATES[kind], 1 + bidirectional
    lanes = 1 if gates == 1 else 4
    layers, (_, batch, hidden) = h0.shape[0] // directions, h0.shape
    x, h0, weights = x.contiguous(), h0.contiguous(), weights.contiguous()
    lead = (batch, x.shape[1]) if batch_first else (x.shape[0], batch)
    time = int(batch_first)  # which dimension the steps are
    steps = lead[time]
    y = torch.empty((layers, *lead, directions * hidden), dtype=x.dtype, device=x.device)
    h_n = torch.empty_like(h0)
    # A copy, since it is written.
    state = (h0 if c0 is None else c0).to(torch.float32, copy=True).contiguous()
    if batch and not steps:
        h_n.copy_(h0)
    block_x = triton.next_power_of_2(max(16, x.shape[2], directions * hidden * (layers > 1)))
    block_s = triton.next_power_of_2(max(16, hidden))
    # Tensor cores take 16 columns and more.
    least = 16 // lanes
    wanted = max(least, min(block_h, triton.next_power_of_2(hidden)))
    held = lanes * (block_x + block_s) * x.element_size()
    block_h = wanted
    while block_h > least and block_h * held > _RESIDENT:
        block_h //= 2
    kept = block_h * held <= _MOST_RESIDENT
    if not kept:
        block_h, block_x, block_s = wanted, 64, 64
    parts = triton.cdiv(hidden, block_h)
    block_b = min(block_b, max(16, triton.next_power_of_2(batch)))
    programs = parts * directions * triton.cdiv(batch, block_b)
    at_once = 0
    if x.is_cuda:
        at_once = torch.cuda.get_device_properties(x.device).multi_processor_count // programs
    strides = (x.stride(time), x.stride(1 - time))
    strides += (y.stride(0), y.stride(1 + time), y.stride(2 - time))
    together = max(1, 1 if bidirectional else min(at_once, layers))
    # Resident all at once, one launch for all steps; else one for each.
    each = {"launch_cooperative_grid": True} if at_once else {}
    spans = [(0, steps)] if at_once else [(step, step + 1) for step in range(steps)]
    for layer in range(0, layers if batch else 0, together):
        count = min(together, layers - layer)
        counters = torch.zeros(
            32 * count * directions * triton.cdiv(batch, block_b),
            dtype=torch.int32,
            device=x.device,
        )
        for first, last in spans:
            _recurrent_kernel[(count * programs,)](
                x, y, h0, h_n, state, weights, counters,
                layer, first, last, parts, steps, batch, x.shape[2], hidden, *strides,
                KIND=kind, GATES=gates, LANES=lanes, BIAS=bias, DIRECTIONS=directions,
                WAITS=at_once > 0, KEPT=kept, BLOCK_B=block_b, BLOCK_H=block_h,
                BLOCK_X=block_x, BLOCK_S=block_s, num_warps=num_warps, **each,
            )  # fmt: skip
    return y[-1], h_n, state.to(x.dtype) if kind == "lstm" else h_n


def _parameters(weights: torch.Tensor, wide: int, hidden: int, groups: int, gates: int) -> list:
    """The flat weights, with biases and one direction, as PyTorch's operators take them."""
    found, place = [], 0
    for group in range(groups):
        for shape in ((gates * hidden, hidden if group else wide), (gates * hidden, hidden),
                      (gates * hidden,), (gates * hidden,)):  # fmt: skip
            size = shape[0] * (shape[1] if len(shape) == 2 else 1)
            found.append(weights[place : place + size].view(shape))
            place += size
    return found


def reference(
    x: torch.Tensor,
    h0: torch.Tensor,
    weights: torch.Tensor,
    kind: str = "lstm",
    c0: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    layers, _, hidden = h0.shape
    given = _parameters(weights, x.shape[2], hidden, layers, GATES[kind])
    rest = (True, layers, 0.0, False, False, False)
    form = {"lstm": torch.lstm, "gru": torch.gru, "rnn_tanh": torch.rnn_tanh}[kind]
    # As in nn.LSTM, which torch.compile leaves to the library: it would unroll all steps.
    form = torch.compiler.disable(form)
    if kind == "lstm":
        return form(x, (h0, c0), given, *rest)
    y, h_n = form(x, h0, given, *rest)
    return y, h_n, h_n


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [steps, batch, inputs, hidden units, layers, gates]; 4 gates are an LSTM, 3 a GRU,
    1 a layer with tanh."""
    steps, batch, wide, hidden, layers, gates = size
    generator = torch.Generator(device=device).manual_seed(seed)
    kind = next(name for name, count in GATES.items() if count == gates)
    count = gates * hidden * (wide + hidden + 2 + (layers - 1) * (2 * hidden + 2))
    bound = hidden**-0.5
    x = torch.randn((steps, batch, wide), dtype=dtype, device=device, generator=generator)
    h0 = torch.randn((layers, batch, hidden), dtype=dtype, device=device, generator=generator)
    weights = torch.rand(count, dtype=dtype, device=device, generator=generator)
    weights = weights * (2 * bound) - bound
    c0 = torch.randn((layers, batch, hidden), dtype=dtype, device=device, generator=generator)
    return [x, h0, weights, kind, c0 if gates == 4 else None]
