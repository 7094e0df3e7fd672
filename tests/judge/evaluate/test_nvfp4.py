"""The NVFP4 rule equals a slow one in exact fractions, and refuses what it should refuse."""

import bisect
import itertools
from fractions import Fraction

import pytest
import torch

from judge.evaluate.nvfp4 import (
    BLOCK,
    MAGNITUDES,
    compare_nvfp4,
    quantize,
    scale_values,
    swizzle,
    swizzled_size,
    unswizzle,
)
from judge.problem.judge import JudgeDeclaration

PLAIN, FUSED = JudgeDeclaration(fused=False), JudgeDeclaration(fused=True)
SCALES = [Fraction(value) for value in scale_values().tolist()]
CODES = [Fraction(value) for value in MAGNITUDES]


def nearest(number, table):
    """Index of the nearest table entry; at a tie the even one; beyond the end the last."""
    above = min(bisect.bisect_left(table, number), len(table) - 1)
    below = max(above - 1, 0)
    distances = number - table[below], table[above] - number
    if distances[0] == distances[1]:
        return below if below % 2 == 0 else above
    return below if distances[0] < distances[1] else above


def slow_quantize(row, g=1.0):
    g = Fraction(g)
    scales, codes = [], []
    for start in range(0, len(row), BLOCK):
        block = [Fraction(value) for value in row[start : start + BLOCK]]
        scale = nearest(g * max(abs(v) for v in block) / 6, SCALES)
        scales.append(scale)
        for value, original in zip(block, row[start : start + BLOCK], strict=True):
            if SCALES[scale] == 0:
                codes.append(0)
                continue
            negative = str(original).startswith("-")
            codes.append(nearest(abs(value) * g / SCALES[scale], CODES) + 8 * negative)
    return [low | high << 4 for low, high in zip(codes[0::2], codes[1::2], strict=True)], scales


def block_with(amax, rest):
    """One block whose largest value is `amax`."""
    return [amax, *([rest] * (BLOCK - 1))]


def test_scales_are_those_of_exact_fractions_at_around_and_between_all_midpoints():
    rows = []
    for low, high in itertools.pairwise(scale_values().tolist()):
        midpoint = torch.tensor((low + high) / 2 * 6, dtype=torch.float32)
        around = (torch.tensor(0.0), midpoint, torch.tensor(9e9))
        amaxes = [low * 6, *(float(torch.nextafter(midpoint, towards)) for towards in around)]
        rows += [block_with(amax, amax / 3) for amax in amaxes]
    rows += [block_with(5000.0, 1.0), block_with(0.0, 0.0), block_with(-0.0, 0.0)]
    codes, scales = quantize(torch.tensor(rows, dtype=torch.float64))
    for row, code, scale in zip(rows, codes.tolist(), scales.tolist(), strict=True):
        assert (code, scale) == slow_quantize(row)


@pytest.mark.parametrize("scale", [0.001953125, 0.0703125, 1.0, 1.125, 448.0])
def test_codes_are_those_of_exact_fractions_at_and_around_all_midpoints(scale):
    values = []
    for low, high in itertools.pairwise(MAGNITUDES):
        midpoint = torch.tensor((low + high) / 2 * scale, dtype=torch.float32)
        around = (torch.tensor(0.0), midpoint, torch.tensor(9e9))
        values += [float(torch.nextafter(midpoint, towards)) for towards in around]
        values.append(float(high * scale))
    values += [-value for value in values] + [0.0, -0.0]
    rows = [[6 * scale, *values[start : start + BLOCK - 1]] for start in range(0, len(values), 15)]
    rows = [row + [0.0] * (BLOCK - len(row)) for row in rows]
    codes, scales = quantize(torch.tensor(rows, dtype=torch.float64))
    for row, code, found in zip(rows, codes.tolist(), scales.tolist(), strict=True):
        assert (code, found) == slow_quantize(row)
        assert SCALES[found[0]] == Fraction(scale)


@pytest.mark.parametrize("g", [1.0, 0.37, 3e4])
def test_random_rows_with_a_global_scale_are_those_of_exact_fractions(g):
    g = float(torch.tensor(g, dtype=torch.float32))
    torch.manual_seed(5)
    x = (torch.randn(12, 32) * torch.logspace(-5, 3, 12)[:, None]).to(torch.bfloat16)
    codes, scales = quantize(x, g)
    for row, code, scale in zip(x.double().tolist(), codes.tolist(), scales.tolist(), strict=True):
        assert (code, scale) == slow_quantize(row, g)


def test_every_wrong_byte_is_refused_in_plain_quantize():
    torch.manual_seed(1)
    x = torch.randn(3, 64)  # float32: no value happens to be at a midpoint
    codes, scales = quantize(x)
    assert compare_nvfp4(codes, scales.view(torch.float8_e4m3fn), x, PLAIN).problem is None
    for tensor, output in ((codes, 0), (scales, 1)):
        for row, column in itertools.product(range(3), range(tensor.shape[1])):
            for change in (1, 8, 16):
                tensor[row, column] ^= change
                found = compare_nvfp4(codes, scales, x, PLAIN)
                tensor[row, column] ^= change
                assert found.problem is not None, (output, row, column, change)
                assert (found.examples[0].output, found.examples[0].index) == (
                    output,
                    (row, column),
                )


def test_a_code_may_be_across_a_midpoint_that_is_near_and_only_there():
    for low, high in itertools.pairwise(range(8)):
        midpoint = (MAGNITUDES[low] + MAGNITUDES[high]) / 2
        for distance, allowed in ((0.0, {low, high}), (9e-6, {low, high}), (1.1e-5, {high})):
            for sign in (1, -1):
                value = sign * midpoint * (1 + distance)
                x = torch.tensor([[6.0, value, *([0.0] * 14)]], dtype=torch.float64)
                codes, scales = quantize(x)
                for code in range(16):
                    codes[0, 0] = 7 | code << 4
                    right = (code & 7) in allowed and (code >= 8) == (sign < 0)
                    found = compare_nvfp4(codes, scales, x, PLAIN)
                    assert (found.problem is None) == right, (midpoint, distance, code)


def test_a_scale_may_step_only_in_fused_kernels_near_a_midpoint_and_codes_follow_it():
    low, high = 56, 57  # scales 1 and 1.125
    midpoint = float(SCALES[low] + SCALES[high]) / 2
    for distance, near in ((0.9e-5, True), (-0.9e-5, True), (1.2e-5, False), (-1.2e-5, False)):
        amax = 6 * midpoint * (1 + distance)
        x = torch.tensor([block_with(amax, 2.3)], dtype=torch.float64)
        codes, scales = quantize(x)
        other = high if int(scales[0, 0]) == low else low
        # Codes under the other scale: what a kernel that rounded that way stores.
        ratios = [nearest(Fraction(v) / SCALES[other], CODES) for v in x[0].tolist()]
        stepped = torch.tensor(
            [[a | b << 4 for a, b in zip(ratios[0::2], ratios[1::2], strict=True)]],
            dtype=torch.uint8,
        )
        changed = torch.full_like(scales, other)
        found = compare_nvfp4(stepped, changed, x, FUSED)
        assert (found.problem is None) == near
        assert found.stepped_scales == near
        assert compare_nvfp4(stepped, changed, x, PLAIN).problem is not None
        two = torch.full_like(scales, other + (1 if other == high else -1))
        assert compare_nvfp4(codes, two, x, FUSED).problem is not None


def test_zero_scale_gives_zero_codes():
    x = torch.full((1, 16), -1e-6, dtype=torch.float32)
    codes, scales = quantize(x)
    assert scales.tolist() == [[0]] and codes.unique().tolist() == [0]
    codes[0, 3] = 0x88
    assert compare_nvfp4(codes, scales, x, FUSED).problem == "2 of 16 codes are wrong"


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (128, 4), (130, 7), (257, 12)])
def test_the_swizzled_layout_is_undone(rows, blocks):
    torch.manual_seed(2)
    x = torch.randn(rows, blocks * BLOCK)
    codes, scales = quantize(x)
    swizzled = swizzle(scales)
    assert swizzled.numel() == swizzled_size(rows, blocks)
    for row, block in itertools.product((0, rows // 2, rows - 1), range(blocks)):
        tile = (row // 128) * ((blocks + 3) // 4) + block // 4
        byte = tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + block % 4
        assert swizzled[byte] == scales[row, block]
    assert torch.equal(unswizzle(swizzled, rows, blocks), scales)
    rule = JudgeDeclaration(fused=False, layout="swizzled")
    assert compare_nvfp4(codes, swizzled.reshape(-1, 4), x, rule).problem is None
    if rows * blocks > 1 and swizzled_size(rows, blocks) == rows * blocks:
        assert compare_nvfp4(codes, scales, x, rule).problem is not None


def test_other_sizes_are_refused():
    x = torch.randn(2, 32)
    codes, scales = quantize(x)
    assert "codes must be 32 bytes" in compare_nvfp4(codes[:, :-1], scales, x, PLAIN).problem
    assert "scales must be 4 bytes" in compare_nvfp4(codes, scales.int(), x, PLAIN).problem
