"""A problem's graph, exported by the process that judges the run."""

import pytest

from agent.optimize.judge_process import JudgeError, JudgeProcess
from agent.proposers.recipe.exporting import ExportGraph
from judge.graph import Graph
from judge.progress import silent

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(4, 20)]

def get_init_inputs():
    return []
"""


def test_a_judging_process_exports_graphs_and_says_why_it_cannot() -> None:
    process = JudgeProcess()
    try:
        asked = ExportGraph(source=PROBLEM, name="relu.py", interpret=True)
        graph = Graph.from_export(process.ask(asked, silent))
        assert [graph[name].op for name in graph.computed] == ["aten.relu.default"]
        broken = ExportGraph(source="import not_there\n", name="broken.py", interpret=True)
        with pytest.raises(JudgeError, match="not_there"):
            process.ask(broken, silent)
    finally:
        process.close()
