"""Attention, losses, batched products and the like: recognised, and right with a kernel."""

from pathlib import Path

import pytest

from agent.proposers.recipe.adapt import adapt, fits
from agent.proposers.recipe.catalog import CorpusCatalog
from agent.proposers.recipe.core import Core
from agent.proposers.recipe.operators import recognise
from judge.evaluate.result import Verdict
from judge.sandbox.launch import Zygote
from tests.agent.proposers.recipe import problems as p

QKV = ", ".join(f"torch.randn(BATCH, HEADS, {each}, D)" for each in ("N", "S", "S"))
SIZES = "BATCH, HEADS, N, S, D = 1, 2, 20, 20, 16"
MASKED = """def forward(self, q, k, v):
    later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1)) * 0.3
    return torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v"""
ROPE = """def forward(self, x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)"""
LINEAR = """def __init__(self, width, out):
    super().__init__()
    self.layer = nn.Linear(width, out)

def forward(self, x):
    return torch.relu(self.layer(x))"""
NORM = """def __init__(self, channels):
    super().__init__()
    self.weight = nn.Parameter(torch.rand(channels) + 0.5)
    self.bias = nn.Parameter(torch.randn(channels))

def forward(self, x):
    return torch.relu(F.batch_norm(x, None, None, self.weight, self.bias, training=True))"""
DIVERGENCE = """def forward(self, x, y):
    theirs = F.log_softmax(y, dim=-1)
    return F.kl_div(F.log_softmax(x, dim=-1), theirs, reduction="batchmean", log_target=True)"""
LAYERS = """def __init__(self, width, hidden):
    super().__init__()
    self.layers = nn.{}(width, hidden, 2, {})

def forward(self, x, h):
    y, last = self.layers(x, {})
    return y, {}"""
BUFFER = """def __init__(self, size):
    super().__init__()
    self.register_buffer("hidden", torch.ones(size, size).triu(1).bool())

def forward(self, q, k, v):
    scores = (q @ k.transpose(-2, -1) * 0.3).masked_fill(self.hidden, float("-inf"))
    return F.dropout(F.softmax(scores, dim=-1), 0.0) @ v"""
TWO = "torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)"

FAMILIES = {
    "attention-causal": (
        "attention",
        p.problem(SIZES, p.forward(
            "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "q, k, v"), QKV),
    ),
    "attention-masked": ("attention", p.problem(SIZES, MASKED, QKV)),
    "attention-mask-of-the-model": ("attention", p.problem(SIZES, BUFFER, QKV, "N")),
    "lstm": (
        "recurrent-layers",
        p.problem(
            "STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 10, 20\n"
            "JUDGE = {'constants': {'HIDDEN': {'max': 40}, 'WIDTH': {'max': 40}}}",
            LAYERS.format("LSTM", "batch_first=True", "(h, h)", "last[1]"),
            "torch.randn(BATCH, STEPS, WIDTH), torch.randn(2, BATCH, HIDDEN)", "WIDTH, HIDDEN",
        ),
    ),
    "gru": (
        "recurrent-layers",
        p.problem(
            "STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 10, 20\n"
            "JUDGE = {'constants': {'HIDDEN': {'max': 40}, 'WIDTH': {'max': 40}}}",
            LAYERS.format("GRU", "bias=False, bidirectional=True", "h", "last"),
            "torch.randn(STEPS, BATCH, WIDTH), torch.randn(4, BATCH, HIDDEN)", "WIDTH, HIDDEN",
        ),
    ),
    "attention-bias": (
        "attention",
        p.problem(
            SIZES, p.forward(
                "torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, dim=-1) @ v", "q, k, v, bias"
            ), QKV + ", torch.randn(HEADS, N, S)",
        ),
    ),
    "attention-decode": (
        "attention-decode",
        p.problem(
            "BATCH, HEADS, S, D = 2, 2, 40, 16",
            p.forward("F.scaled_dot_product_attention(q, k, v, enable_gqa=True)", "q, k, v"),
            "torch.randn(BATCH, 3 * HEADS, 1, D), torch.randn(BATCH, HEADS, S, D), "
            "torch.randn(BATCH, HEADS, S, D)",
        ),
    ),
    "batched": (
        "batched-matmul",
        p.problem("BATCH, M, N, K = 2, 20, 18, 24", p.forward("torch.relu(a @ b)", "a, b"),
                  "torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)"),
    ),
    "linear": (
        "matmul",
        p.problem("ROWS, WIDTH, OUT = 20, 24, 18", LINEAR, "torch.randn(ROWS, WIDTH)",
                  "WIDTH, OUT"),
    ),
    "rope": (
        "rope",
        p.problem("HEADS, N, HALF = 2, 6, 8", ROPE,
                  "torch.randn(HEADS, N, 2 * HALF), torch.randn(N, HALF), torch.randn(N, HALF)"),
    ),
    "reverse": (
        "cumsum", p.problem("ROWS, COLS = 3, 40", p.forward("x.flip(-1).cumsum(-1).flip(-1)"),
                            "torch.randn(ROWS, COLS)"),
    ),
    "causal-softmax": (
        "causal-softmax",
        p.problem(
            "HEADS, N = 2, 20",
            p.forward(
                "torch.softmax((x * 0.5).masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool, "
                "device=x.device).triu(1), float('-inf')), dim=-1)"
            ), "torch.randn(HEADS, N, N)",
        ),
    ),
    "training": (
        "batch-norm-training",
        p.problem(
            "BATCH, CHANNELS, H, W = 3, 4, 5, 6\n"
            "JUDGE = {'constants': {'H': {'min': 2}, 'W': {'min': 2}}}",
            NORM, "torch.randn(BATCH, CHANNELS, H, W)", "CHANNELS",
        ),
    ),
    "mse": ("loss", p.problem("ROWS, COLS = 6, 40", p.forward("F.mse_loss(x, y)", "x, y"), TWO)),
    "smooth-l1": (
        "reduce",
        p.problem("ROWS, COLS = 6, 40", p.forward(
            "F.smooth_l1_loss(x, y, reduction='none', beta=0.5).mean(dim=-1)", "x, y"), TWO),
    ),
    "divergence": ("distillation-loss", p.problem("ROWS, COLS = 6, 40", DIVERGENCE, TWO)),
    "divergence of probabilities": (
        "reduce",
        p.problem("ROWS, COLS = 6, 40", p.forward(
            "F.kl_div(torch.log(x), y, reduction='batchmean')", "x, y"),
            "torch.rand(ROWS, COLS).softmax(-1), torch.rand(ROWS, COLS).softmax(-1)"),
    ),
    "triplet": (
        "triplet-loss",
        p.problem("ROWS, COLS = 6, 40", p.forward(
            "F.triplet_margin_loss(x, y, z, margin=0.7)", "x, y, z"),
            ", ".join(["torch.randn(ROWS, COLS)"] * 3)),
    ),
    "product": ("reduce", p.problem(
        "ROWS, COLS = 6, 40", p.forward("torch.prod(x, dim=1)"), "torch.rand(ROWS, COLS) + 0.5")),
}  # fmt: skip


@pytest.fixture(scope="module")
def shelf() -> CorpusCatalog:
    return CorpusCatalog()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_best_kernel_of_a_family_is_right(
    name: str, shelf: CorpusCatalog, interpreting: Zygote, tmp_path: Path
) -> None:
    family, source = FAMILIES[name]
    graph = p.graph_of(source)

    def usable(core: Core) -> bool:
        return any(fits(core, stock) is None for stock in shelf.kernels(core.op, None, None))

    (core,) = recognise(graph, usable).cores
    assert core.op == family
    stock = next(s for s in shelf.kernels(family, None, None) if fits(core, s) is None)
    adapted = adapt(graph, [(core, stock)], name)
    assert adapted.beside == ()
    found = p.judged(source, adapted.source, tmp_path, interpreting)
    assert found.verdict is Verdict.CORRECT, (stock.slug, found.reasons)


@pytest.mark.parametrize(
    "expression",
    [
        "0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * torch.pow(x, 3.0))))",
        "F.celu(x, 1.3)",
        "F.logsigmoid(x)",
        "F.relu6(x)",
        "F.threshold(x, 0.1, 0.5) * (x.abs() + 1) ** -0.5",
        "torch.relu((2 * x).masked_fill(x > 0.5, float('-inf'))) + 0.5",
    ],
)
def test_elementwise_operators_are_right(
    expression: str, shelf: CorpusCatalog, interpreting: Zygote, tmp_path: Path
) -> None:
    source = p.problem("ROWS, COLS = 6, 40", p.forward(expression), "torch.randn(ROWS, COLS)")
    adapted = adapt(p.graph_of(source), [], "elementwise")
    assert adapted.beside == ()
    found = p.judged(source, adapted.source, tmp_path, interpreting)
    assert found.verdict is Verdict.CORRECT, found.reasons


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)", "q, k, v"),
        ("F.scaled_dot_product_attention(q, k, v, attn_mask=q[0, 0] @ k[0, 0].mT > 0)", "q, k, v"),
        ("torch.softmax((q @ k.mT + 1.0) * 2.0, dim=-1) @ v", "q, k, v"),
        ("torch.softmax(q @ k.mT, dim=-2) @ v", "q, k, v"),
    ],
)
def test_other_attention_is_not_taken_for_what_kernels_compute(expression: str, names: str) -> None:
    found = recognise(p.graph_of(p.problem(SIZES, p.forward(expression, names), QKV)))
    assert not any(core.op.startswith("attention") for core in found.cores)
