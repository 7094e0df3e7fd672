"""References of kernels are found in modules that spell them otherwise, and not in what is near."""

import pytest

from benchmarks.context.problems import shown_example
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.problems.matching import Matcher, reference_graph
from kb.problems.reading import read_problem
from kb.search.opening import open_searcher

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
# Inputs' shapes, and the body of `forward`.
MODULES = {
    "an optimizer's step written with mul_ and addcmul_": (
        "w, g, m, v", "4096, 4096", """
        w.mul_(1 - 1e-3 * 0.1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.95).addcmul_(g, g, value=0.05)
        w.addcdiv_(m, (v.sqrt() / 0.22).add_(1e-8), value=-1e-3)
        return w, m, v""", "optimizer"),
    "the gradients of a norm of rows": (
        "x, g, w", "8192, 4096", """
        scale = 1.0 / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-6)
        unit = x * scale
        along = (g * w * unit).mean(1, keepdim=True)
        return scale * (g * w - unit * along), (g * unit).sum(0)""", "rmsnorm-backward"),
    "the gradients of a norm of centred rows": (
        "x, g, w", "8192, 4096", """
        rstd = torch.rsqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)
        unit = (x - x.mean(1, keepdim=True)) * rstd
        grad = g * w
        along = (grad * unit).mean(1, keepdim=True)
        dx = (grad - grad.mean(1, keepdim=True) - unit * along) * rstd
        return dx, (g * unit).sum(0), g.sum(0)""", "layernorm-backward"),
    "the gradients of a gated feed-forward": (
        "gate, up, d", "8192, 14336", """
        p = torch.sigmoid(gate)
        act = gate * p
        return d * up * (p * (1 + gate * (1 - p))), d * act""", "silu-mul-backward"),
}  # fmt: skip
# Chains of the same operators that compute something else.
NEAR = {
    "gates of a recurrence": """
        g = torch.sigmoid(w)
        h = x * g + m * (1 - g)
        return h * torch.tanh(v)""",
    "an average that is kept": """
        m = 0.9 * m + 0.1 * x
        return w - 0.1 * m, m""",
    "a normalization": """
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w""",
}  # fmt: skip


def module(arguments, shape, body):
    inputs = ", ".join(f"torch.rand({shape})" for _ in arguments.split(","))
    return (
        f"{HEAD}class Model(nn.Module):\n    def forward(self, {arguments}):{body}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )


def found_in(text, generation):
    """The ops of kernels whose references lie in a module."""
    matcher = Matcher(read_problem(text).operators, generation.rarities)
    return {
        record.entry.op
        for record in generation.kernels.values()
        if record.reference is not None and matcher.match(record.reference) is not None
    }


@pytest.fixture(scope="module")
def searcher(shipped_index):
    return open_searcher(shipped_index)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_shown_the_kernel_whose_reference_it_spells_otherwise(searcher, name):
    *spelled, op = MODULES[name]
    assert found_in(module(*spelled), searcher.generation) == {op}
    request = ContextRequest(problem=module(*spelled), gpu="H200", max_tokens=4000)
    response = build_context(request, searcher)
    slug, _ = shown_example(response.text)
    assert searcher.generation.kernels[slug].entry.op == op
    assert f"({op}) are in this module:" in response.text


@pytest.mark.parametrize("name", NEAR)
def test_a_module_that_only_uses_the_same_operators_is_not_taken_for_one(searcher, name):
    assert found_in(module("x, w, m, v", "4096, 4096", NEAR[name]), searcher.generation) == set()


def test_every_reference_is_found_in_itself(searcher):
    generation, lost = searcher.generation, []
    for slug, record in generation.kernels.items():
        if record.reference is not None:
            text = record.launcher or record.code
            matcher = Matcher(read_problem(text).operators, generation.rarities)
            match = matcher.match(record.reference)
            if match is None or (match.found, match.size) != (len(record.reference.names),) * 2:
                lost.append(slug)
    assert lost == []
    assert sum(record.reference is not None for record in generation.kernels.values()) >= 15


def test_a_reference_is_found_in_every_step_of_a_loop(searcher):
    arguments, shape, body, op = MODULES["the gradients of a gated feed-forward"]
    once = module(arguments, shape, body)
    body = (
        "\n        outs = []\n        for _ in range(8):"
        + body.replace("\n        ", "\n            ").replace("return", "outs += ")
        + "\n        return outs"
    )
    matcher = Matcher(
        read_problem(module(arguments, shape, body)).operators, searcher.generation.rarities
    )
    reference = next(
        record.reference
        for record in searcher.generation.kernels.values()
        if record.entry.op == op and record.reference
    )
    single = Matcher(read_problem(once).operators, searcher.generation.rarities).match(reference)
    assert len(matcher.match(reference).operators) == 8 * len(single.operators)


@pytest.mark.parametrize(
    "code",
    [
        "def reference(x):\n    return x + 1\n",
        "def reference(x):\n" + "    x = (x * 2).exp() + 1\n" * 40 + "    return x\n",
        "def kernel_function(x):\n    return x\n",
        "def reference(x:\n",
    ],
    ids=["small", "large", "none", "broken"],
)
def test_what_cannot_tell_one_kernel_from_others_has_no_graph(code):
    assert reference_graph(code) is None


# First example, arguments with their shapes, and the body of `forward`.
NAMED = {
    "moe-route-topk": (
        {"x": "torch.rand(4096, 64)"}, """
        p = F.softmax(x, -1)
        w, i = torch.topk(p, 4, dim=-1)
        w = p.gather(1, i)
        return w / w.sum(-1, keepdim=True), i, torch.bincount(i.flatten(), minlength=64)"""),
    "sampling-top-p": (
        {"x": "torch.rand(64, 128256)", "p": "torch.rand(64, 1)"}, """
        s, i = x.sort(-1, descending=True)
        c = s.softmax(-1).cumsum(-1)
        s = s.masked_fill(c > p, -1e9)
        return i.gather(1, torch.multinomial(s.softmax(-1), 1))"""),
    "lora-grouped": (
        {"x": "torch.rand(512, 1, 4096)", "a": "torch.rand(16, 4096, 32)",
         "i": "torch.randint(0, 16, (512,))"}, """
        return torch.bmm(x, a[i])"""),
    "grouped-matmul": (
        {"x": "torch.rand(8192, 2048)", "w": "torch.rand(64, 2048, 1408)",
         "e": "torch.randint(0, 64, (8192,))"}, """
        order = e.argsort()
        sizes = torch.bincount(e, minlength=64).tolist()
        parts = x[order].split(sizes)
        return torch.cat([part @ w[i] for i, part in enumerate(parts) if len(part)])"""),
    "attention-paged-split": (
        {"q": "torch.rand(32, 32, 128)", "k": "torch.rand(4096, 16, 8, 128)",
         "table": "torch.randint(0, 4096, (32, 256))", "n": "torch.randint(1, 4096, (32,))"}, """
        out = torch.empty_like(q)
        for i, length in enumerate(n.tolist()):
            keys = k[table[i]].flatten(0, 1)[:length].repeat_interleave(4, 1)
            scores = torch.einsum("hd,nhd->hn", q[i], keys)
            out[i] = torch.einsum("hn,nhd->hd", scores.softmax(-1), keys)
        return out"""),
    "matmul-int4-fused": (
        {"x": "torch.rand(8, 4096)", "w": "torch.randint(0, 256, (4096, 2048), dtype=torch.uint8)",
         "s": "torch.rand(4096, 1)"}, """
        wide = torch.empty(4096, 4096)
        wide[:, 0::2] = (w & 15) - 8.0
        wide[:, 1::2] = (w >> 4) - 8.0
        return x @ (wide * s)"""),
    "add-rmsnorm-fused": (
        {"x": "torch.rand(4096, 5120)", "y": "torch.rand(4096, 5120)", "w": "torch.rand(5120)"}, """
        h = x + y
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w, h"""),
    "selective-scan-chunked": (
        {"x": "torch.rand(2, 512, 1024)", "delta": "torch.rand(2, 512, 1024)",
         "a": "torch.rand(1024, 16)", "b": "torch.rand(2, 512, 16)"}, """
        # Mamba's selective scan, one step after another
        h, out = torch.zeros(2, 1024, 16), []
        for t in range(512):
            h = h * (delta[:, t, :, None] * a).exp() + x[:, t, :, None] * b[:, t, None]
            out.append(h.sum(-1))
        return torch.stack(out, 1)"""),
    "embedding-backward-sorted": (
        {"g": "torch.rand(65536, 2048)", "i": "torch.randint(0, 32000, (65536,))"}, """
        return torch.zeros(32000, 2048).index_add_(0, i, g)"""),
}  # fmt: skip


@pytest.mark.parametrize("slug", NAMED)
def test_what_production_code_does_is_recognised(searcher, slug):
    inputs, body = NAMED[slug]
    text = (
        f"{HEAD}class Model(nn.Module):\n    def forward(self, {', '.join(inputs)}):{body}\n\n"
        f"def get_inputs():\n    return [{', '.join(inputs.values())}]\n"
    )
    response = build_context(ContextRequest(problem=text, gpu="H200", max_tokens=9000), searcher)
    assert shown_example(response.text)[0] == slug


def test_an_operator_of_unknown_shape_is_not_heavier_than_those_that_are_known(searcher):
    text = (
        f"{HEAD}class Model(nn.Module):\n    def forward(self, x, w, i):\n"
        "        n = torch.bincount(i, minlength=8)\n"
        "        return torch.softmax(x * w, -1), n\n\n"
        "def get_inputs():\n    return [torch.rand(8192, 4096), torch.rand(4096),"
        " torch.randint(0, 8, (512,))]\n"
    )
    facts = build_context(ContextRequest(problem=text, gpu="H200"), searcher).text
    assert "Build the kernel around softmax [8192, 4096]" in facts
