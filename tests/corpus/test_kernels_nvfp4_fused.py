"""NVFP4 kernels that compute what they quantize, held against the judge's exact arithmetic."""

import json
from pathlib import Path

import pytest
import torch

from kb.corpus.loader import load_corpus
from kb.verify.compare import compare, lacks_power
from kb.verify.kernel_module import load_kernel_module

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "corpus" / "kernels"
# Interpreted in one process of its own. Values are computed in float64 here, and codes and scales
# judged by exact fractions, so nothing is shared with the kernels' own references.
SCRIPT = """
import json, random, sys
from pathlib import Path
import torch
from judge.evaluate.nvfp4 import compare_nvfp4
from judge.problem.judge import JudgeDeclaration
from kb.verify.kernel_module import load_kernel_module

folder = Path(sys.argv[1]) / "triton"
quantize, silu, norm, streamed = (
    load_kernel_module(folder / f"{name}.py").kernel_function
    for name in ("nvfp4_quantize_emulated", "silu_mul_nvfp4_emulated",
                 "add_rmsnorm_nvfp4_emulated", "add_rmsnorm_nvfp4_streaming")
)
draw = random.Random(3)

def judge(name, result, values, fused, swizzled, g):
    codes, scales = result[:2]
    rule = JudgeDeclaration(fused=fused, layout="swizzled" if swizzled else "linear")
    found = compare_nvfp4(codes.reshape(-1, codes.shape[-1]), scales,
                          values.reshape(-1, values.shape[-1]), rule, g)
    print(json.dumps([name, found.problem]))

for case in range(12):
    lead, n = draw.choice([[1], [7], [2, 3], [129], [0]]), 16 * draw.choice([1, 3, 4, 9])
    dtype = draw.choice([torch.float32, torch.float16, torch.bfloat16])
    swizzled, g = draw.random() < 0.5, draw.choice([1.0, 0.125, 3.7, 100.0])
    if lead == [129] and not swizzled:
        lead = [9]  # 128 rows are a tile of the swizzled layout alone, and 129 take six seconds
    g = torch.tensor(g).item()
    given = None if g == 1.0 else torch.full((1,), g)
    generator = torch.Generator().manual_seed(case)
    make = lambda *shape: (4 * torch.randn(shape, generator=generator)).to(dtype)
    x, residual, weight = make(*lead, 2 * n), make(*lead, n), make(n)
    if case == 3:
        x[..., 5], x[..., 0] = float("inf"), 0.0
    gate, up = x.double().chunk(2, -1)
    tiles = draw.choice([1, 2])
    if 0 in lead:
        codes, scales = silu(x, given, swizzled)
        assert codes.shape == (0, n // 2), codes.shape
        continue
    judge("quantize", quantize(x, given, swizzled, block=32), x.double(), False, swizzled, g)
    values = torch.nn.functional.silu(gate) * up
    if case != 3:
        judge("silu-mul", silu(x, given, swizzled, block=32), values, True, swizzled, g)
    half = x[..., :n] if case != 3 else up.to(dtype)
    total = half.double() + residual.double()
    values = total * (total.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    found = norm(half, residual, weight, 1e-6, given, swizzled, True)
    judge("add-rmsnorm", found, values, True, swizzled, g)
    # The interpreter cuts off where the hardware rounds to bfloat16.
    spacing = 2**-7 if dtype == torch.bfloat16 else 0.0
    right = torch.isclose(found[2], (half.float() + residual.float()).to(dtype), spacing, 0.0)
    print(json.dumps(["sum", None if right.all() else "differs"]))
    judge("streamed", streamed(half, residual, weight, 1e-6, given, swizzled, block=32 * tiles),
          values, True, swizzled, g)
"""


@pytest.fixture(scope="module")
def silu():
    return load_kernel_module(KERNELS / "triton" / "silu_mul_nvfp4_emulated.py")


def test_every_code_and_scale_is_right_by_the_judges_rule_in_any_layout(interpreted):
    found = [json.loads(line) for line in interpreted(SCRIPT, KERNELS).splitlines()]
    assert {name for name, _ in found} == {
        "quantize", "silu-mul", "add-rmsnorm", "sum", "streamed"
    }  # fmt: skip
    assert len(found) > 30
    assert [each for each in found if each[1] is not None] == []


def results(silu, rows=64):
    x, g = silu.make_inputs([rows, 256], torch.float32, "cpu", 0)
    return silu.reference(x, g)


def test_a_few_codes_one_step_off_agree_and_no_more_than_a_few(silu):
    codes, scales = results(silu)
    # A byte whose low code is between 1 and 6 may count one more.
    places = ((codes & 7) % 7 != 0).flatten().nonzero().flatten()
    few, many = codes.clone(), codes.clone()
    few.view(-1)[places[:3]] += 1
    many.view(-1)[places[:200]] += 1
    assert compare((few, scales), (codes, scales), agrees=silu.agrees).problem is None
    problem = compare((many, scales), (codes, scales), agrees=silu.agrees).problem
    assert problem == "200 of 16384 codes differ, by up to 1 steps"


def test_codes_two_steps_off_other_signs_and_other_scales_do_not_agree(silu):
    codes, scales = results(silu)
    place = int((((codes & 7) > 0) & ((codes & 7) < 5)).flatten().nonzero()[0])
    two, sign = codes.clone(), codes.clone()
    two.view(-1)[place] += 2
    sign.view(-1)[place] ^= 8
    for wrong in (two, sign):
        assert "1 of 16384 codes differ" in silu.agrees((wrong, scales), (codes, scales))
    moved = (scales.view(torch.uint8) + 2).view(torch.float8_e4m3fn)
    assert "scales differ, by up to 2" in silu.agrees((codes, moved), (codes, scales))
    assert lacks_power((codes, scales), silu.agrees) is None


def test_the_sign_of_a_zero_does_not_count(silu):
    codes, scales = results(silu)
    flipped = torch.where((codes & 7) == 0, codes ^ 8, codes)
    assert (flipped != codes).any()
    assert silu.agrees((flipped, scales), (codes, scales)) is None


def test_shapes_and_dtypes_are_compared_before_the_rule(silu):
    codes, scales = results(silu)
    assert "shape" in compare((codes[:1], scales), (codes, scales), agrees=silu.agrees).problem
    as_bytes = scales.view(torch.uint8)
    assert "dtype" in compare((codes, as_bytes), (codes, scales), agrees=silu.agrees).problem


def test_every_cuda_kernel_of_the_family_promises_the_hardware_conversion():
    of_family = [
        each.entry
        for each in load_corpus(ROOT / "corpus").kernels
        if "nvfp4" in each.entry.slug and each.entry.language == "cuda"
    ]
    assert len(of_family) == 4
    for entry in of_family:
        assert any("E2M1" in pattern for pattern in entry.expect_sass["sm_100a"]), entry.slug
