"""What a module of many operators takes to be understood grows as their number does.

Calls of Python are counted, which no other process disturbs.
"""

import sys

import pytest

from kb.context.alike import kernels_alike
from kb.problems.analysis import analyse
from kb.problems.reading import read_problem
from kb.search.opening import open_searcher

STEPS = {
    "softmax": "x = x.softmax(-1)",
    "likelihood": "x = x.log_softmax(-1).gather(1, i) + (x - x.logsumexp(-1, keepdim=True))",
    "router": "v, j = x.topk(64)\n            x = x.gather(1, j) + j.argsort()",
    "rounded": "x = x.round() @ x",
    "optimizer": "x = x - (x * 0.9 + x * x) / (x.sqrt() + 1e-6)",
    "written": "y[:, i] = x\n            x = (y * x) @ x",
}


@pytest.fixture(scope="module")
def generation(shipped_index):
    return open_searcher(shipped_index).generation


def calls(step: str, steps: int, generation) -> int:
    text = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, i):\n"
        f"        y = torch.zeros(64, 64)\n        for _ in range({steps}):\n            {step}\n"
        "        return x\n\ndef get_inputs():\n"
        "    return [torch.rand(64, 64), torch.randint(0, 9, (64, 1))]\n"
    )
    problem, count = read_problem(text), 0

    def seen(frame, event, arg):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        analysis = analyse(problem)
        kernels_alike(analysis, generation, generation.kernel_entries, "H200")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", STEPS)
def test_twice_the_operators_take_about_twice_the_calls(name, generation):
    calls(STEPS[name], 10, generation)  # fills what is cached
    few, many = (calls(STEPS[name], steps, generation) for steps in (200, 400))
    assert many < 2.6 * few
