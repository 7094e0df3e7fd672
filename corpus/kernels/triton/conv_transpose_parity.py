"""
---
slug: conv-transpose-parity
title: Transposed convolution by output parity, each class a small dense convolution or a plain fill
op: conv-transpose
language: triton
techniques: [structural-sparsity, implicit-gemm, tensor-cores, software-pipelining]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: conv-transpose-plain
sizes:
  check:
    - [1, 3, 5, 4, 3, 5, 3, 2, 1, 2, 0, 1]
    - [2, 4, 6, 1, 4, 3, 3, 2, 1, 1, 1, 0]
    - [1, 2, 3, 5, 7, 2, 3, 0, 1, 0, 1]
    - [1, 3, 2, 19, 4, 1, 2, 3, 0, 0]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
check_params: {block_m: 128, block_n: 16, block_k: 16}
sources:
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: proprietary
  - title: "PyTorch: torch.nn.ConvTranspose3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    licence: BSD-3-Clause
  - title: "Chetlur et al.: cuDNN: Efficient Primitives for Deep Learning"
    url: https://arxiv.org/abs/1410.0759
    licence: proprietary
---

A transposed convolution of stride S spreads the image S apart, so an output position o gets
something from tap k only where o + P - k D is a multiple of S. That splits the outputs of each
dimension into S classes by o mod S, and each class sees its own taps: those with k D = o + P
(mod S), every S / gcd(S, D)-th one. Where S and D have a common divisor some classes see none: with
stride 2 and dilation 2 in three dimensions seven of eight outputs are the bias, whatever the image.
A kernel that multiplies by the zeros in between does 8 times the work here.

For each class the rest is a dense convolution without gaps: an implicit GEMM of
[positions, channels] by [channels, output channels], summed over the class's taps on tensor cores.
A program takes a block of positions of one class along depth and height and all classes along the
width, which it interleaves before it stores, so that rows are written whole. A class without taps
has a loop of no steps and only writes; its programs stand between those that multiply, so that both
overlap.

With `fill` PyTorch writes the bias everywhere first and these programs end at once; the rows of
the others are then written twice. With `pack` the image is brought into channels-last order first:
little against the output here, and then a position's channels are one vector, which is copied to
shared memory ahead of its use. The filters are always rearranged to [tap, channels, outputs].
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [16, 32, 64, 128],
    "block_k": [16, 32, 64],
    "pack": [True, False],
    "fill": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# What tl.dot takes at least.
MIN_DOT = 16


@triton.constexpr_function
def _taps_of(residue, taps, stride, dilation, padding):
    """First tap that reaches outputs with this residue, and how many do."""
    hit = [k for k in range(taps) if (residue + padding - k * dilation) % stride == 0]
    return (hit[0] if hit else 0), len(hit)


@triton.jit
def _class_taps(
    residue, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr,
    PADDING: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """`_taps_of` where the residue is known at run time."""
    first = residue * 0 + TAPS
    for back in tl.static_range(1, STEP + 1):
        hits = (residue + PADDING + (back - STEP) * DILATION) % STRIDE == 0
        first = tl.where(hits, STEP - back, first)
    return first, tl.maximum((TAPS - first + STEP - 1) // STEP, 0)


@triton.jit
def _interleaved(parts, LEVELS: tl.constexpr):
    """2 ** LEVELS tensors [N, M] as one [N, M * 2 ** LEVELS], those of one place side by side."""
    for level in tl.static_range(LEVELS):
        halves = ()
        for i in tl.static_range(2 ** (LEVELS - 1 - level)):
            halves += (tl.join(parts[i], parts[i + 2 ** (LEVELS - 1 - level)]),)
        wholes = ()
        for i in tl.static_range(2 ** (LEVELS - 1 - level)):
            wholes += (tl.reshape(halves[i], (parts[0].shape[0], 2 * parts[0].shape[1])),)
        parts = wholes
    return parts[0]


@triton.jit
def _conv_transpose_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    BATCH, C_PER, OUT_PER, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    STEP_D: tl.constexpr, STEP_H: tl.constexpr, STEP_W: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, WHOLE_N: tl.constexpr, WIDE: tl.constexpr,
    FILLED: tl.constexpr, LEVELS: tl.constexpr, ALIGN: tl.constexpr, OUT_ALIGN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # Classes side by side: those that only write among those that multiply.
    class_d = pid % (SD * SH) // SH
    class_h = pid % SH
    pid = pid // (SD * SH)
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    group = pid % (GROUPS * blocks_n) // blocks_n
    cols = pid % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # Known to be true, where it is: no mask for the columns then.
    col_ok = (cols >= 0) if WHOLE_N else (cols < OUT_PER)
    tile = pid // (GROUPS * blocks_n)
    if WIDE:
        tile = tile.to(tl.int64)
    # Positions of this class; along the width those of all classes, a row of them a multiple of
    # ALIGN outputs long, which is said so that the compiler sees it.
    count_d = (OD - class_d + SD - 1) // SD
    count_h = (OH - class_h + SH - 1) // SH
    width = tl.cdiv(tl.cdiv(OW, SW) * SW, ALIGN) * ALIGN
    count_w = width // SW
    rows = count_d * count_h * BATCH
    if tile * BLOCK_M >= rows * count_w:
        return
    first_d, taps_d = _class_taps(class_d, KD, SD, DD, PD, STEP_D)
    first_h, taps_h = _class_taps(class_h, KH, SH, DH, PH, STEP_H)
    if FILLED and taps_d * taps_h == 0:
        return

    channel = group * OUT_PER + cols
    if HAS_BIAS:
        bias = tl.load(bias_ptr + channel, mask=col_ok, other=0.0).to(tl.float32)
    else:
        bias = tl.zeros((BLOCK_N,), tl.float32)

    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    q_w = (m % count_w).to(tl.int32)
    q_row = m // count_w
    q_h = (q_row % count_h).to(tl.int32)
    q_d = (q_row // count_h % count_d).to(tl.int32)
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    image = (q_row // (count_h * count_d)).to(tl.int64)
    x_rows = x_ptr + image * stride_xn + tl.cast(group, tl.int64) * C_PER * stride_xc
    x_rows += q_d.to(tl.int64) * stride_xd + q_h.to(tl.int64) * stride_xh
    x_rows += q_w.to(tl.int64) * stride_xw
    row_ok = q_row < rows
    depth = tl.arange(0, BLOCK_K)
    blocks_k = tl.cdiv(C_PER, BLOCK_K)

    results = ()
    for class_w in tl.static_range(SW):
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if _taps_of(class_w, KW, SW, DW, PW)[1] > 0:
            steps = taps_d * taps_h * _taps_of(class_w, KW, SW, DW, PW)[1] * blocks_k
            for step in tl.range(0, steps, num_stages=NUM_STAGES):
                c = step % blocks_k * BLOCK_K + depth
                rest = step // blocks_k
                nth_w = rest % _taps_of(class_w, KW, SW, DW, PW)[1]
                rest = rest // _taps_of(class_w, KW, SW, DW, PW)[1]
                k_w = _taps_of(class_w, KW, SW, DW, PW)[0] + nth_w * STEP_W
                k_h = first_h + rest % taps_h * STEP_H
                k_d = first_d + rest // taps_h * STEP_D
                # The divisions leave nothing over: that is what makes the class.
                to_d = (class_d + PD - k_d * DD) // SD
                to_h = (class_h + PH - k_h * DH) // SH
                to_w = (class_w + PW - k_w * DW) // SW
                ok = row_ok & (q_d >= -to_d) & (q_d < D - to_d) & (q_h >= -to_h) & (q_h < H - to_h)
                ok = ok & (q_w >= -to_w) & (q_w < W - to_w)
                to = tl.cast(to_d, tl.int64) * stride_xd + tl.cast(to_h, tl.int64) * stride_xh
                to += tl.cast(to_w, tl.int64) * stride_xw
                c_ok = c < C_PER
                # Through L1, which wide copies pass by else: the next taps read the same.
                a = tl.load(
                    (x_rows + to)[:, None] + c.to(tl.int64)[None, :] * stride_xc,
                    mask=ok[:, None] & c_ok[None, :], other=0.0, cache_modifier=".ca",
                )  # fmt: skip
                tap = (k_d * KH + k_h) * KW + k_w
                filters = ((tap * GROUPS + group) * C_PER + c)[:, None] * OUT_PER + cols[None, :]
                b = tl.load(weight_ptr + filters, mask=c_ok[:, None] & col_ok[None, :], other=0.0)
                # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
                acc = tl.dot(a, b, acc, input_precision="tf32x3")
        # Rounded before they change places: half the registers for 16 bits.
        results += (tl.trans((acc + bias[None, :]).to(out_ptr.dtype.element_ty)),)

    out_width = OW // OUT_ALIGN * OUT_ALIGN
    plane = tl.cast(OD, tl.int64 if WIDE else tl.int32) * OH * out_width
    at_channel = channel.to(plane.dtype)[:, None] * plane
    if 2**LEVELS == SW:
        # In the order of memory: the width last, and all classes of it.
        OUTS: tl.constexpr = BLOCK_M * 2**LEVELS
        e = tile * OUTS + tl.arange(0, OUTS)
        ow = e % width
        e_row = e // width
        oh = e_row % count_h * SH + class_h
        od = e_row // count_h % count_d * SD + class_d
        o_image = (e_row // (count_h * count_d)).to(plane.dtype)
        at = ((o_image * (GROUPS * OUT_PER) * OD + od) * OH + oh) * out_width + ow
        tl.store(
            out_ptr + at[None, :] + at_channel, _interleaved(results, LEVELS),
            mask=col_ok[:, None] & ((e_row < rows) & (ow < out_width))[None, :],
        )  # fmt: skip
    else:
        row = image.to(plane.dtype) * (GROUPS * OUT_PER) * OD + (q_d * SD + class_d)
        row = (row * OH + (q_h * SH + class_h)) * out_width
        for class_w in tl.static_range(SW):
            ow = q_w * SW + class_w
            tl.store(
                out_ptr + (row + ow)[None, :] + at_channel, results[class_w],
                mask=col_ok[:, None] & (row_ok & (ow < out_width))[None, :],
            )  # fmt: skip


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    block_m: int = 128,
    block_n: int = 64,
    block_k: int = 32,
    pack: bool = True,
    fill: bool = False,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    `x` has any strides; the result is contiguous. `block_k` is cut to 128 bytes.
    """
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    n, c = x.shape[:2]
    if groups < 1 or weight.shape[0] != c or c % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {c} channels, {groups} groups")
    per, out_per = c // groups, weight.shape[1]
    if bias is not None and tuple(bias.shape) != (groups * out_per,):
        raise ValueError(f"bias {list(bias.shape)} does not fit {groups * out_per} channels")
    s, d = _each(stride, rank, "stride", 1), _each(dilation, rank, "dilation", 1)
    p, more = _each(padding, rank, "padding", 0), _each(output_padding, rank, "output_padding", 0)
    if any(each >= max(sl, dl) for each, sl, dl in zip(more, s, d, strict=True)):
        raise ValueError(f"output_padding {output_padding} has to be less than stride or dilation")
    k = (1,) * (3 - rank) + tuple(weight.shape[2:])
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    o = [
        (size - 1) * sl - 2 * pl + dl * (kl - 1) + ml + 1
        for size, kl, sl, pl, dl, ml in zip(image, k, s, p, d, more, strict=True)
    ]
    if min(o) < 1:
        raise ValueError(f"padding {padding} leaves nothing of images of {list(x.shape[2:])}")
    shape = (n, groups * out_per, *o[3 - rank :])
    if not fill:
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
    elif bias is None:
        out = torch.zeros(shape, dtype=x.dtype, device=x.device)
    else:
        out = bias.view(-1, *(1,) * rank).expand(shape).contiguous()
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    if pack:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    taps = math.prod(k)
    weight = weight.reshape(groups, per, out_per, taps).permute(3, 0, 1, 2).contiguous()
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    block_n = min(block_n, max(MIN_DOT, triton.next_power_of_2(out_per)))
    block_k = min(block_k, 128 // x.element_size(), max(MIN_DOT, triton.next_power_of_2(per)))
    # Classes along the width that lie side by side in a register, as powers of two can.
    levels = s[2].bit_length() - 1
    align = max(2, s[2]) if 2**levels == s[2] else s[2]
    row = -(-o[2] // align) * align
    align *= math.gcd(row // align, 16 // min(16, align))
    rows = n * math.prod(-(-size // sl) for size, sl in zip(o[:2], s[:2], strict=True))
    positions = rows * row // s[2]
    classes = s[0] * s[1]
    grid = (triton.cdiv(positions, block_m) * groups * triton.cdiv(out_per, block_n) * classes,)
    _conv_transpose_kernel[grid](
        x, weight, weight if bias is None else bias.contiguous(), out,
        n, per, out_per, *image, *o,
        *strides,
        *k, *s, *p, *d,
        *(sl // math.gcd(sl, dl) for sl, dl in zip(s, d, strict=True)),
        GROUPS=groups, HAS_BIAS=bias is not None, WHOLE_N=out_per % block_n == 0,
        WIDE=max(out.numel(), (positions + block_m) * s[2]) >= 2**31, FILLED=fill,
        LEVELS=levels, ALIGN=align, OUT_ALIGN=math.gcd(o[2], 16),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, NUM_STAGES=num_stages,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv_transpose{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation,
    output_padding, whether there is a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, output_padding, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c, c_out, *(window,) * len(lengths)), (c_out,))
    )
    given = bias if has_bias else None
    return [x, weight, given, stride, padding, output_padding, 1, dilation]
