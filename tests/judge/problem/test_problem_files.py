"""Our own problem files: the sizes they promise, and models that run in the judge's dtypes."""

from pathlib import Path

import pytest
import torch

from judge.problem.shapes import input_shapes
from judge.problem.source import ProblemFile
from judge.problem.variants import propose
from tests.fixtures.kernels import nvfp4

FOLDER = Path(__file__).parents[3] / "tests" / "fixtures" / "kernels" / "problems"
SHAPES = {
    "matvec": [(2048, 1048576), (1048576, 1)],
    "rmsnorm_channels": [(112, 64, 512, 512)],
    "max_pool3d": [(16, 32, 128, 128, 128)],
    "conv_transpose3d": [(16, 32, 16, 32, 32)],
    "depthwise_conv2d": [(16, 64, 512, 512)],
    "nvfp4_quantize_128x14336": [(128, 14336)],
    "nvfp4_quantize_swizzled_128x14336": [(128, 14336)],
    "add_rmsnorm_nvfp4_128x2048": [(128, 2048)] * 2,
    "add_rmsnorm_nvfp4_128x4096": [(128, 4096)] * 2,
    "add_rmsnorm_nvfp4_128x8192": [(128, 8192)] * 2,
    "silu_mul_nvfp4_8x256x7168": [(8, 256, 2 * 7168)],
    "silu_mul_nvfp4_8x256x14336": [(8, 256, 2 * 14336)],
}


def text_of(name):
    return nvfp4.text_of(name) if name in nvfp4.PROBLEMS else (FOLDER / f"{name}.py").read_text()


def execute(text, name):
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def reduced(name, limit=1 << 14):
    """A problem's names at a small shape."""
    problem = ProblemFile.parse(text_of(name), name)
    (smaller, *_) = propose(problem, 0, reduced=1, variants=0, limit_elements=limit)
    return execute(problem.with_constants(smaller.constants), name)


def outputs(problem, dtype, seed=0):
    torch.manual_seed(seed)
    model = problem["Model"](*problem["get_init_inputs"]()).to(dtype)
    inputs = [each.to(dtype) for each in problem["get_inputs"]()]
    with torch.no_grad():
        found = model(*inputs)
    return model, inputs, found if isinstance(found, tuple) else (found,)


def test_every_file_is_listed_here():
    files = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    assert files | set(nvfp4.PROBLEMS) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_the_inputs_have_the_promised_shapes(name):
    assert input_shapes(text_of(name), name) == SHAPES[name]


@pytest.mark.parametrize("name", SHAPES)
def test_the_model_runs_in_bfloat16_and_agrees_with_itself_in_float64(name):
    problem = reduced(name)
    _, _, rounded = outputs(problem, torch.bfloat16)
    _, _, exact = outputs(problem, torch.float64)
    for low, high in zip(rounded, exact, strict=True):
        assert low.shape == high.shape
        if low.dtype == torch.bfloat16:
            assert high.dtype == torch.float64
            error = (low.double() - high).norm() / high.norm()
            assert error < 0.01
        else:  # codes and scales are bytes in any dtype
            assert low.dtype == high.dtype
            assert low.element_size() == 1


@pytest.mark.parametrize(
    "name", ["matvec", "rmsnorm_channels", "max_pool3d", "conv_transpose3d", "depthwise_conv2d"]
)
def test_models_compute_what_they_say(name):
    _, (x, *rest), (found,) = outputs(reduced(name), torch.float64)
    model, _, _ = outputs(reduced(name), torch.float64)
    if name == "matvec":
        expected = (x * rest[0].T).sum(1, keepdim=True)
    elif name == "rmsnorm_channels":
        expected = x * torch.rsqrt((x * x).sum(1, keepdim=True) / x.shape[1] + 1e-5)
    elif name == "max_pool3d":
        padded = torch.nn.functional.pad(x, (1,) * 6, value=-torch.inf)
        for dimension in (2, 3, 4):  # windows of taps 0, 3, 6 every 2 elements
            padded = padded.unfold(dimension, 7, 2)[..., ::3].amax(-1)
        expected = padded
    elif name == "depthwise_conv2d":
        windows = x.unfold(2, 3, 1).unfold(3, 3, 1)
        expected = torch.einsum("bchwij,cij->bchw", windows, model.conv.weight[:, 0].detach())
    else:
        assert model.conv.weight.shape[1] == 64
        assert found[:, :, ::2].count_nonzero() == 0
        assert found[:, :, :, ::2].count_nonzero() == 0
        assert found[..., ::2].count_nonzero() == 0
        # Odd positions are a plain transposed convolution of stride 1 and padding 1.
        odd = found[:, :, 1::2, 1::2, 1::2]
        expected = torch.nn.functional.conv_transpose3d(x, model.conv.weight.detach(), padding=1)
        assert torch.allclose(odd, expected)
        return
    assert found.shape == expected.shape
    assert torch.allclose(found, expected)
