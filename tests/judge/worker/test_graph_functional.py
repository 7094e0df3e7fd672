"""A model is decomposed only where that changes its graph."""

from pathlib import Path
from unittest import mock

import pytest
import torch

from judge.worker import graph
from judge.worker.messages import ExportGraph

aten = torch.ops.aten

# Composite operators, views, a recurrent layer, and random numbers and parts that nothing reads.
UNCHANGED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 8)
        self.fixed = torch.ones(8)

    def forward(self, x):
        torch.rand(3) + x[0, 0, :3]
        states, _ = self.rnn(x.transpose(0, 1).detach())
        wide = nn.functional.interpolate(states, scale_factor=2.0, mode="nearest")
        left, right = nn.functional.layer_norm(wide, [16]).split(8, dim=-1)
        return torch.softmax(left @ right.transpose(1, 2), -1).sum(), x[:, None], self.fixed, x

def get_inputs():
    return [torch.randn(2, 4, 8)]

def get_init_inputs():
    return []
"""


def test_what_stays_as_it_is_is_not_decomposed(tmp_path: Path) -> None:
    command = ExportGraph(source=UNCHANGED, module_name="problem")
    with mock.patch.object(torch.export.ExportedProgram, "run_decompositions") as decomposed:
        exported = graph.export(command, tmp_path)
    assert not decomposed.called
    with mock.patch.object(graph, "_stays", return_value=False):
        assert graph.export(command, tmp_path) == exported
    assert "aten.lstm.input" in {node.op for node in exported.nodes}


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(aten.relu_.default, id="in place"),
        pytest.param(aten.batch_norm.default, id="updates statistics unsaid"),
        pytest.param(aten.native_batch_norm.default, id="replaced by one with another schema"),
        pytest.param(aten.chunk.default, id="composed of views"),
        pytest.param(aten.contiguous.default, id="its input, or a copy"),
        pytest.param(aten.lift_fresh_copy.default, id="a constant of the code"),
        pytest.param(aten.softshrink.default, id="written in Python"),
        pytest.param(torch.ops.prims.sin.default, id="not of aten"),
        pytest.param(torch.ops.higher_order.cond, id="a branch"),
    ],
)
def test_what_decomposing_changes_is_decomposed(operator: object) -> None:
    assert not graph._stays(operator)
