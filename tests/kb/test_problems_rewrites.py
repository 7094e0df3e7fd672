"""The plan of a problem names exact rewrites, and no others."""

import pytest
from test_problems_useful import analysed

from kb.problems.plan import plan_line

ROWS, WEIGHT, OFFSET = "torch.rand(256, 1024)", "torch.rand(512, 1024)", "torch.rand(512)"
IMAGE, FILTERS, TURNED = (
    f"torch.rand({sizes})" for sizes in ("8, 16, 64, 64", "32, 16, 3, 3", "16, 32, 3, 3")
)
POOL, CONV, TRANSPOSED = "F.avg_pool2d({}, {})", "F.conv2d(a, b)", "F.conv_transpose2d(a, b{})"


def plan(result: str, *inputs: str, lines: str = "") -> str:
    return plan_line(analysed(result, *inputs, lines=lines), None) or ""


@pytest.mark.parametrize(
    ("result", "inputs", "told"),
    [
        (
            "((F.linear(a, b) - c) * 0.5).mean(1, keepdim=True)", (ROWS, WEIGHT, OFFSET),
            "the mean over linear's 512 columns is a product with the mean of the weights' columns",
        ),
        ("F.linear(a, b).sum(-1)", (ROWS, WEIGHT), "1.05 MFLOP instead of 268 MFLOP"),
        (
            "F.linear(a, b).mean(1)", ("torch.rand(8, 32, 1024)", WEIGHT),
            "the mean over rows may be computed before linear",
        ),
        (
            TRANSPOSED.format("") + ".mean((2, 3))", (IMAGE, TURNED),
            "the mean over all positions of conv_transpose2d is a small product",
        ),
        (POOL.format(CONV, 4), (IMAGE, FILTERS), "one convolution with a window of 6 x 6"),
        (
            POOL.format(CONV + " * c[:, None, None]", 4), (IMAGE, FILTERS, "torch.rand(32)"),
            "one convolution with a window of 6 x 6",
        ),
        (
            POOL.format(TRANSPOSED.format(", stride=2"), 2), (IMAGE, TURNED),
            "whose stride is the pooling's, is one convolution without stride",
        ),
    ],
)  # fmt: skip
def test_a_plan_names_exact_rewrites(result: str, inputs: tuple[str, ...], told: str) -> None:
    said = plan(result, *inputs)
    assert told in said
    assert "the same except for rounding" in said


@pytest.mark.parametrize(
    ("result", "inputs", "lines"),
    [
        ("torch.relu(F.linear(a, b)).mean(1)", (ROWS, WEIGHT), ""),
        ("F.linear(a, b).amax(1)", (ROWS, WEIGHT), ""),
        ("(F.linear(a, b) * F.linear(a, c)).mean(1)", (ROWS, WEIGHT, WEIGHT), ""),
        ("(F.linear(a, b) * c).mean(1)", (ROWS, WEIGHT, OFFSET), ""),
        ("(y * y).mean(1)", (ROWS, WEIGHT), "y = F.linear(a, b)"),
        ("y - y.mean(1, keepdim=True)", (ROWS, WEIGHT), "y = F.linear(a, b)"),
        ("(y, y.mean(1))", (ROWS, WEIGHT), "y = F.linear(a, b)"),
        ("F.linear(a, b).amax(1), c.mean(1)", (ROWS, WEIGHT, ROWS), ""),
        ("(1.0 / F.linear(a, b)).mean(1)", (ROWS, WEIGHT), ""),
        ("torch.tril(a @ b).mean(1)", ("torch.rand(512, 512)", "torch.rand(512, 512)"), ""),
        ("F.conv2d(a, b, stride=2).mean((2, 3))", (IMAGE, FILTERS), ""),
        ("F.avg_pool2d(F.conv2d(a, b), 3, stride=1)", (IMAGE, FILTERS), ""),
        ("F.avg_pool2d(F.conv2d(a, b), 4, ceil_mode=True)", (IMAGE, FILTERS), ""),
        (POOL.format("torch.sigmoid(F.conv2d(a, b))", 2), (IMAGE, FILTERS), ""),
        (POOL.format("F.conv2d(a, b, padding=1) * a[:, :1]", 2), (IMAGE, FILTERS), ""),
    ],
)
def test_what_is_not_the_same_is_not_named(
    result: str, inputs: tuple[str, ...], lines: str
) -> None:
    assert "exact rewrite" not in plan(result, *inputs, lines=lines)
