"""What each lane computes by itself becomes one kernel: loops over time, small matrices."""

import pytest
import torch

from agent.proposers.recipe.adapt import adapt
from agent.proposers.recipe.lanes import region as lanes
from judge.evaluate.result import Verdict
from judge.graph import export_graph
from tests.agent.proposers.recipe.problems import ROOT, judged

FOLDER = ROOT / "tests" / "fixtures" / "lanes"
# The judge varies numbers of a module, up to thousands: each time step takes milliseconds here.
# Name, its sizes and smaller ones, operators that PyTorch computes beside the kernel, loops.
PROBLEMS = {
    "box_loss": ({"2_000_000": "300"}, (), 0),
    "gae": ({"T, N_ENVS = 128, 16384": "N_ENVS, T = 70, len('t' * 9)"}, ("mean", "var"), 1),
    "kinematics": ({"500_000": "150"}, (), 1),
    "selective_scan": ({"4, 256, 1536, 16": "2, 12, 23, 3", "[1536, 16]": "[23, 3]"}, (), 1),
    "splat": (
        # The determinant of a thin Gaussian cancels: eager errs at random there, others elsewhere.
        {"1_200_000": "130", "a * c - b * b": "a * c + b * b"},
        (), 0,
    ),
    "vtrace": (
        {"T, B, A = 80, 4096, 96": "B, T, A = 70, len('t' * 21), len('a' * 100)"},
        ("log_softmax", "gather", "sum", "mean"), 2,
    ),
}  # fmt: skip
# Written as users do, in what a lane can do by itself.
EXPRESSIONS = {
    "windows of a padded series": "F.pad(x, (2, 0)).unfold(1, 3, 1).amax(-1) - x",
    "a matrix and a vector": "torch.einsum('nij,nj->ni', x.view(-1, 2, 3), x[:, :3]).sin()",
    "products": "(x.view(-1, 2, 3) @ x.view(-1, 3, 2)).flatten(1).log1p().expm1()",
    "running sums": "torch.stack([x.cumsum(1), x.flip(1).cumsum(1)], 1).softmax(-1).std(1)",
    "conditions": "torch.where((x > 0) & ~(x > 1), x.relu(), -x * (x.norm(dim=1) < 2)[:, None])",
    "a slice that is set": "_halved(x)",
    "powers": "(x.abs() ** 1.7 + x % 0.3 + x.sign() * x.floor()).logsumexp(-1, True)",
}  # fmt: skip
FILE = """
import torch
import torch.nn.functional as F


def _halved(x):
    y = torch.zeros_like(x)
    y[:, 1:4] = x[:, 1:4] / 2
    y[:, 0] = x.mean(1)
    return torch.cat([y, y.square()], 1)


class Model(torch.nn.Module):
    def forward(self, x):
        y = {expression}
        return torch.tanh(y * 0.5 + 0.25) * torch.sigmoid(y) - torch.cos(y), y


def get_inputs():
    return [torch.randn(203, 6)]


def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def few_lanes(monkeypatch):
    monkeypatch.setattr(lanes, "_LEAST_LANES", 32)


@pytest.fixture
def right(interpreting, tmp_path):
    """A problem is computed by one kernel, and right; the region and the file."""

    def check(source):
        graph = export_graph(source, "problem.py", "float32", interpreting)
        region = lanes.region_of(graph)
        assert region is not None
        adapted = adapt(graph, [(region.core, region.recipe)], "problem")
        found = judged(source, adapted.source, tmp_path, interpreting)
        right = {Verdict.CORRECT, Verdict.SPECIALISED, Verdict.LIBRARY}
        assert found.verdict in right, found
        return region, adapted

    return check


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_of_this_kind_are_one_kernel_that_is_right(right, name):
    sizes, beside, loops = PROBLEMS[name]
    source = (FOLDER / f"{name}.py").read_text()
    for size, smaller in sizes.items():
        assert size in source
        source = source.replace(size, smaller)
    region, adapted = right(source)
    assert (adapted.beside, region.loops) == (beside, loops)


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_operators_within_a_lane_are_pytorchs(right, case):
    _, adapted = right(FILE.format(expression=EXPRESSIONS[case]))
    assert not adapted.beside


def test_a_loop_of_a_thousand_steps_is_as_short_as_one_of_ten(interpreting):
    lines = []
    for steps in (10, 200):
        source = FILE.format(expression=f"x\n        for _ in range({steps}): y = y * 0.9 + x")
        graph = export_graph(source, "problem.py", "float32", interpreting)
        region = lanes.region_of(graph)
        assert region is not None
        assert region.loops == 1
        lines.append(len(region.recipe.code.splitlines()))
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("expression", "replaced"),
    [
        ("x.sum(0) + x.mean(0) * x.std(0) - x.amax(0)", ("", "")),  # across lanes
        ("x.exp()", ("cos(y), y", "cos(y)")),  # a fused chain does the same
        ("x.sort(1).values.exp()", ("cos(y), y", "cos(y)")),
        ("torch.stack([x[:, i] for i in range(300)], 1).exp()", ("(203, 6)", "(203, 300)")),
    ],
)
def test_what_is_no_lanes_own_or_too_much_gets_no_kernel(interpreting, expression, replaced):
    source = FILE.format(expression=expression).replace(*replaced)
    graph = export_graph(source, "problem.py", "float32", interpreting)
    region = lanes.region_of(graph)
    assert region is None or "exp" not in region.core.nodes


def test_several_results_of_elementwise_operators_are_one_kernel(right):
    region, adapted = right(FILE.format(expression="x.exp()"))
    assert (region.core.returns, adapted.beside) == (2, ())


def test_other_small_sizes_are_refused_in_words(interpreting, tmp_path):
    graph = export_graph(FILE.format(expression="x.cumsum(1)"), "problem.py", None, interpreting)
    region = lanes.region_of(graph)
    assert region is not None
    (tmp_path / "kernel.py").write_text(region.recipe.code)
    space: dict = {}
    code = region.recipe.code.replace("@triton.jit", "")
    exec(code, space)
    with pytest.raises(ValueError, match="p0: this kernel is for other sizes"):
        space["kernel_function"](torch.zeros(203, 7))
