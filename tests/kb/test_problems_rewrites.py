"""The plan of a problem names exact rewrites, and no others."""

import pytest

from kb.problems.analysis import analyse
from kb.problems.plan import plan_line
from kb.problems.reading import read_problem

FILE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = {layer}
        self.offset = nn.Parameter(torch.randn(512))

    def forward(self, x):
        return {forward}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
LINEAR, ROWS, IMAGE = "nn.Linear(1024, 512)", "torch.rand(256, 1024)", "torch.rand(8, 16, 64, 64)"


def plan(layer: str, forward: str, inputs: str) -> str:
    text = FILE.format(layer=layer, forward=forward, inputs=inputs)
    return plan_line(analyse(read_problem(text)), None) or ""


@pytest.mark.parametrize(
    ("layer", "forward", "inputs", "told"),
    [
        (
            LINEAR, "((self.map(x) - self.offset) * 0.5).mean(1, keepdim=True)", ROWS,
            "the mean over linear's 512 columns is a product with the mean of the weights' columns",
        ),
        (LINEAR, "self.map(x).sum(-1)", ROWS, "1.05 MFLOP instead of 268 MFLOP"),
        (
            LINEAR, "self.map(x).mean(1)", "torch.rand(8, 32, 1024)",
            "the mean over rows may be taken before linear",
        ),
        (
            "nn.ConvTranspose2d(16, 32, 3)", "self.map(x).mean((2, 3))", IMAGE,
            "the mean over all positions of conv_transpose2d is a small product",
        ),
        (
            "nn.Conv2d(16, 32, 3)", "F.avg_pool2d(self.map(x), 4)", IMAGE,
            "one convolution with a window of 6 x 6",
        ),
        (LINEAR, "torch.relu(self.map(x)).mean(1)", ROWS, ""),
        (LINEAR, "self.map(x).amax(1)", ROWS, ""),
        ("nn.Conv2d(16, 32, 3, stride=2)", "self.map(x).mean((2, 3))", IMAGE, ""),
        ("nn.Conv2d(16, 32, 3)", "F.avg_pool2d(self.map(x), 3, stride=1)", IMAGE, ""),
        ("nn.Conv2d(16, 32, 3)", "F.avg_pool2d(torch.sigmoid(self.map(x)), 2)", IMAGE, ""),
        (
            "nn.ConvTranspose2d(16, 32, 3, stride=2)", "F.avg_pool2d(self.map(x), 2)", IMAGE,
            "whose stride is the pooling's, is one convolution without stride",
        ),
    ],
)  # fmt: skip
def test_a_plan_names_exact_rewrites(layer: str, forward: str, inputs: str, told: str) -> None:
    said = plan(layer, forward, inputs)
    assert told in said
    assert ("the same but for rounding" in said) == bool(told)
