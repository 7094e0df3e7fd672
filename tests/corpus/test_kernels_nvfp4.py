"""The arithmetic of nvfp4_quantize.cu, run on the CPU, equals its reference and exact fractions.

A harness compiles the kernel file's own `__host__ __device__` functions for the host, so what is
tested is the code that runs on sm_90a, not a copy of it.
"""

import ctypes
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from kb import nvcc
from kb.verify.kernel_module import load_kernel_module

FOLDER = Path(__file__).parents[2] / "corpus" / "kernels" / "cuda"
HARNESS = """
#include "{source}"
extern "C" void quantize(const float* x, float g, float wrong, uint32_t* codes, uint8_t* scales,
                         int64_t blocks) {{
    for (int64_t b = 0; b < blocks; ++b) {{
        const float* v = x + 16 * b;
        float amax = 0.0f;
        for (int i = 0; i < 16; ++i) amax = fmaxf(amax, fabsf(v[i]));
        scales[b] = encode_scale(amax, g);
        const float scale = decode_scale(scales[b]);
        for (int half = 0; half < 2; ++half) {{
            float a[8];
            for (int i = 0; i < 8; ++i) {{
                a[i] = magnitude(v[8 * half + i] * g, scale, wrong / scale);
            }}
            codes[2 * b + half] = scale == 0.0f ? 0u : emulate8(a, v + 8 * half);
        }}
    }}
}}
"""
BOUNDARIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
MAGNITUDES = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
# The device's approximate reciprocal is off by one unit at most: 2^-23 relative.
RECIPROCAL_ERRORS = (1 - 2**-22, 1.0, 1 + 2**-22)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    source = tmp_path_factory.mktemp("harness") / "harness.cu"
    source.write_text(HARNESS.format(source=FOLDER / "nvfp4_quantize.cu"))
    library = nvcc.load(source, "sm_90a")
    pointer, real = ctypes.c_void_p, ctypes.c_float
    library.quantize.argtypes = [pointer, real, real, pointer, pointer, ctypes.c_int64]
    library.quantize.restype = None
    return library


@pytest.fixture(scope="module")
def kernel():
    return load_kernel_module(FOLDER / "nvfp4_quantize.py")


def quantize(library, x, g=1.0, wrong=1.0):
    """Codes [..., N / 2] and scales [..., N / 16] as bytes, from the kernel's own arithmetic."""
    x = x.float().contiguous()
    codes = torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=torch.uint8)
    scales = torch.empty((*x.shape[:-1], x.shape[-1] // 16), dtype=torch.uint8)
    blocks = x.numel() // 16
    library.quantize(x.data_ptr(), g, wrong, codes.data_ptr(), scales.data_ptr(), blocks)
    return codes, scales


@pytest.mark.parametrize("g", [1.0, 0.125, 448.0, 3.7, 1e-4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_codes_and_scales_equal_the_reference_bit_for_bit(library, kernel, dtype, g):
    x, _ = kernel.make_inputs([512, 256], dtype, "cpu", 5)
    expected_codes, expected_scales = kernel.reference(x, torch.tensor([g]))
    for wrong in RECIPROCAL_ERRORS:
        codes, scales = quantize(library, x, torch.tensor(g).item(), wrong)
        assert torch.equal(scales, expected_scales.view(torch.uint8))
        assert torch.equal(codes, expected_codes)


def test_values_at_and_beside_every_boundary_round_as_exact_fractions_do(library, kernel):
    """For every scale: each boundary, and the floats just below and above it."""
    scales = torch.arange(1, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    ties = scales[:, None] * torch.tensor(BOUNDARIES)
    low, high = torch.tensor(0.0), torch.tensor(float("inf"))
    near = torch.cat([ties, torch.nextafter(ties, low), torch.nextafter(ties, high)], dim=1)
    # 21 values a scale, in two blocks whose maximum of 6 * scale fixes that very scale.
    x = torch.zeros(len(scales), 2, 16)
    x[:, 0, :15], x[:, 1, :6] = near[:, :15], -near[:, 15:]
    x[:, :, 15] = 6 * scales[:, None]
    x = x.flatten(1)
    expected = torch.zeros_like(x, dtype=torch.uint8)
    for row, scale in enumerate(scales.tolist()):
        for column, value in enumerate(x[row].tolist()):
            expected[row, column] = exact_code(value, scale)
    packed = expected[:, 0::2] | (expected[:, 1::2] << 4)
    for wrong in RECIPROCAL_ERRORS:
        codes, found = quantize(library, x, wrong=wrong)
        assert torch.equal(found.view(torch.float8_e4m3fn).float(), scales[:, None].expand(-1, 2))
        assert torch.equal(codes, packed)
    assert torch.equal(kernel.reference(x)[0], packed)


def exact_code(value, scale):
    quotient = abs(Fraction(value) / Fraction(scale))
    distance = [abs(quotient - Fraction(m)) for m in MAGNITUDES]
    nearest = [code for code, d in enumerate(distance) if d == min(distance)]
    code = next(code for code in nearest if code % 2 == 0) if len(nearest) > 1 else nearest[0]
    return code + (8 if torch.signbit(torch.tensor(value)) else 0)


def test_zero_blocks_blocks_too_small_for_a_scale_and_saturation(library, kernel):
    x = torch.zeros(4, 16)
    x[1] = -1e-4  # its scale rounds to zero: so do its codes, without a sign
    x[2, :2] = torch.tensor([1e30, -1e6])  # beyond the largest scale
    x[3, :3] = torch.tensor([6.0, -0.0, -0.1])
    codes, scales = quantize(library, x)
    assert codes[:2].count_nonzero() == 0
    assert scales[:, 0].tolist() == [0, 0, 0x7E, 0x38]
    assert codes[2].tolist() == [0xF7] + [0] * 7
    assert codes[3, :2].tolist() == [0x87, 0x08]
    expected_codes, expected_scales = kernel.reference(x)
    assert torch.equal(codes, expected_codes)
    assert torch.equal(scales, expected_scales.view(torch.uint8))


def test_infinite_values_saturate(library):
    x = torch.zeros(1, 16)
    x[0, :2] = torch.tensor([float("inf"), float("-inf")])
    codes, scales = quantize(library, x)
    assert (codes[0, 0].item(), scales.item()) == (0xF7, 0x7E)


def test_the_reference_equals_that_of_the_triton_kernel(kernel):
    """Two independent formulations: one sorts into boundaries, the other counts comparisons."""
    other = load_kernel_module(FOLDER.parent / "triton" / "nvfp4_quantize_emulated.py")
    x, g = kernel.make_inputs([512, 256], torch.bfloat16, "cpu", 9)
    x[0, :3] = torch.tensor([0.0, -0.0, 1e-30])
    codes, scales = kernel.reference(x, g)
    other_codes, other_scales = other.reference(x, g)
    assert torch.equal(codes, other_codes)
    assert torch.equal(scales.view(torch.uint8), other_scales.view(torch.uint8))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 24), "must be a multiple of 16 long"),
        (torch.zeros(2, 16, dtype=torch.int32), "not torch.int32"),
        (torch.tensor(1.0), "must be a multiple of 16 long"),
        (torch.zeros(2, 16), "must be on a CUDA device"),
    ],
)
def test_unfit_input_is_refused_with_a_clear_message(kernel, x, message):
    with pytest.raises(ValueError, match=message):
        kernel.kernel_function(x)
