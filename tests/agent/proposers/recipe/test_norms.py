"""Norms and softmax of any dimension are found where they lie, with what is around them."""

from pathlib import Path

import pytest

from agent.proposers.recipe.adapt import adapt
from agent.proposers.recipe.catalog import CorpusCatalog
from agent.proposers.recipe.operators import recognise
from judge.evaluate.result import Verdict
from judge.sandbox.launch import Zygote
from tests.agent.proposers.recipe import problems as p

_SIZES = "A, B, C, D = 2, 8, 3, 5"
_X = "torch.randn(A, B, C, D)"
_AFFINE = """def __init__(self, count):
    super().__init__()
    self.w = nn.Parameter(torch.rand(count) + 0.5)
    self.b = nn.Parameter(torch.randn(count))

def forward(self, x):
    return {}"""


def _problem(model: str, init: str = "", inputs: str = _X) -> str:
    body = model if "def " in model else p.forward(model, ", ".join("xy"[: inputs.count("randn")]))
    return p.problem(_SIZES, body, inputs, init)


def _cores(model: str, init: str = "", inputs: str = _X) -> list[tuple[str, tuple[str, ...]]]:
    found = recognise(p.graph_of(_problem(model, init, inputs))).cores
    return [(core.op, core.fused) for core in found]


def test_a_norm_over_the_channels_moves_nothing() -> None:
    (core,) = recognise(p.graph_of(p.benchmark("kernels/rmsnorm_channels"))).cores
    assert core.arguments["dim"] == "1"
    assert "movedim" not in "".join((*core.arguments.values(), *core.results.values()))


def test_a_channels_weight_is_found_behind_its_view() -> None:
    model = _AFFINE.format("x * torch.rsqrt((x*x).mean(1, True) + 1e-5) * self.w.view(1, -1, 1, 1)")
    (core,) = recognise(p.graph_of(_problem(model, "B"))).cores
    assert core.arguments["weight"] == "{p_w}.reshape(-1)"
    # Along another dimension it is no weight of the norm, and is left to what stands after.
    other = _AFFINE.format("x * torch.rsqrt((x * x).mean(1, True) + 1e-5) * self.w")
    (core,) = recognise(p.graph_of(_problem(other, "D"))).cores
    assert "weight" not in core.arguments


def test_what_stands_around_is_fused() -> None:
    assert _cores(_AFFINE.format("F.relu(F.group_norm(x, 4, self.w, self.b))"), "B") == [
        ("group-norm", ("relu",))
    ]
    assert _cores("torch.softmax(x * 0.125 + y, -1)", inputs=f"{_X}, torch.randn(C, D)") == [
        ("softmax", ("mul", "add"))
    ]
    assert _cores("F.gelu(F.layer_norm(x, (D,))) + x") == [("layer-norm", ("gelu", "add"))]
    # The sum is an output too, so it has to be written.
    assert _cores("(s := x + 1, F.layer_norm(s, (D,)))") == [("layer-norm", ())]


def test_an_operand_that_cannot_be_read_at_its_place_is_not_fused() -> None:
    # Over dimension 1 a lane runs along the last two; [D] alone would be read out of place.
    assert _cores("torch.softmax(x + y, 1)", inputs=f"{_X}, torch.randn(D)") == [("softmax", ())]


def test_a_division_by_a_norm_is_found_where_the_norm_has_no_other_use() -> None:
    assert _cores("F.normalize(x, dim=1, eps=1e-6)") == [("normalize", ())]
    (core,) = recognise(p.graph_of(_problem("F.normalize(x, p=1.0, dim=2, eps=1e-6)"))).cores
    assert {key: core.arguments[key] for key in ("dim", "kind", "eps")} == {
        "dim": "2", "kind": "'l1'", "eps": "1e-06"
    }  # fmt: skip
    # Without a least value a row of zeros is NaN, as in the model.
    (core,) = recognise(p.graph_of(_problem("x / x.norm(dim=1, keepdim=True)"))).cores
    assert core.arguments["eps"] == "0.0"
    for other in ("(n := x.norm(dim=1, keepdim=True), x / n)", "y / x.norm(dim=1, keepdim=True)"):
        found = _cores(other, inputs=f"{_X}, {_X}" if "y" in other else _X)
        assert "normalize" not in [family for family, _ in found]


def test_statistics_that_are_updated_are_left_alone() -> None:
    model = """def __init__(self):
    super().__init__()
    self.norm = nn.InstanceNorm2d(B, track_running_stats=True)

def forward(self, x):
    return self.norm(x)"""
    assert _cores(model) == []


JUDGED = {
    "rmsnorm-dim-tiled": _problem("x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)"),
    "layernorm-dim-tiled": _problem(
        _AFFINE.format("F.gelu(F.layer_norm(x + 1, (x.shape[-1],), self.w, self.b)) + x"), "D"
    ),
    "softmax-dim-online": _problem("torch.softmax(x * 0.5, 1)"),
    "log-softmax-dim-tiled": _problem("F.log_softmax(x + y, -1)", "", f"{_X}, torch.randn(C, D)"),
    "groupnorm-lagged": _problem("F.relu(F.instance_norm(x, eps=1e-5))"),
    "lp-normalize-dim": _problem("x / x.abs().mean(1, keepdim=True)"),
    "lp-normalize-rows": _problem("x / torch.norm(x, p=2, dim=-1, keepdim=True)"),
}


@pytest.mark.parametrize("slug", JUDGED)
def test_an_adapted_norm_is_right(slug: str, interpreting: Zygote, tmp_path: Path) -> None:
    graph = p.graph_of(JUDGED[slug])
    (core,) = recognise(graph).cores
    stock = next(s for s in CorpusCatalog().kernels(core.op, None, None) if s.slug == slug)
    found = p.judged(
        JUDGED[slug], adapt(graph, [(core, stock)], "A norm").source, tmp_path, interpreting
    )
    assert found.verdict is Verdict.CORRECT, found.reasons
