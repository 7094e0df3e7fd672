"""Reductions and running sums are found over any dimension, with what is around them."""

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


def _problem(expression: str) -> str:
    return p.problem(_SIZES, p.forward(expression), _X)


def _two(expression: str, other: str) -> str:
    return p.problem(_SIZES, p.forward(expression, "x, y"), f"{_X}, {other}")


def _core(source: str) -> tuple[str, str, tuple[str, ...]]:
    (core,) = recognise(p.graph_of(source)).cores
    return core.op, core.arguments.get("kind", ""), core.fused


@pytest.mark.parametrize(
    ("expression", "op", "kind"),
    [
        ("x.sum(1)", "reduce", "'sum'"),
        ("x.mean((2, 3), keepdim=True)", "reduce", "'mean'"),
        ("x.amax(1)", "reduce", "'max'"),
        ("x.min(2)[0]", "reduce", "'min'"),
        ("x.sum()", "reduce", "'sum'"),
        ("torch.logsumexp(x, (2, 3), keepdim=True)", "logsumexp", ""),
        ("torch.norm(x, p=2, dim=1, keepdim=True)", "reduce", "'sum'"),
        ("torch.max(x, 1)", "argmax", ""),
        ("x.argmin(-1)", "argmax", ""),
        ("x.std(1)", "variance", ""),
        ("torch.var_mean(x, 1)", "variance", ""),
        ("x.cumprod(2)", "cumsum", "'prod'"),
    ],
)
def test_spellings_of_reductions(expression: str, op: str, kind: str) -> None:
    assert _core(_problem(expression))[:2] == (op, kind)


def test_dimensions_apart_are_no_reduction_of_neighbours() -> None:
    assert recognise(p.graph_of(_problem("x.sum((1, 3))"))).cores == ()


def test_keepdim_is_not_mistaken_for_another_flag() -> None:
    (kept,) = recognise(p.graph_of(_problem("x.var(1, keepdim=True)"))).cores
    (gone,) = recognise(p.graph_of(_problem("x.var(1, True)"))).cores
    assert ".view(" in next(iter(kept.results.values()))
    assert ".view(" not in next(iter(gone.results.values()))


def test_what_stands_around_is_fused() -> None:
    mean_square = _two("torch.mean((x - y) ** 2)", _X)
    assert _core(mean_square) == ("reduce", "'mean'", ("sub", "pow"))
    assert _core(_problem("F.relu(x.sum(1) * 2)")) == ("reduce", "'sum'", ("mul", "relu"))
    masked = _two("torch.cumsum(x * y, 1)", "torch.randint(0, 2, (A, B, C, D)).bool()")
    assert _core(masked) == ("cumsum", "'sum'", ("mul",))


def test_rows_of_a_product_are_reduced_in_its_epilogue() -> None:
    graph = p.graph_of(JUDGED["matmul-row-reduce"])
    (core,) = recognise(graph).cores
    assert (core.op, core.arguments["kind"], core.fused) == (
        "matmul-reduce", "'logsumexp'", ("leaky_relu",),
    )  # fmt: skip
    whole = _problem("torch.max(x.flatten(2)[0] @ x.flatten(2)[0].T)")
    assert all(core.op != "matmul-reduce" for core in recognise(p.graph_of(whole)).cores)


JUDGED = {
    "matmul-row-reduce": p.problem(
        "ROWS, INNER, COLUMNS = 6, 8, 20",
        p.forward("torch.logsumexp(F.leaky_relu(F.linear(x, w, b)), 1, keepdim=True)", "x, w, b"),
        "torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER), torch.randn(COLUMNS)",
    ),
    "reduce-dim-split": _two("torch.mean((x - y) ** 2, (1, 2), keepdim=True)", _X),
    "logsumexp-dim-online": _problem("F.relu(torch.logsumexp(x * 30, 1, keepdim=True) - 2)"),
    "argmax-dim-split": _problem("torch.max(x, 1)"),
    "variance-dim-welford": _problem("(x.mean(-1), x.var(-1, correction=0))"),
    "cumsum-dim-split": _two("torch.cumsum(x * y, 1)", "torch.randint(0, 2, (A, B, C, D)).bool()"),
    "cross-entropy-online": p.problem(
        "ROWS, CLASSES = 6, 11",
        p.forward("F.cross_entropy(x, t, label_smoothing=0.1)", "x, t"),
        "torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))",
    ),
}


@pytest.mark.parametrize("slug", JUDGED)
def test_an_adapted_reduction_is_right(slug: str, interpreting: Zygote, tmp_path: Path) -> None:
    graph = p.graph_of(JUDGED[slug])
    (core,) = recognise(graph).cores
    stock = next(s for s in CorpusCatalog().kernels(core.op, None, None) if s.slug == slug)
    found = p.judged(
        JUDGED[slug], adapt(graph, [(core, stock)], "A reduction").source, tmp_path, interpreting
    )
    assert found.verdict is Verdict.CORRECT, found.reasons
