"""Operators are recognised by what the graph computes, not by names."""

import pytest

from agent.proposers.recipe.operators import recognise
from judge.graph import GraphError
from tests.agent.proposers.recipe import problems as p

CASES = {
    "judge/abs_sum": ["reduce"],
    "judge/argmax": ["argmax"],
    "judge/column_sum": ["column-sum"],
    "judge/cross_entropy": ["cross-entropy"],
    "judge/cumsum": ["cumsum"],
    "judge/group_norm": ["group-norm"],
    "judge/layer_norm": ["layer-norm"],
    "judge/moments": ["variance"],
    "judge/depthwise": ["depthwise-conv"],
    "judge/linear": ["matmul"],
    "judge/matmul": ["matmul"],
    "judge/matvec": ["matvec"],
    "judge/max_pool": ["max-pool"],
    "judge/rms_norm": ["rmsnorm"],
    "judge/softmax": ["softmax"],
    "judge/swiglu": ["silu-mul"],
    "judge/transpose": ["transpose"],
    "kernels/rmsnorm_channels": ["rmsnorm"],
    "kernels/matvec": ["matvec"],
    "kernels/nvfp4_quantize_128x14336": ["quantize"],
    "kernels/silu_mul_nvfp4_8x256x7168": ["silu-mul-quantize"],
    "kernels/add_rmsnorm_nvfp4_128x2048": ["add-rmsnorm-quantize"],
}
# No kernels for these; a wrong guess would waste the GPU's time.
NONE = ("add_gelu",)


@pytest.mark.parametrize("name", CASES)
def test_a_problems_operators_are_recognised(name: str) -> None:
    found = recognise(p.graph_of(p.benchmark(name)))
    assert [core.op for core in found.cores] == CASES[name]


@pytest.mark.parametrize("name", NONE)
def test_what_is_not_known_is_named(name: str) -> None:
    found = recognise(p.graph_of(p.benchmark(f"judge/{name}")))
    assert found.cores == ()
    assert found.reason.startswith("no kernel of the knowledge base computes a part of: ")


def _families(
    expression: str, parameters: str = "x", inputs: str = "torch.randn(N, M)"
) -> list[str]:
    source = p.problem("N, M = 8, 16", p.forward(expression, parameters), inputs)
    return [core.op for core in recognise(p.graph_of(source)).cores]


def test_spellings_of_one_operator() -> None:
    both = "torch.randn(N, M), torch.randn(N, M)"
    assert _families("x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)") == ["rmsnorm"]
    assert _families("F.rms_norm(x, (M,), eps=1e-6)") == ["rmsnorm"]
    assert _families("x[:, M // 2 :] * F.silu(x[:, : M // 2])") == ["silu-mul"]
    assert _families("x + y", "x, y", both) == ["elementwise-add"]
    assert _families("3 * x") == ["scale"]


def test_likenesses_are_told_apart() -> None:
    both = "torch.randn(N, M), torch.randn(N, M)"
    # Not the mean of squares of what is scaled; half of another half; a sum of scaled values.
    assert _families("x * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)", "x, y", both) == [
        "reduce"
    ]
    assert _families("F.silu(x[:, M // 2 :]) * x[:, : M // 2]") == []
    assert _families("torch.add(x, y, alpha=2)", "x, y", both) == []
    # The inner value is needed elsewhere: a kernel would not give it.
    assert _families("(F.softmax(x, -1), x.t().contiguous(), 2 * x)") == ["softmax"]
    source = p.problem(
        "N = 8",
        "def forward(self, x):\n    s = x * x\n    m = torch.rsqrt(s.mean(-1, keepdim=True) + 1e-6)"
        "\n    return x * m, s",
        "torch.randn(N, N)",
    )
    assert [core.op for core in recognise(p.graph_of(source)).cores] == ["reduce"]


def test_the_sum_before_a_norm_is_a_result_as_well() -> None:
    (core,) = recognise(p.graph_of(p.ADD_RMSNORM)).cores
    assert core.op == "add-rmsnorm"
    assert sorted(core.results.values()) == ["{r0}", "{r1}"]


def test_a_model_whose_flow_depends_on_values_has_a_reason() -> None:
    source = p.problem(
        "N = 8",
        "def forward(self, x):\n    return x if x.sum() > 0 else -x",
        "torch.randn(N, N)",
    )
    line = 1 + source[: source.index("return x if")].count("\n")
    why = rf"the model has no graph: its branches or sizes depend on values .* \(line {line}\)$"
    with pytest.raises(GraphError, match=why):
        p.graph_of(source)


def test_nothing_is_allocated() -> None:
    # 4 TiB of parameters and as much input.
    source = p.problem(
        "N = 1 << 20",
        "def __init__(self):\n    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.randn(N, N))\n\n"
        "def forward(self, x):\n    return x @ self.weight",
        "torch.randn(N, N)",
    )
    (core,) = recognise(p.graph_of(source, "bfloat16")).cores
    assert core.op == "matmul"
