"""What is done to each row becomes one kernel: norms, their gradients, losses, quantization."""

import pytest

from agent.proposers.recipe.adapt import adapt
from agent.proposers.recipe.rows import launching, text
from agent.proposers.recipe.rows import region as rows
from judge.evaluate.result import Verdict
from judge.graph import export_graph
from tests.agent.proposers.recipe.problems import judged

FILE = """
import torch
import torch.nn.functional as F
from torch import nn

ROWS, COLS = 23, 40
JUDGE = {{"constants": {{"COLS": {{"min": 8, "multiple": 8}}}}}}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(COLS) + 0.5)
        self.register_buffer("bounds", torch.tensor([-0.5, 0.1, 0.7]))

    def forward(self, x, y, v, labels):
        {lines}


def get_inputs():
    labels = torch.randint(0, COLS, (ROWS,))
    labels[::5] = -100
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), torch.rand(ROWS), labels]


def get_init_inputs():
    return []
"""
# Lines of a forward, and operators that PyTorch computes beside the kernel.
MODELS = {
    "gradients of a norm": (
        """r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        g = y * self.weight
        c = (g * x * r).mean(-1, keepdim=True)
        dx = r * (g - x * r * c)
        return dx, (y * x * r).sum(0), y.mean(0), x.abs().amax(), y.amin((0, 1))""",
        (),
    ),
    "norms": (
        """h = F.layer_norm(x + y, (COLS,), self.weight, self.weight)
        return h, F.rms_norm(h, (COLS,), self.weight) * torch.sigmoid(v)[:, None]""",
        (),
    ),
    "losses": (
        """mask = labels != -100
        places = labels.clone()
        places[~mask] = 0
        logs = torch.log_softmax(x * 0.5, -1)
        chosen = logs.gather(-1, places[:, None]).squeeze(-1)
        entropy = -(logs.exp() * logs).sum(-1)
        return chosen * mask, entropy, x.logsumexp(-1) - y.softmax(-1).amax(-1)""",
        (),
    ),
    "scores of labels": (
        """hot = torch.arange(COLS, device=x.device) == labels[:, None]
        return torch.where(hot, x - 1.0, x.softmax(-1)) * v[:, None], hot.sum(-1)""",
        (),
    ),
    "gradients of a loss": (
        """places = labels.masked_fill(labels < 0, 0)[:, None]
        soft = torch.softmax(x, -1) * 0.9
        grad = (soft + y[:, :1]).scatter_add(1, places, torch.full_like(x[:, 2:3], -0.9))
        hot = torch.zeros_like(x).scatter(1, places, 1.0)
        return grad * v[:, None], hot * x, (v * v).sum(), x.logsumexp(-1).mean()""",
        (),
    ),
    "groups of eight": (
        """h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight
        g = h.view(ROWS, -1, 8)
        scale = g.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 7
        return (g / scale).view(ROWS, COLS), scale.squeeze(-1)""",
        (),
    ),
    "halves": (
        """first, second = torch.cat([x, y], -1).chunk(2, -1)
        h = F.silu(first) * second
        turned = torch.cat([-h[:, COLS // 2 :], h[:, : COLS // 2]], -1)
        return h * v[:, None] + turned, torch.cat([h * 2, h.exp()], -1)""",
        (),
    ),
    "codes": (
        """scale = x.abs().amax(-1, keepdim=True) / 7
        code = torch.bucketize(x / scale, self.bounds).to(torch.uint8)
        code = code | ((y < 0).to(torch.uint8) << 3)
        return code[:, 0::2] | (code[:, 1::2] << 4), (x > 0).sum(-1), scale""",
        (),
    ),
    "running sums": ("return x.cumsum(-1) * y, x.softmax(-1).cumsum(-1) + v[:, None]", ()),
    "deviations": (
        "return (x - x.mean(-1, True)) / x.std(-1, keepdim=True), y.var(-1) * y.norm(dim=-1)",
        (),
    ),
}


NOT_BY_CHUNKS = ("gradients of a norm", "running sums", "halves", "groups of eight", "codes")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(rows, "_LEAST", 32)


@pytest.fixture
def right(interpreting, tmp_path):
    """Kernels for rows compute a model, and right; the regions and the file."""

    def check(source):
        graph = export_graph(source, "problem.py", "float32", interpreting)
        regions = rows.regions_of(graph)
        assert regions
        pairs = [(region.core, region.recipe) for region in regions]
        adapted = adapt(graph, pairs, "problem")
        found = judged(source, adapted.source, tmp_path, interpreting)
        assert found.verdict in {Verdict.CORRECT, Verdict.SPECIALISED}, (found, adapted.source)
        return regions, adapted

    return check


@pytest.mark.parametrize("case", MODELS)
def test_what_is_done_to_rows_is_one_kernel(right, case):
    lines, beside = MODELS[case]
    regions, adapted = right(FILE.format(lines=lines))
    assert (len(regions), adapted.beside) == (1, beside)


@pytest.mark.parametrize("case", [case for case in MODELS if case not in NOT_BY_CHUNKS])
def test_rows_that_are_too_long_for_registers_are_read_by_chunks(right, monkeypatch, case):
    monkeypatch.setattr(text, "WIDEST", 32)
    monkeypatch.setattr(launching, "_CHUNKS", (16, 32, 64, 128))
    regions, _ = right(FILE.format(lines=MODELS[case][0]))
    assert any("for start in tl.range" in region.recipe.code for region in regions)
