"""Pooling and convolutions are recognised with their settings, and their kernels fit."""

from pathlib import Path

import pytest
import torch

from agent.proposers.recipe.adapt import adapt, fits
from agent.proposers.recipe.catalog import CorpusCatalog
from agent.proposers.recipe.core import Core
from agent.proposers.recipe.operators import recognise
from judge.evaluate.result import Verdict
from judge.sandbox.launch import Zygote
from tests.agent.proposers.recipe import problems as p

IMAGES = "torch.randn(N, C, 9, 11)"


def _cores(expression: str, parameters: str = "x", inputs: str = IMAGES) -> list[Core]:
    source = p.problem("N, C = 2, 4", p.forward(expression, parameters), inputs)
    return list(recognise(p.graph_of(source)).cores)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("max_pool3d", "max-pool"),
        ("depthwise_conv2d", "depthwise-conv"),
        ("conv_transpose3d", "conv-transpose"),
    ],
)
def test_the_benchmarks_windows_are_recognised(name: str, family: str) -> None:
    (core,) = recognise(p.graph_of(p.benchmark(f"kernels/{name}"))).cores
    assert core.op == family


def test_pooling_says_all_its_settings() -> None:
    (core,) = _cores("F.max_pool2d(x, (3, 2), 2, 1, dilation=2, ceil_mode=True)")
    assert core.arguments == {
        "x": "{x}", "kernel_size": "(3, 2)", "stride": "(2, 2)", "padding": "(1, 1)",
        "dilation": "(2, 2)", "ceil_mode": "True",
    }  # fmt: skip
    (core,) = _cores("F.avg_pool2d(x, 3, padding=1, count_include_pad=False)")
    assert core.op == "avg-pool"
    assert core.arguments["stride"] == core.arguments["kernel_size"] == "(3, 3)"
    assert core.arguments["count_include_pad"] == "False"
    assert "divisor_override" not in core.arguments


def test_indices_count_only_where_they_are_needed() -> None:
    (core,) = _cores("F.max_pool2d(x, 3, return_indices=True)[0]")
    assert core.op == "max-pool"
    assert _cores("F.max_pool2d(x, 3, return_indices=True)") == []


def test_convolutions_are_told_apart_by_their_filters() -> None:
    weights = f"{IMAGES}, torch.randn(6, C, 3, 3), torch.randn(C, 1, 3, 3), torch.randn(6)"
    names = "x, w, d, b"
    (core,) = _cores("F.conv2d(x, w, b, padding='same', dilation=2)", names, weights)
    assert core.op == "conv"
    assert core.arguments["padding"] == "(2, 2)"
    assert core.arguments["bias"] == "{b}"
    assert "groups" not in core.arguments
    (core,) = _cores("F.conv2d(x, d, stride=2, groups=C)", names, weights)
    assert (core.op, core.arguments["stride"]) == ("depthwise-conv", "(2, 2)")
    (core,) = _cores("F.conv_transpose2d(x, d, stride=2, output_padding=1)", names, weights)
    assert (core.op, core.arguments["output_padding"]) == ("conv-transpose", "(1, 1)")
    # An even window has no equal padding on both sides.
    even = f"{IMAGES}, torch.randn(6, C, 2, 2)"
    assert _cores("F.conv2d(x, w, padding='same')", "x, w", even) == []


def test_a_transposed_convolution_turned_round_has_steps_of_one() -> None:
    """What stands after it counts the positions of its result."""
    expression = "F.relu(F.conv_transpose2d(x, w) + s)"
    inputs = f"{IMAGES}, torch.randn(C, 6, 3, 3), torch.randn(6, 1, 1)"
    source = p.problem("N, C = 2, 4", p.forward(expression, "x, w, s"), inputs)
    (core,) = recognise(p.graph_of(source), lambda core: core.op == "conv").cores
    assert core.lane_size in core.arguments["after_operands"]
    tensors = {"x": torch.empty(2, 4, 9, 11), "w": torch.empty(4, 6, 3, 3)}
    assert eval(core.lane_size.format(x="x", w="w"), tensors) == 11 * 13


def test_an_image_without_a_batch_gets_one() -> None:
    (core,) = _cores("F.max_pool2d(x, 2)", inputs="torch.randn(C, 8, 8)")
    assert core.arguments["x"] == "{x}[None]"
    assert list(core.results.values()) == ["{r}[0]"]


_CONV = """def __init__(self):
    super().__init__()
    self.conv = nn.{module}

def forward(self, x):
    return F.relu(self.conv(x)) * 0.5"""
JUDGED = {
    "max-pool": p.problem(
        "N, C, H, W = 2, 2, 12, 13",
        p.forward("F.max_pool2d(torch.sigmoid(x), 3, 2, 1, dilation=2)"),
        "torch.randn(N, C, H, W)",
    ),
    "depthwise-conv": p.problem(
        "N, H, W = 2, 9, 18",
        _CONV.format(module="Conv2d(4, 8, (3, 5), stride=(1, 2), padding=1, groups=4)"),
        "torch.randn(N, 4, H, W)",
    ),
    "avg-pool": p.problem(
        "N, C, H, W = 2, 2, 12, 13",
        p.forward("F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) + 1.0"),
        "torch.randn(N, C, H, W)",
    ),
    "conv-transpose": p.problem(
        "N, H, W = 1, 4, 5",
        _CONV.format(module="ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2)"),
        "torch.randn(N, 4, H, W)",
    ),
    "conv": p.problem(
        "N, H, W = 1, 6, 7",
        _CONV.format(module="Conv2d(4, 6, 3, stride=2, padding=2, dilation=2)"),
        "torch.randn(N, 4, H, W)",
    ),
}


@pytest.mark.parametrize("family", JUDGED)
def test_every_kernel_of_a_family_is_right(
    family: str, interpreting: Zygote, tmp_path: Path
) -> None:
    graph = p.graph_of(JUDGED[family])
    kernels = CorpusCatalog().kernels(family, None, None)
    assert len(kernels) >= 2
    for stock in kernels:
        # Those that can take what stands after along, others without it.
        (core,) = recognise(graph, lambda core, one=stock: fits(core, one) is None).cores
        assert core.op == family
        kernel = adapt(graph, [(core, stock)], "A little problem").source
        found = p.judged(JUDGED[family], kernel, tmp_path, interpreting)
        assert found.verdict is Verdict.CORRECT, (stock.slug, found.reasons)
