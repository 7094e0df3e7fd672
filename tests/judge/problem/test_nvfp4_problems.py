"""The NVFP4 problems against a slow scalar quantizer that decides by exact comparisons.

The scalar one knows the formats as lists of values and compares in float64, where every product of
a boundary with a scale and every input is exact; it divides nothing.
"""

import itertools
import math
import struct

import pytest
import torch
from test_problem_files import FOLDER, execute, outputs, reduced

from kb.verify.kernel_module import load_kernel_module
from tests.fixtures.kernels.nvfp4 import PROBLEMS

FILES = sorted(FOLDER.glob("*nvfp4*.py"))
QUANTIZE = execute((FOLDER / "nvfp4_quantize_128x14336.py").read_text(), "q")["quantize"]
# Byte 0x7F is NaN; up to 0x07 subnormal, in steps of 2^-9.
E4M3 = [
    m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10)
    for e, m in itertools.product(range(16), range(8))
][:127]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def nearest(values, numerator, denominator):
    """Index of the value nearest to numerator / denominator, ties to the even index."""
    if numerator >= values[-1] * denominator:
        return len(values) - 1
    low, high = 0, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if values[middle] * denominator <= numerator else (low, middle)
    double, tie = 2 * numerator, (values[low] + values[high]) * denominator
    if double == tie:
        return low if low % 2 == 0 else high
    return low if double < tie else high


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def scalar_quantize(block, g=1.0):
    """Scale byte and 16 codes of a list of floats."""
    reach = float32(g * max(abs(v) for v in block)) if g != 1 else max(abs(v) for v in block)
    byte = nearest(E4M3, min(reach, 448.0 * 6.0), 6.0)
    if byte == 0:
        return 0, [0] * len(block)
    codes = [
        nearest(E2M1, abs(float32(v * g)), E4M3[byte]) + (8 if math.copysign(1, v) < 0 else 0)
        for v in block
    ]
    return byte, codes


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def check(x, g=1.0):
    """Compare all blocks of `x` [rows, 16]."""
    packed, scales = QUANTIZE(x, g, "linear")
    assert (packed.dtype, packed.shape) == (torch.uint8, (len(x), 8))
    assert (scales.dtype, scales.shape) == (torch.float8_e4m3fn, (len(x), 1))
    expected = [scalar_quantize(block, float32(g)) for block in x.double().tolist()]
    assert scales.view(torch.uint8)[:, 0].tolist() == [byte for byte, _ in expected]
    assert nibbles(packed).tolist() == [codes for _, codes in expected]


def every_bfloat16():
    bits = torch.arange(0x10000, dtype=torch.int32).to(torch.int16)
    values = bits.view(torch.bfloat16)
    return values[values.isfinite()]


def test_the_formats_are_those_of_pytorch():
    table = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn)
    assert table.float().tolist() == E4M3
    assert (E4M3[1], E4M3[8], E4M3[-1]) == (2.0**-9, 2.0**-6, 448.0)


def test_every_bfloat16_as_the_largest_value_of_a_block():
    """All scales: zero, subnormal, normal, ties between them, saturated."""
    values = every_bfloat16()
    x = torch.zeros(len(values), 16, dtype=torch.bfloat16)
    x[:, 3] = values
    check(x)


@pytest.mark.parametrize("byte", [1, 7, 8, 0x38, 0x3D, 0x46, 0x7E])
def test_every_bfloat16_under_a_scale(byte):
    scale = E4M3[byte]
    values = every_bfloat16()
    # 6 times a scale has at most 6 significant bits, so bfloat16 holds what fixes the scale.
    values = values[values.abs().double() <= 6 * scale]
    blocks = torch.zeros(-(-len(values) // 15) * 15, dtype=torch.bfloat16)
    blocks[: len(values)] = values
    x = torch.full((len(blocks) // 15, 16), 6 * scale, dtype=torch.bfloat16)
    x[:, :15] = blocks.reshape(-1, 15)
    assert {scalar_quantize(block)[0] for block in x[:5].double().tolist()} == {byte}
    check(x)


def test_float32_values_at_and_beside_every_boundary_of_every_scale():
    scales = torch.tensor(E4M3[1:])
    ties = scales[:, None] * torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(E2M1)])
    up, down = torch.full_like(ties, torch.inf), torch.zeros_like(ties)
    near = torch.cat([ties, -torch.nextafter(ties, up), torch.nextafter(ties, down)], dim=1)
    x = torch.zeros(len(scales), 2, 16)
    x[:, 0, :15], x[:, 1, :6] = near[:, :15], near[:, 15:]
    x[:, :, 15] = 6 * scales[:, None]
    check(x.reshape(-1, 16))


def test_float32_maxima_at_and_beside_every_boundary_of_the_scales():
    ties = torch.tensor([(a + b) / 2 * 6 for a, b in itertools.pairwise(E4M3)])
    edges = torch.cat([ties, torch.tensor([448.0 * 6, 460.0 * 6, 464.0 * 6, 1e9, 3e38])])
    near = torch.cat([
        edges, torch.nextafter(edges, torch.zeros(())), torch.nextafter(edges, torch.tensor(4e38))
    ])  # fmt: skip
    x = torch.zeros(len(near), 16)
    x[:, 0] = near.clamp(max=torch.finfo(torch.float32).max)
    check(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_random_blocks_of_all_magnitudes(dtype):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(400, 16, generator=generator) * torch.logspace(-4, 4, 400)[:, None]
    check(x.to(dtype))


@pytest.mark.parametrize("g", [0.125, 3.7, 448.0, 1e-4])
def test_a_global_scale_multiplies_in_float32(g):
    """Quotients that float32 rounds are compared with the other formulation in the corpus."""
    other = load_kernel_module(
        FOLDER.parents[3] / "corpus/kernels/triton/nvfp4_quantize_emulated.py"
    )
    x = other.make_inputs([256, 64], torch.float32, "cpu", 3)[0]
    codes, scales = QUANTIZE(x, g, "linear")
    expected_codes, expected_scales = other.reference(x, torch.tensor(g))
    assert torch.equal(codes, expected_codes)
    assert torch.equal(scales.view(torch.uint8), expected_scales.view(torch.uint8))
    if math.log2(g).is_integer():
        check(x[:64].reshape(-1, 16), g)


def test_zeros_signs_and_infinities():
    x = torch.zeros(5, 16)
    x[0, 1] = -0.0
    x[1, :2] = torch.tensor([-1e-4, 1e-4])  # the scale rounds to zero
    x[2, :3] = torch.tensor([6.0, -0.0, -0.1])
    x[3, :3] = torch.tensor([torch.inf, -torch.inf, -3.0])
    x[4, :2] = torch.tensor([1e30, -2e30])
    packed, scales = QUANTIZE(x, 1.0, "linear")
    assert scales.view(torch.uint8)[:, 0].tolist() == [0, 0, 0x38, 0x7E, 0x7E]
    assert packed[:2].count_nonzero() == 0
    assert nibbles(packed)[2, :4].tolist() == [7, 8, 8, 0]
    assert nibbles(packed)[3, :4].tolist() == [7, 15, 8, 0]
    assert nibbles(packed)[4, :3].tolist() == [7, 15, 0]


def test_the_even_element_is_in_the_low_nibble():
    x = torch.tensor([[6.0, 0.5] + [0.0] * 14])
    assert QUANTIZE(x, 1.0, "linear")[0][0, 0].item() == 0x17


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (128, 4), (130, 6), (300, 9)])
def test_swizzled_scales_stand_where_the_layout_says(rows, blocks):
    x = torch.randn(rows, 16 * blocks, generator=torch.Generator().manual_seed(1))
    codes, linear = QUANTIZE(x, 1.0, "linear")
    same_codes, swizzled = QUANTIZE(x, 1.0, "swizzled")
    assert torch.equal(codes, same_codes)
    wide, tall = -(-blocks // 4), -(-rows // 128)
    assert swizzled.shape == (128 * tall, 4 * wide)
    expected = [0] * (512 * tall * wide)
    table = linear.view(torch.uint8).tolist()
    for r, c in itertools.product(range(rows), range(blocks)):
        tile = (r // 128) * wide + c // 4
        expected[512 * tile + 16 * (r % 32) + 4 * (r % 128 // 32) + c % 4] = table[r][c]
    assert swizzled.view(torch.uint8).flatten().tolist() == expected


def test_all_files_quantize_by_the_same_text():
    texts = {path.read_text().split("# Half-way")[1].split("class Model")[0] for path in FILES}
    assert len(FILES) == 3
    assert len(texts) == 1


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_forward_quantizes_what_values_returns(name, dtype):
    problem = reduced(name)
    assert problem["JUDGE"]["layout"] == ("swizzled" if "swizzled" in name else "linear")
    model, inputs, (codes, scales) = outputs(problem, dtype)
    values = model.values(*inputs)
    assert values.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert values.shape == (*codes.shape[:-1], 2 * codes.shape[-1])
    expected = problem["quantize"](values, 1.0, problem["JUDGE"]["layout"])
    assert torch.equal(codes, expected[0])
    assert torch.equal(scales.view(torch.uint8), expected[1].view(torch.uint8))


def test_the_plain_quantizer_gives_the_same_bytes_in_float64():
    problem = reduced("nvfp4_quantize_128x14336")
    torch.manual_seed(3)
    x = torch.randn(64, 128).to(torch.bfloat16)
    model = problem["Model"](1.0, "linear")
    for low, high in zip(model(x), model(x.double()), strict=True):
        assert torch.equal(low.view(torch.uint8), high.view(torch.uint8))


@pytest.mark.parametrize("stem", ["add_rmsnorm_nvfp4_128x2048", "silu_mul_nvfp4_8x256x7168"])
def test_fused_values_are_exact_to_float32(stem):
    problem = reduced(stem)
    model, inputs, _ = outputs(problem, torch.bfloat16)
    exact = model.double().values(*(each.double() for each in inputs))
    rounded = outputs(problem, torch.bfloat16)[0].values(*inputs)
    if "silu" in stem:
        gate, up = inputs[0].double().chunk(2, dim=-1)
        expected = gate / (1 + torch.exp(-gate)) * up
    else:
        total = inputs[0].double() + inputs[1].double()
        root = (total.pow(2).sum(-1, keepdim=True) / total.shape[-1] + 1e-6).sqrt()
        expected = total / root * model.weight.detach()
    assert torch.allclose(exact, expected, rtol=1e-12, atol=0)
    assert torch.allclose(rounded.double(), exact, rtol=2e-6, atol=1e-12)
