"""Exact rewrites: the graph computes the same in float64, with less work."""

import math
from typing import Any

import pytest
import torch

from agent.proposers.recipe.rewrites import rewrite_graph
from judge.graph import Graph, reference
from tests.agent.proposers.recipe.problems import graph_of, problem

MODEL = """
def __init__(self):
    super().__init__()
    self.scale = nn.Parameter(torch.randn(7))
    self.map = {layer}

def forward(self, x):
    return {forward}
"""
LINEAR, ROWS, BATCH = "nn.Linear(6, 7)", "torch.randn(5, 6)", "torch.randn(4, 5, 6)"
IMAGE = "torch.randn(2, 3, 9, 8)"
# Layer, what is computed, inputs.
CASES = {
    "columns": (LINEAR, "self.map(x).sum(1, keepdim=True)", ROWS),
    "columns, mean, a vector subtracted": (LINEAR, "(self.map(x) - self.scale).mean(1)", ROWS),
    "columns, numbers in between": (LINEAR, "((self.map(x) + 1.5) * 0.5 / 3).mean(-1)", ROWS),
    "columns of a batch, and its rows": (LINEAR, "self.map(x).mean((1, 2))", BATCH),
    "all of it": (LINEAR, "self.map(x).mean()", ROWS),
    "without a bias, swapped": (
        "nn.Linear(6, 7, bias=False)", "(x @ self.map.weight.T / 2).sum(1)", ROWS,
    ),
    "a product with a matrix": (
        "nn.Linear(7, 6)", "(x @ self.map.weight).sum(1, keepdim=True)", ROWS,
    ),
    "reductions of one element": (
        LINEAR, "torch.logsumexp(self.map(x).sum(1, keepdim=True).max(1, keepdim=True)[0]"
        ".mean(1, keepdim=True), dim=1)", ROWS,
    ),
    "rows": (LINEAR, "(self.map(x) * self.scale + 2).mean(1)", BATCH),
    "rows of a product with itself": ("nn.Tanh()", "(x @ x).mean(0)", "torch.randn(6, 6)"),
    "positions": ("nn.Conv2d(3, 4, 3)", "self.map(x).mean((2, 3), keepdim=True)", IMAGE),
    "positions, padded": ("nn.Conv2d(3, 4, 3, padding=1)", "self.map(x).mean((2, 3))", IMAGE),
    "positions, dilated": (
        "nn.Conv2d(3, 4, (3, 2), padding=(2, 1), dilation=(2, 3))",
        "self.map(x).mean((2, 3))", IMAGE,
    ),
    "positions, transposed": (
        "nn.ConvTranspose2d(3, 4, 3)", "F.adaptive_avg_pool2d(self.map(x) * 0.5, 1) + 1", IMAGE,
    ),
    "positions, transposed with strides": (
        "nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)",
        "self.map(x).mean((2, 3), keepdim=True).mean((2, 3), keepdim=True)", IMAGE,
    ),
    "positions of volumes": (
        "nn.ConvTranspose3d(3, 4, 4, stride=3, padding=2, dilation=2)",
        "self.map(x).mean((2, 3, 4))", "torch.randn(2, 3, 5, 4, 6)",
    ),
    "positions of rows": (
        "nn.Conv1d(3, 4, 5, padding=2, bias=False)", "self.map(x).mean(2)", "torch.randn(2, 3, 9)",
    ),
    "pooled convolution": (
        "nn.Conv2d(3, 4, 3)", "F.avg_pool2d(self.map(x), 2)", IMAGE,
    ),
    "pooled convolution, padded and in groups": (
        "nn.Conv2d(3, 6, (3, 2), padding=(1, 0), groups=3, bias=False)",
        "nn.AvgPool2d((4, 3))(self.map(x))", IMAGE,
    ),
    "pooled convolution of volumes, twice": (
        "nn.Conv3d(2, 3, 3)", "nn.AvgPool3d(2)(nn.AvgPool3d(2)(self.map(x)))",
        "torch.randn(1, 2, 12, 11, 10)",
    ),
    "pooled transposed convolution": (
        "nn.ConvTranspose3d(3, 4, 3, stride=2, padding=1, output_padding=1)",
        "nn.AvgPool3d(2)(self.map(x)).clamp(0, 1)", "torch.randn(2, 3, 4, 5, 3)",
    ),
    "pooled transposed convolution, wide windows": (
        "nn.ConvTranspose2d(3, 4, (7, 5), stride=(3, 2), padding=(2, 1))",
        "F.avg_pool2d(self.map(x), (3, 2))", IMAGE,
    ),
    "pooled transposed convolution, scaled": (
        "nn.ConvTranspose2d(3, 7, 3, stride=2, padding=1)",
        "F.avg_pool2d(self.map(x) * 0.5 - self.scale[:, None, None], 2) + 1", IMAGE,
    ),
    "averaged columns": (
        "nn.Linear(6, 14)", "F.avg_pool1d(self.map(x).unsqueeze(1), 4).squeeze(1)", ROWS,
    ),
    "averaged columns of a batch": (
        "nn.Linear(14, 6, bias=False)", "F.avg_pool1d(x @ self.map.weight, 2)", BATCH,
    ),
    "pooled transposed convolution of rows": (
        "nn.ConvTranspose1d(3, 4, 4, stride=2, bias=False)", "F.avg_pool1d(self.map(x), 2)",
        "torch.randn(2, 3, 9)",
    ),
}  # fmt: skip
# Not the same, or no less work.
KEPT = {
    "strides leave elements out": (
        "nn.Conv2d(3, 4, 3, stride=2)", "self.map(x).mean((2, 3))", IMAGE,
    ),
    "pooling that overlaps": (
        "nn.Conv2d(3, 4, 3)", "F.avg_pool2d(self.map(x), 3, stride=1)", IMAGE,
    ),
    "poolings that overlap": (
        "nn.Tanh()", "F.max_pool2d(F.max_pool2d(x, 2), 3, stride=1)", IMAGE,
    ),
    "poolings with gaps": (
        "nn.Tanh()", "F.max_pool2d(F.max_pool2d(x, 2, dilation=2, stride=2), 2)", IMAGE,
    ),
    "poolings with a part of a window": (
        "nn.Tanh()", "F.max_pool2d(F.max_pool2d(x, 2, ceil_mode=True), 2)", IMAGE,
    ),
    "pooling after what differs by position": (
        "nn.Conv2d(3, 4, 3, padding=1)", "F.avg_pool2d(self.map(x) * x[:, :1], 2)", IMAGE,
    ),
    "pooling with a border": (
        "nn.Conv2d(3, 4, 3)", "F.avg_pool2d(self.map(x), 2, padding=1)", IMAGE,
    ),
    "pooling of what has another stride": (
        "nn.ConvTranspose2d(3, 4, 3, stride=3)", "F.avg_pool2d(self.map(x), 2)", IMAGE,
    ),
    "heads of a usual width": (
        LINEAR, "F.scaled_dot_product_attention(x, x, x)", "torch.randn(2, 3, 4, 64)",
    ),
    "groups": ("nn.Conv2d(3, 3, 3, groups=3)", "self.map(x).mean((2, 3))", IMAGE),
    "no linear function in between": (LINEAR, "torch.relu(self.map(x)).mean(1)", ROWS),
    "a largest value": (LINEAR, "self.map(x).amax(1)", ROWS),
    "a number added and summed": (LINEAR, "(self.map(x) + 1).sum(1)", ROWS),
    "divided by it": (LINEAR, "(1 / self.map(x)).mean(1)", ROWS),
    "used elsewhere": (LINEAR, "(lambda y: y.mean(1, keepdim=True) + y)(self.map(x))", ROWS),
}  # fmt: skip


def graph(layer: str, forward: str, inputs: str) -> Graph:
    return graph_of(problem("", MODEL.format(layer=layer, forward=forward), inputs))


def value(argument: Any, known: dict[str, Any]) -> Any:
    if isinstance(argument, list):
        return [value(each, known) for each in argument]
    return known[argument["node"]] if isinstance(argument, dict) else argument


def computed(graph: Graph, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the graph returns, by PyTorch's own operators."""
    known: dict[str, Any] = {}
    for node in graph.nodes.values():
        if node.op in ("input", "tensor"):
            known[node.name] = given[node.name]
            continue
        args = [value(each, known) for each in node.args]
        if node.op == "getitem":
            known[node.name] = args[0][args[1]]
        else:
            _, name, overload = node.op.split(".")
            operator = getattr(getattr(torch.ops.aten, name), overload)
            known[node.name] = operator(*args, **node.kwargs)
        if len(node.tensors) == 1:
            assert list(known[node.name].shape) == node.tensors[0].shape, node
    return known[graph.outputs[0]]


def given(graph: Graph) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        node.name: torch.randn(node.tensors[0].shape, dtype=torch.float64)
        for node in graph.nodes.values()
        if node.op in ("input", "tensor")
    }


def work(graph: Graph) -> int:
    """Multiplications of products and convolutions."""
    total = 0
    for node in graph.nodes.values():
        if any(each in node.op for each in (".linear.", ".matmul.", ".conv")):
            left, weights = (graph.shape(str(reference(each))) for each in node.args[:2])
            # Each element of the left meets its share of the weights, or each result does.
            if ".conv" not in node.op:
                total += math.prod(left[:-1]) * math.prod(weights)
            elif "transpose" in node.op:
                total += math.prod(left) * math.prod(weights[1:])
            else:
                total += math.prod(graph.shape(node.name)) * math.prod(weights[1:])
    return total


@pytest.mark.parametrize("case", CASES)
def test_the_rewritten_graph_computes_the_same_with_less_work(case: str) -> None:
    before = graph(*CASES[case])
    found = rewrite_graph(before)
    assert found is not None
    after, rules = found
    assert rules
    assert work(after) < work(before)
    tensors = given(before)
    torch.testing.assert_close(computed(after, tensors), computed(before, tensors))
    # Strides and borders are numbers in it.
    assert after.sized == case.startswith("positions")


def test_attention_with_wide_heads_is_two_products_and_a_softmax() -> None:
    case = (LINEAR, "F.scaled_dot_product_attention(x, x + 1, x - 1)", "torch.randn(2, 3, 4, 320)")
    before = graph(*case)
    found = rewrite_graph(before)
    assert found is not None
    assert [node.op for node in found[0].nodes.values()].count("aten.matmul.default") == 2
    tensors = given(before)
    torch.testing.assert_close(computed(found[0], tensors), computed(before, tensors))


def test_two_maximum_poolings_are_one() -> None:
    before = graph(
        "nn.Tanh()", "F.max_pool2d(F.max_pool2d(x, (2, 1)), 3)", "torch.randn(2, 3, 14, 11)"
    )
    found = rewrite_graph(before)
    assert found is not None
    assert len(found[0].computed) == 1
    tensors = given(before)
    assert torch.equal(computed(found[0], tensors), computed(before, tensors))


@pytest.mark.parametrize("case", KEPT)
def test_what_is_not_the_same_is_left_as_it_is(case: str) -> None:
    assert rewrite_graph(graph(*KEPT[case])) is None
