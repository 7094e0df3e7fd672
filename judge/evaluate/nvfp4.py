"""The NVFP4 quantizer in exact arithmetic, and the rule by which its outputs are compared.

Blocks of 16 along the row. With the per-tensor float32 global scale g:
scale = E4M3(g·amax/6), rounded to nearest even and saturating at 448;
code = E2M1(v·g/scale), rounded to nearest even and saturating at ±6; a zero scale gives zero codes.
The even element of a row is in the low half of a byte. This is what production libraries and the
hardware's conversions do (the E2M1 and E4M3 formats of the OCP Microscaling specification).

Nothing is divided: a quotient lies above a midpoint where its numerator lies above midpoint times
denominator, and those products are exact in float64 (a float32 times a float32 has 48 bits).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from judge.evaluate.result import Counterexample
from judge.problem.judge import JudgeDeclaration
from judge.worker.buffers import dtype_name

BLOCK = 16
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""E2M1 without sign, by code."""
LARGEST_CODE, LARGEST_SCALE = 6.0, 448.0
LARGEST_SCALE_BYTE = 0x7E
# Relative distance to a midpoint within which another order of float32 arithmetic may round the
# other way: some hundred units of float32.
MARGIN = 1e-5
# Values in one pass: 32 MB in float64.
_CHUNK = 2**22
_EXAMPLES = 5


@dataclass(slots=True)
class Nvfp4Difference:
    """What the comparison of codes and scales found."""

    problem: str | None = None
    """None where both are right."""
    wrong_scales: int = 0
    """Scale bytes that differ and may not."""
    stepped_scales: int = 0
    """Scale bytes that differ by one step where that is allowed."""
    wrong_codes: int = 0
    """Codes that differ and may not."""
    stepped_codes: int = 0
    """Codes that differ by one where that is allowed."""
    examples: list[Counterexample] = field(default_factory=list)
    """The first few wrong bytes: output 0 for codes, 1 for scales; in linear order."""


def scale_values(device: Any = None) -> Any:
    """The 127 finite non-negative E4M3 numbers by byte, float64."""
    codes = torch.arange(LARGEST_SCALE_BYTE + 1, dtype=torch.uint8, device=device)
    return codes.view(torch.float8_e4m3fn).double()


def quantize(values: Any, global_scale: float = 1.0) -> tuple[Any, Any]:
    """Quantize rows.

    Parameters
    ----------
    values:
        Floating-point tensor [rows, n], n a multiple of 16; no NaN.
    global_scale:
        g, a positive float32 number.

    Returns
    -------
    Codes uint8 [rows, n / 2] and scale bytes uint8 [rows, n / 16] (linear).
    """
    rows, length = values.shape
    codes = torch.empty((rows, length // 2), dtype=torch.uint8, device=values.device)
    scales = torch.empty((rows, length // BLOCK), dtype=torch.uint8, device=values.device)
    for start, stop in _pieces(rows, length):
        scaled = _scaled(values[start:stop], global_scale)
        block_scales, _ = _nearest(scaled.abs().amax(-1), _scale_midpoints(values.device))
        scales[start:stop] = block_scales
        steps = scale_values(values.device)[block_scales.long()].unsqueeze(-1)
        codes[start:stop] = _pack(_codes(scaled, steps)[0])
    return codes, scales


def compare_nvfp4(
    codes: Any, scales: Any, values: Any, rule: JudgeDeclaration, global_scale: float = 1.0
) -> Nvfp4Difference:
    """Hold codes and scales against the values that they quantize.

    Parameters
    ----------
    codes:
        uint8 (or any 1-byte dtype) with rows·n/2 elements, row-major.
    scales:
        1-byte dtype: rows·n/16 elements, or in the swizzled layout as many as `swizzled_size`.
    values:
        Float64 or float32 [rows, n]: the input itself, or the oracle's value before quantization.
    rule:
        Its `layout` and `fused`. Where the values are themselves computed (fused), a scale or a
        code may be one step off if it lies within `MARGIN` of a midpoint.
    global_scale:
        g, a positive float32 number.
    """
    rows, length = values.shape
    blocks = length // BLOCK
    scale_bytes = swizzled_size(rows, blocks) if rule.layout == "swizzled" else rows * blocks
    if codes.element_size() != 1 or codes.numel() * 2 != rows * length:
        return Nvfp4Difference(f"codes must be {rows * length // 2} bytes, not {_bytes(codes)}")
    if scales.element_size() != 1 or scales.numel() != scale_bytes:
        return Nvfp4Difference(f"scales must be {scale_bytes} bytes, not {_bytes(scales)}")
    codes = codes.reshape(-1).view(torch.uint8).reshape(rows, length // 2)
    scales = scales.reshape(-1).view(torch.uint8)
    scales = (
        unswizzle(scales, rows, blocks)
        if rule.layout == "swizzled"
        else scales.reshape(rows, blocks)
    )
    difference = Nvfp4Difference()
    for start, stop in _pieces(rows, length):
        piece = _scaled(values[start:stop], global_scale)
        _add(difference, start, codes[start:stop], scales[start:stop], piece, fused=rule.fused)
    problems = []
    if difference.wrong_scales:
        problems.append(f"{difference.wrong_scales} of {rows * blocks} scales are wrong")
    if difference.wrong_codes:
        problems.append(f"{difference.wrong_codes} of {rows * length} codes are wrong")
    difference.problem = "; ".join(problems) or None
    return difference


def swizzled_size(rows: int, blocks: int) -> int:
    """Bytes of the scales of `rows` rows of `blocks` blocks in the 128×4 layout, with padding."""
    return math.ceil(rows / 128) * 128 * math.ceil(blocks / 4) * 4


def unswizzle(scales: Any, rows: int, blocks: int) -> Any:
    """Scales of the 128×4 layout as a row-major [rows, blocks]; padding is dropped.

    The scale of row r, block k is in tile (r div 128, k div 4) of 512 bytes, tiles row-major,
    at byte (r mod 32)·16 + ((r mod 128) div 32)·4 + k mod 4 (cuBLAS documentation, "1D block
    scaling factors layout").
    """
    tall, wide = math.ceil(rows / 128), math.ceil(blocks / 4)
    tiles = scales.reshape(tall, wide, 32, 4, 4)
    linear = tiles.permute(0, 3, 2, 1, 4).reshape(tall * 128, wide * 4)
    return linear[:rows, :blocks].contiguous()


def swizzle(scales: Any) -> Any:
    """The inverse of `unswizzle`, flat, padded with zeros; `scales` is uint8 [rows, blocks]."""
    rows, blocks = scales.shape
    tall, wide = math.ceil(rows / 128), math.ceil(blocks / 4)
    padded = torch.zeros((tall * 128, wide * 4), dtype=scales.dtype, device=scales.device)
    padded[:rows, :blocks] = scales
    return padded.reshape(tall, 4, 32, wide, 4).permute(0, 3, 2, 1, 4).reshape(-1)


def _add(
    difference: Nvfp4Difference, start: int, codes: Any, scales: Any, scaled: Any, *, fused: bool
) -> None:
    """Compare the rows from `start` on."""
    nearest, other = _nearest(scaled.abs().amax(-1), _scale_midpoints(scaled.device))
    right = scales == nearest
    stepped = ~right & (scales == other) & fused
    wrong = ~(right | stepped)
    difference.stepped_scales += int(stepped.sum())
    if bool(wrong.any()):
        difference.wrong_scales += int(wrong.sum())
        _note(difference, 1, wrong, start, scales, nearest)
    # Under a wrong scale the codes are judged by the right one, so that one mistake is one.
    effective_scales = torch.where(wrong, nearest, scales)
    steps = scale_values(scaled.device)[effective_scales.long()].unsqueeze(-1)
    exact, alternative, free_sign = _codes(scaled, steps, fused=fused)
    unpacked_codes = _unpack(codes)
    same = (unpacked_codes == exact) | (free_sign & ((unpacked_codes & 7) == (exact & 7)))
    allowed = ~same & (unpacked_codes == alternative)
    bad = ~(same | allowed)
    difference.stepped_codes += int(allowed.sum())
    if bool(bad.any()):
        difference.wrong_codes += int(bad.sum())
        _note(difference, 0, bad[..., 0::2] | bad[..., 1::2], start, codes, _pack(exact))


def _note(  # noqa: PLR0917
    difference: Nvfp4Difference, output: int, wrong: Any, start: int, got: Any, expected: Any
) -> None:
    """Keep the first few wrong bytes."""
    for row, column in wrong.nonzero()[: _EXAMPLES - len(difference.examples)].tolist():
        pair = float(got[row, column]), float(expected[row, column])
        index = (start + row, column)
        difference.examples.append(
            Counterexample(output=output, index=index, got=pair[0], expected=pair[1])
        )


def _scaled(values: Any, global_scale: float) -> Any:
    """g·v in float64, [rows, blocks, 16]."""
    return values.double().unflatten(-1, (-1, BLOCK)) * float(global_scale)


def _scale_midpoints(device: Any) -> Any:
    """Six times the midpoints between neighbouring scales: where g·amax passes to the next one."""
    scales = scale_values(device)
    return (scales[:-1] + scales[1:]) / 2 * LARGEST_CODE


def _nearest(numbers: Any, midpoints: Any) -> tuple[Any, Any]:
    """Index by rounding to nearest even, and the neighbour where a midpoint is within `MARGIN`.

    `midpoints[k]` separates index k from k + 1. Returns uint8 tensors; the second equals the
    first where no midpoint is near.
    """
    below = torch.bucketize(numbers, midpoints)
    at_or_below = torch.bucketize(numbers, midpoints, right=True)
    nearest = torch.where(below % 2 == 0, below, at_or_below)
    last = midpoints.numel() - 1
    above_it, below_it = midpoints[nearest.clamp(max=last)], midpoints[(nearest - 1).clamp(min=0)]
    up = (nearest <= last) & ((numbers - above_it).abs() <= MARGIN * above_it)
    down = (nearest > 0) & ((numbers - below_it).abs() <= MARGIN * below_it)
    other = nearest + up.long() - (down & ~up).long()
    return nearest.to(torch.uint8), other.to(torch.uint8)


def _codes(scaled: Any, steps: Any, *, fused: bool = False) -> tuple[Any, Any, Any]:
    """Codes of g·v [rows, blocks, 16] under scales [rows, blocks, 1].

    Returns the exact code, the code across a midpoint within `MARGIN` (else the exact one), and
    where the sign does not matter: [rows, n] each.
    """
    magnitude = scaled.abs()
    below = torch.zeros_like(magnitude, dtype=torch.uint8)
    at_or_below = torch.zeros_like(below)
    near = torch.zeros_like(below)  # 1 + the index of the near midpoint
    for index, (low, high) in enumerate(pairwise(MAGNITUDES)):
        midpoint = steps * ((low + high) / 2)
        below += magnitude > midpoint
        at_or_below += magnitude >= midpoint
        near += ((magnitude - midpoint).abs() <= MARGIN * midpoint).to(torch.uint8) * (index + 1)
    nearest = torch.where(below % 2 == 0, below, at_or_below)
    # Midpoint k separates codes k and k + 1: of the two, the one that was not chosen.
    other = torch.where(near > 0, 2 * near - 1 - nearest, nearest)
    nonzero_scale = steps > 0
    sign = torch.where(torch.signbit(scaled), 8, 0).to(torch.uint8)
    exact = torch.where(nonzero_scale, nearest + sign, 0)
    alternative = torch.where(nonzero_scale, other + sign, 0)
    # Real arithmetic does not tell the sign of a computed zero.
    free_sign = (scaled == 0) & nonzero_scale & fused
    return exact.flatten(1), alternative.flatten(1), free_sign.flatten(1)


def _pack(codes: Any) -> Any:
    """Codes [rows, n] as bytes [rows, n / 2], the even element in the low half."""
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def _unpack(packed: Any) -> Any:
    """The inverse of `_pack`."""
    return torch.stack([packed & 15, packed >> 4], -1).flatten(1)


def _pieces(rows: int, length: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of at most `_CHUNK` values (one row at least)."""
    step = max(1, _CHUNK // max(length, 1))
    for start in range(0, rows, step):
        yield start, min(rows, start + step)


def _bytes(tensor: Any) -> str:
    return f"{tensor.numel()} elements of {dtype_name(tensor.dtype)}"
