"""
---
slug: depthwise-conv-strips
title: Depthwise convolution of strips of rows, from wide vectors taken apart in registers
op: depthwise-conv
language: triton
techniques: [register-caching, vectorized-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: depthwise-conv-plain
sizes:
  check:
    - [2, 3, 3, 9, 21, 3, 3, 1, 1, 1, 1]
    - [1, 2, 4, 11, 13, 3, 5, 2, 0, 1, 0]
    - [1, 3, 3, 7, 40, 3, 2, 1, 3, 3, 1]
    - [2, 2, 2, 1, 19, 1, 3, 1, 0, 1, 1]
  bench: [16, 64, 64, 512, 512, 3, 3, 1, 0, 1, 0]
check_params: {strip: 2, num_warps: 1}
sources:
  - title: "Howard et al.: MobileNets"
    url: https://arxiv.org/abs/1704.04861
    licence: proprietary
  - title: "PyTorch: torch.nn.Conv2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.split"
    url: https://triton-lang.org/main/python-api/generated/triton.language.split.html
    licence: MIT
  - title: "NVIDIA technical blog: Increase Performance with Vectorized Memory Access"
    url: https://developer.nvidia.com/blog/cuda-pro-tip-increase-performance-with-vectorized-memory-access/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: depthwise-conv-plain
  baseline_ms: 3.187
  measured_ms: 0.267
  speedup: 11.94
  floor_fraction: 0.942
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.524
  measured_ms: 0.267
  speedup: 9.453
  floor_fraction: 0.942
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.16
  measured_ms: 0.267
  speedup: 4.345
  floor_fraction: 0.942
---

One small filter a channel: each element of the image takes part in a few products and no matrix
unit helps, so the time is that of reading the image and writing the result once. Two things stand
in the way. Taps one column apart are not aligned, so a load for each tap moves one element a
thread; and each row of the image is needed for as many rows of outputs as the filter has rows.

Here a thread makes 16 bytes of neighbouring outputs in each of `strip` rows. It loads the aligned
vectors of the image that its taps fall into (one and what reaches over its edges, which L1 holds
for its neighbour), for all rows of the strip at once, so that many loads are under way.
`tl.split` takes the vectors apart into single columns. A column is a register then: taps are chosen
when the kernel is compiled, and the products cost nothing but themselves. `tl.join` puts the
outputs together again. A strip of R rows reads R + K - 1 rows (at stride 1), each once.

Rows that are no multiple of 16 bytes have narrower vectors: the largest power of two that divides
them. With a stride, a thread makes fewer outputs of a vector; one that does not divide it, and rows
of odd length, leave one column a thread, loaded once for each column of the filter.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {
    "strip": [2, 4, 8, 16],
    "num_warps": [1, 2, 4, 8],
}

# Registers of a thread that may hold the vectors of all rows of its strip: half of what there are.
MAX_HELD = 128
# And the whole filter.
MAX_TAPS = 64


@triton.constexpr_function
def _place(row, column, first, vectors, vec):
    """Where a row's column is: vector by vector, bits of the index within one reversed."""
    vector = column // vec - first
    place, index, count = 0, column % vec, vec
    while count > 1:
        place = 2 * place + index % 2
        index, count = index // 2, count // 2
    return (row * vectors + vector) * vec + place


@triton.jit
def _columns(vector, ROWS: tl.constexpr, N: tl.constexpr, LEVELS: tl.constexpr):
    """The columns of [ROWS, N, 2 ** LEVELS] in float32, each [ROWS, N], as `_place` has them."""
    parts = (vector.to(tl.float32),)
    for level in tl.static_range(LEVELS):
        halves = ()
        for i in tl.static_range(2**level):
            pairs = tl.reshape(parts[i], (ROWS, N, 2 ** (LEVELS - 1 - level), 2))
            even, odd = tl.split(pairs)
            halves += (even, odd)
        parts = halves
    columns = ()
    for i in tl.static_range(2**LEVELS):
        columns += (tl.reshape(parts[i], (ROWS, N)),)
    return columns


@triton.jit
def _vector(columns, ROWS: tl.constexpr, N: tl.constexpr, LEVELS: tl.constexpr):
    """Columns in their natural order, each [ROWS, N], as [ROWS, N, 2 ** LEVELS]."""
    parts = columns
    for level in tl.static_range(LEVELS):
        wholes = ()
        for i in tl.static_range(2 ** (LEVELS - 1 - level)):
            pair = tl.join(parts[i], parts[i + 2 ** (LEVELS - 1 - level)])
            wholes += (tl.reshape(pair, (ROWS, N, 2 ** (level + 1))),)
        parts = wholes
    return tl.reshape(parts[0], (ROWS, N, 2**LEVELS))


@triton.jit
def _depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    strips_in_all, strips, C_OUT, MULTIPLIER, H, W, OH, OW,
    stride_xn, stride_xc, stride_xh, stride_xw,
    KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr,
    HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, IN_ALIGN: tl.constexpr, OUT_ALIGN: tl.constexpr,
    STRIP: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr,
    IN_LEVELS: tl.constexpr, OUT_LEVELS: tl.constexpr, FIRST: tl.constexpr, VECTORS: tl.constexpr,
):  # fmt: skip
    VEC: tl.constexpr = 2**IN_LEVELS  # columns of the image that a thread loads at once
    OUTS: tl.constexpr = 2**OUT_LEVELS  # and columns that it makes
    # What row lengths are multiples of, said so that the compiler sees it.
    stride_xn = stride_xn // IN_ALIGN * IN_ALIGN
    stride_xc = stride_xc // IN_ALIGN * IN_ALIGN
    stride_xh = stride_xh // IN_ALIGN * IN_ALIGN
    in_width = W // IN_ALIGN * IN_ALIGN
    out_width = OW // OUT_ALIGN * OUT_ALIGN

    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    blocks = tl.cdiv(strips_in_all, ROWS)
    rows = (pid % blocks) * ROWS + tl.arange(0, ROWS)
    first = (pid // blocks) * N
    row_ok = rows < strips_in_all
    rows = tl.minimum(rows, strips_in_all - 1)
    image = rows // strips
    channel = image % C_OUT
    first_oh = (rows % strips) * STRIP
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    x_images = x_ptr + (image // C_OUT).to(tl.int64) * stride_xn
    x_images += (channel // MULTIPLIER).to(tl.int64) * stride_xc
    group = first + tl.arange(0, N)[None, :, None]
    in_first = group * (OUTS * SW) + tl.arange(0, VEC)[None, None, :]
    out_col = group * OUTS + tl.arange(0, OUTS)[None, None, :]

    weights = ()
    for tap in tl.static_range(KH * KW):
        weights += (tl.load(weight_ptr + channel * (KH * KW) + tap).to(tl.float32)[:, None],)

    columns = ()
    for i in tl.static_range((STRIP - 1) * SH + (KH - 1) * DH + 1):
        h = first_oh * SH - PH + i
        h_ok = ((h >= 0) & (h < H))[:, None, None]
        x_rows = (x_images + h.to(tl.int64) * stride_xh)[:, None, None]
        for v in tl.static_range(VECTORS):
            col = in_first + (FIRST + v) * VEC
            ok = h_ok & (col >= 0) & (col < in_width)
            x = tl.load(x_rows + col * stride_xw, mask=ok, other=0.0)
            columns += _columns(x, ROWS, N, IN_LEVELS)

    if HAS_BIAS:
        start = tl.load(bias_ptr + channel).to(tl.float32)[:, None]
        start = tl.broadcast_to(start, (ROWS, N))
    else:
        start = tl.zeros((ROWS, N), tl.float32)
    for r in tl.static_range(STRIP):
        sums = ()
        for j in tl.static_range(OUTS):
            total = start
            for kh in tl.static_range(KH):
                for kw in tl.static_range(KW):
                    total += (
                        weights[kh * KW + kw]
                        * columns[
                            _place(r * SH + kh * DH, j * SW + kw * DW - PW, FIRST, VECTORS, VEC)
                        ]
                    )
            sums += (total,)
        y = _vector(sums, ROWS, N, OUT_LEVELS).to(out_ptr.dtype.element_ty)
        oh = first_oh + r
        out_rows = out_ptr + (image.to(tl.int64) * OH + oh) * out_width
        out_ok = (row_ok & (oh < OH))[:, None, None] & (out_col < out_width)
        tl.store(out_rows[:, None, None] + out_col, y, mask=out_ok)


def _pair(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, int]:
    """For rows and for columns; the rows' is the least effect where there are none."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(name != "padding") if rank == 1 else given[0], given[-1])


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    strip: int = 16,
    num_warps: int = 2,
) -> torch.Tensor:
    """Return the convolution of `x` with `weight`, each output channel with one input channel.

    `x` [N, C, H, W], `weight` [C * m, 1, KH, KW], `bias` [C * m], or the same without H and KH, as
    for `torch.nn.functional.conv2d` with `groups` C. `x` has any strides; the result is contiguous.
    `strip` is lowered where the window is tall.
    """
    rank = x.ndim - 2
    if rank not in (1, 2) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot filter {x.dtype} {list(x.shape)} by {list(weight.shape)}")
    n, c = x.shape[:2]
    c_out, per_group, *window = weight.shape
    if per_group != 1 or c == 0 or c_out % c != 0:
        raise ValueError(f"weight {list(weight.shape)} is not one filter for each of {c} channels")
    if bias is not None and tuple(bias.shape) != (c_out,):
        raise ValueError(f"bias {list(bias.shape)} does not fit {c_out} channels")
    (sh, sw), (dh, dw) = _pair(stride, rank, "stride", 1), _pair(dilation, rank, "dilation", 1)
    ph, pw = _pair(padding, rank, "padding", 0)
    kh, kw = (1, *window)[-2:]
    h, w = (1, *x.shape[2:])[-2:]
    oh = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if oh < 1 or ow < 1:
        raise ValueError(f"a window of {window} is too large for images of {list(x.shape[2:])}")
    out = torch.empty((n, c_out, *(oh, ow)[2 - rank :]), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    # Vectors as wide as rows are aligned; with a stride, a thread makes fewer outputs of as many.
    stride_h = x.stride(2) if rank == 2 else 0
    vec = math.gcd(16 // x.element_size(), x.stride(0), x.stride(1), stride_h, w)
    if x.stride(-1) != 1 or vec % sw != 0:
        vec = 1
    outs = max(1, vec // sw)
    cols = {j * sw - pw + tap * dw for j in range(outs) for tap in range(kw)}
    first = min(cols) // vec
    vectors = max(cols) // vec - first + 1
    held = len({col // vec for col in cols}) * max(1, vec * x.element_size() // 4)
    strip = min(strip, triton.next_power_of_2(oh))
    while strip > 1 and strip * min(sh, kh) * held > MAX_HELD:
        strip //= 2
    if kh * kw > MAX_TAPS:
        raise ValueError(f"a window of {window} is too large for registers: depthwise-conv-plain")
    # A group of outputs for each thread: those of a row, and rows for the threads that are left.
    threads = 32 * num_warps
    groups = min(triton.next_power_of_2(triton.cdiv(ow, outs)), threads)
    rows = threads // groups
    strips = triton.cdiv(oh, strip)
    in_all = n * c_out * strips
    grid = (triton.cdiv(in_all, rows) * triton.cdiv(ow, groups * outs),)
    weight = weight.contiguous()
    _depthwise_kernel[grid](
        x, weight, weight if bias is None else bias.contiguous(), out,
        in_all, strips, c_out, c_out // c, h, w, oh, ow,
        x.stride(0), x.stride(1), stride_h, x.stride(-1),
        kh, kw, sh, sw, ph, pw, dh, dw,
        HAS_BIAS=bias is not None, WIDE=in_all + rows >= 2**31,
        IN_ALIGN=vec, OUT_ALIGN=math.gcd(16, ow),
        STRIP=strip, ROWS=rows, N=groups,
        IN_LEVELS=vec.bit_length() - 1, OUT_LEVELS=outs.bit_length() - 1,
        FIRST=first, VECTORS=vectors,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> torch.Tensor:
    name = f"conv{x.ndim - 2}d"
    convolve = getattr(torch.nn.functional, name)
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, dilation, groups=x.shape[1])
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, C_out, H, W, KH, KW, stride, padding, dilation, whether there is a bias]."""
    n, c, c_out, h, w, kh, kw, stride, padding, dilation, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, h, w), (c_out, 1, kh, kw), (c_out,))
    )
    return [x, weight, bias if has_bias else None, stride, padding, dilation]
