"""Models that are more than one operator: each candidate is judged, in Triton's interpreter."""

from pathlib import Path

import pytest

from agent.proposers.recipe.catalog import CorpusCatalog
from benchmarks.optimize.coverage import proposals
from judge.evaluate.options import Options
from judge.evaluate.result import Verdict
from judge.graph import Graph, export_graph
from tests.agent.proposers.recipe import problems as p

FILE = """
import torch
from torch import nn

B = 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        return {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
IMAGE = "torch.rand(B, 8, 14, 14)"
SQUARE = "torch.randn(B * 9, B * 9)"
CONV = "self.conv = nn.Conv2d(8, 16, 3)"
CASES = {
    "a constant and a channel's bias after a convolution": (
        f"{CONV}; self.bias = nn.Parameter(torch.randn(16, 1, 1))",
        "(torch.min(self.conv(x), torch.tensor(0.5)) + self.bias) * 2.0", IMAGE,
        "fused after: clamp_max, add, mul", Verdict.CORRECT,
    ),
    "a channel's bias after a transposed convolution": (
        "self.conv = nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1); "
        "self.bias = nn.Parameter(torch.randn(16, 1, 1))",
        "torch.tanh(self.conv(x) - self.bias)", IMAGE, "fused after: ", Verdict.CORRECT,
    ),
    "a transposed convolution of stride 1 is a convolution": (
        "self.conv = nn.ConvTranspose2d(8, 16, (3, 5), padding=(1, 0), dilation=2)",
        "torch.tanh(self.conv(x))", IMAGE, "conv: ", Verdict.CORRECT,
    ),
    "operators by their other names": (
        CONV, "torch.clip(torch.multiply(x := self.conv(x), torch.special.expit(x)), -1, 1)", IMAGE,
        "fused after: sigmoid, mul, clamp", Verdict.CORRECT,
    ),
    "a bound on one side": (
        CONV, "torch.clamp(torch.clamp(self.conv(x), min=-0.3) / 2, max=0.2)", IMAGE,
        "fused after: clamp_min, div, clamp_max", Verdict.CORRECT,
    ),
    "GELU by the hyperbolic tangent": (
        "self.linear = nn.Linear(32, 24)",
        "nn.functional.gelu(self.linear(x) * 3, approximate='tanh')", "torch.rand(B * 8, 32)",
        "fused after: mul, gelu", Verdict.CORRECT,
    ),
    "batch norm in training": (
        f"{CONV}; self.norm = nn.BatchNorm2d(16)", "self.norm(self.conv(x)) * 2.0", IMAGE,
        "batch-norm-training", Verdict.CORRECT,
    ),
    "what has no kernel is PyTorch's": (
        "self.linear = nn.Linear(32, 16)",
        "torch.logcumsumexp(torch.sigmoid(self.linear(x)), dim=0)", "torch.rand(B * 8, 32)",
        "logcumsumexp by PyTorch", Verdict.LIBRARY,
    ),
    "a flattened image": (
        f"{CONV}; self.linear = nn.Linear(16 * 12 * 12, 10)",
        "self.linear(torch.flatten(torch.relu(self.conv(x)), 1))", IMAGE, "conv, matmul",
        Verdict.CORRECT,
    ),
    "heads split and joined": (
        "self.linear = nn.Linear(32, 32)",
        "nn.functional.scaled_dot_product_attention(*[self.linear(x).view(*x.shape[:2], 4, 8)"
        ".transpose(1, 2)] * 3, is_causal=True).transpose(1, 2).contiguous().view(x.shape)",
        "torch.randn(B, 20, 32)", "attention", Verdict.CORRECT,
    ),
    "an einsum that is a product": (
        "pass", "torch.einsum('bijl,lk->bijk', x, y)",
        "torch.rand(B, 3, 5, 32), torch.rand(32, 24)", "matmul", Verdict.CORRECT,
    ),
    "a triangle of a product": (
        "pass", "torch.tril(x @ y)", f"{SQUARE}, {SQUARE}", "matmul-triangular", Verdict.CORRECT,
    ),
    "a triangle of triangles' product": (
        "pass", "torch.triu(x @ y)", f"torch.triu({SQUARE}), torch.triu({SQUARE})",
        "matmul-triangular", Verdict.CORRECT,
    ),
    "a triangle times a matrix": (
        "pass", "x @ y", f"torch.tril({SQUARE}), {SQUARE}", "matmul-triangular", Verdict.CORRECT,
    ),
    "a product's columns averaged, and added to what came in": (
        "self.linear = nn.Linear(32, 24); self.sub = nn.Parameter(torch.randn(24))",
        "torch.nn.functional.gelu((self.linear(x) - self.sub).mean(1, keepdim=True)"
        ".logsumexp(1, keepdim=True)) + x.clone().detach()", "torch.rand(B * 8, 32)",
        "rewritten: a product's columns are reduced in its weights", Verdict.CORRECT,
    ),
    "a linear layer with one result": (
        "self.linear = nn.Linear(32, 1)", "torch.sigmoid(self.linear(x))", "torch.rand(B * 8, 32)",
        "matmul: ", Verdict.CORRECT,
    ),
    "a product's columns averaged by neighbours": (
        "self.linear = nn.Linear(32, 24)",
        "nn.functional.gelu(nn.functional.avg_pool1d(self.linear(x).unsqueeze(1), 4).squeeze(1))",
        "torch.rand(B * 8, 32)",
        "rewritten: a product's columns are averaged in its weights", Verdict.CORRECT,
    ),
    "a convolution pooled": (
        CONV, "torch.relu(nn.functional.avg_pool2d(self.conv(x) * 0.5, 2))", IMAGE,
        "rewritten: a convolution and the average pooling after it are one convolution",
        Verdict.CORRECT,
    ),
    "a transposed convolution pooled": (
        "self.conv = nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1)",
        "nn.functional.avg_pool2d(self.conv(x), 2).clamp(0, 1)", IMAGE,
        "rewritten: a transposed convolution and the average pooling after it are one convolution",
        Verdict.CORRECT,
    ),
    "a transposed convolution's positions averaged": (
        "self.conv = nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1)",
        "(self.conv(x) * 0.5).mean((2, 3), keepdim=True).mean((2, 3), keepdim=True)", IMAGE,
        "rewritten: a convolution's positions are averaged before it", Verdict.SPECIALISED,
    ),
    "a diagonal times a matrix": (
        "pass", "torch.diag(x) @ y", f"torch.randn(B * 9), {SQUARE}", "elementwise: mul",
        Verdict.CORRECT,
    ),
    "a channel's bias after elementwise work": (
        "self.bias = nn.Parameter(torch.randn(8, 1, 1))", "torch.selu(x * 2.0) + self.bias",
        IMAGE, "elementwise: mul, selu, add", Verdict.CORRECT,
    ),
    "a chain that reads what another chain ends in, one value a row": (
        "self.linear = nn.Linear(32, 32); self.sub = nn.Parameter(torch.randn(32))",
        "nn.functional.gelu(torch.mean(torch.relu(self.linear(x) - self.sub), 1, keepdim=True)"
        ".logsumexp(1, keepdim=True)) + x", "torch.rand(B * 8, 32)",
        "logsumexp: ", Verdict.CORRECT,
    ),
    "batch norm of features": (
        "self.linear = nn.Linear(32, 24); self.norm = nn.BatchNorm1d(24)",
        "torch.relu(self.norm(self.linear(x)))", "torch.rand(B * 40, 32)",
        "batch-norm-training", Verdict.CORRECT,
    ),
    "pooling goes before a convolution of single elements": (
        "self.conv = nn.Conv2d(8, 16, 1); self.pool = nn.AvgPool2d(2)",
        "self.pool(self.conv(torch.relu(x)))", IMAGE, "avg-pool, conv", Verdict.CORRECT,
    ),
    "an average over an image": (
        CONV, "nn.functional.adaptive_avg_pool2d(torch.relu(self.conv(x)), 1)", IMAGE,
        "conv, reduce", Verdict.CORRECT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_candidate_is_right(case: str, interpreting, tmp_path: Path) -> None:
    init, forward, inputs, note, verdict = CASES[case]
    names = "x, y" if forward.count("y") and ", torch." in inputs else "x"
    problem = tmp_path / "problem.py"
    problem.write_text(FILE.format(init=init, names=names, forward=forward, inputs=inputs))

    def export(source: str, _name: str, dtype: str | None) -> Graph:
        return p.graph_of(source, dtype)

    found, why = proposals(problem, "float32", CorpusCatalog(), export)
    assert found, why
    assert note in found[0].note
    options = Options(device="cpu", dtype="float32", timing=False, trust=True)
    judged = p.judged(problem.read_text(), found[0].source, tmp_path, interpreting, options)
    assert judged.verdict is verdict, (judged.reasons, found[0].source)


def test_running_statistics_are_not_updated_and_the_file_says_so(
    interpreting, tmp_path: Path
) -> None:
    init, forward, inputs, *_ = CASES["batch norm in training"]
    source = FILE.format(init=init, names="x", forward=forward, inputs=inputs)
    graph = export_graph(source, "problem.py", None, interpreting)
    assert graph.updates == (
        "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    )  # fmt: skip
    problem = tmp_path / "problem.py"
    problem.write_text(source)
    found, _ = proposals(problem, "float32", CorpusCatalog(), lambda *_: graph)
    assert "Not updated: norm.running_mean" in " ".join(found[0].source.split())


def test_numbers_are_drawn_in_the_order_and_sizes_of_the_model(
    interpreting, tmp_path: Path
) -> None:
    init = "self.rnn = nn.GRU(8, 12, batch_first=True)"
    forward = "self.rnn(x, torch.randn(1, x.shape[0], 12) + torch.rand(1, x.shape[0], 12))[0]"
    problem = tmp_path / "problem.py"
    problem.write_text(
        FILE.format(init=init, names="x", forward=forward, inputs="torch.randn(B + 1, 6, 8)")
    )
    found, why = proposals(
        problem, "bfloat16", CorpusCatalog(), lambda *given: export_graph(*given, interpreting)
    )
    assert found, why
    drawn = [line.strip() for line in found[0].source.splitlines() if "aten.rand" in line]
    assert [line.partition(" = ")[2] for line in drawn] == [
        f"torch.ops.aten.{name}.default([1, x.shape[0], 12], device=x.device, dtype=torch.bfloat16)"
        for name in ("randn", "rand")
    ]
    assert "alone" not in found[0].source.rpartition("def kernel_function")[2]
