"""A context is chosen by what is special about the problem, and says what it chose by."""

import re

import pytest

from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.problems.analysis import analyse
from kb.problems.attributes import attributes, row_length
from kb.problems.facts import gpu_spec
from kb.problems.plan import plan_line
from kb.problems.reading import read_problem
from kb.search.opening import open_searcher

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
CAUSAL = "F.softmax((a @ b.mT * 0.125).masked_fill({}(torch.ones(640, 640)) == 0, -1e9), -1) @ c"
QUERY = "torch.rand(2, 4, 640, 64)"


def problem(result, *inputs, layers="pass"):
    names = ", ".join("abc"[: len(inputs)])
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {layers}\n    def forward(self, {names}):\n        return {result}\n"
        f"def get_inputs():\n    return [{', '.join(inputs)}]\n"
    )


def analysed(text):
    return analyse(read_problem(text), gpu_spec("H200"))


@pytest.fixture(scope="module")
def searcher(shipped_index):
    return open_searcher(shipped_index)


@pytest.fixture
def context(searcher):
    def ask(text, tokens=4000):
        request = ContextRequest(problem=text, gpu="H200", language="triton", max_tokens=tokens)
        return build_context(request, searcher)

    return ask


def shown(response):
    return re.findall(r"^## Example: .* \(([a-z0-9-]+)\)$", response.text, re.MULTILINE)


ROWS = {
    "softmax": ("torch.softmax(a, -1)", "64, 70000", 70000, {"long-row", "last-dim"}),
    "across": ("torch.softmax(a, 1)", "8, 4000, 32", 4000, {"long-row", "inner-dim"}),
    "short": ("torch.softmax(a, -1)", "64, 1024", 1024, {"short-row", "last-dim"}),
    "between": ("torch.softmax(a, -1)", "64, 20000", 20000, {"last-dim"}),
    "group": ("F.group_norm(a, 4)", "2, 8, 100, 10", 2000, {"short-row"}),
    "layer": ("F.layer_norm(a, (100, 10))", "2, 8, 100, 10", 1000, {"short-row"}),
    "whole": ("a.sum()", "1000, 100", 100000, {"long-row", "whole"}),
    "p3": ("F.normalize(a, p=3.0)", "8, 5", 5, {"other-p", "short-row", "last-dim"}),
    "p4": (
        "a / torch.linalg.vector_norm(a, ord=4, dim=1, keepdim=True)", "8, 5", 5,
        {"other-p", "short-row", "last-dim"},
    ),
    "largest": (
        "F.normalize(a, p=float('inf'))", "8, 5", 5, {"pinf", "short-row", "last-dim"},
    ),
    "not told": ("F.normalize(a, p=config.p)", "8, 5", 5, {"short-row", "last-dim"}),
    "l2": ("a / torch.norm(a, dim=1, keepdim=True)", "8, 5", 5, {"p2", "short-row", "last-dim"}),
    "l1": (
        "a / torch.sum(torch.abs(a), dim=1, keepdim=True)", "8, 5", 5,
        {"p1", "short-row", "last-dim"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_long_or_short_by_what_a_block_holds(name):
    result, shape, row, words = ROWS[name]
    step = analysed(problem(result, f"torch.rand({shape})")).heaviest
    assert row_length(step) == row
    assert attributes(step) == words


def test_causal_attention_gets_a_causal_kernel_whoever_spells_it(context):
    spelled = context(problem(CAUSAL.format("torch.tril"), QUERY, QUERY, QUERY))
    assert shown(spelled)[0] == "attention-causal"
    assert "a call that this module does not make" in spelled.text
    assert "CAUSAL" in spelled.text
    plain = context(problem("F.softmax(a @ b.mT * 0.125, -1) @ c", QUERY, QUERY, QUERY))
    assert shown(plain)[0] in {"attention-flash", "attention-causal"}
    assert "a call that this module does not make" in plain.text
    # Measured slower than the call that the module makes: none to follow.
    call = "F.scaled_dot_product_attention(a, b, c, is_causal=True)"
    fused = context(problem(call, QUERY, QUERY, QUERY))
    assert not shown(fused) or "a start, not an example to follow" in fused.text
    assert "attention kernel of the knowledge base was measured slower than PyTorch" in fused.text


@pytest.mark.parametrize(
    ("result", "named", "words"),
    [
        ("F.normalize(a, p=3.0)", "lp-normalize-rows", "Not the same operation: its norms are L1"),
        ("F.normalize(a, p=torch.inf)", "lp-normalize-rows", "its norm `max`"),
        ("F.normalize(a, p=1)", "lp-normalize-rows", "its norm `l1`"),
        ("F.normalize(a, p=1, dim=0)", "lp-normalize-dim", "which does not fit into this budget"),
        (
            "torch.norm(a, dim=1)",
            "reduce-dim-split",
            "Not the same operation: the kernel shown sum",
        ),
    ],
)
def test_a_norm_gets_a_kernel_of_its_order_and_dimension_or_is_told(context, result, named, words):
    response = context(problem(result, "torch.rand(4096, 8192)"), 2000)
    assert (shown(response) or ["lp-normalize-dim"])[0] == named
    assert words in response.text


def test_batch_norm_in_training_is_not_passed_for_another(context):
    layers = "self.norm = nn.BatchNorm2d(64)"
    little = context(problem("self.norm(a)", "torch.rand(64, 64, 128, 128)", layers=layers), 3000)
    assert shown(little) == ["batchnorm-inference"]
    assert "Not the same operation: it takes statistics that are given" in little.text
    enough = context(problem("self.norm(a)", "torch.rand(64, 64, 128, 128)", layers=layers), 6000)
    assert shown(enough)[0] == "batchnorm-training-resident"


def test_where_no_fast_kernel_fits_a_whole_one_is_shown_as_a_start(context):
    layers = "self.conv = nn.Conv2d(64, 128, 3)"
    image = "torch.rand(16, 64, 64, 64)"
    little = context(problem("torch.relu(self.conv(a))", image, layers=layers), 3000)
    assert shown(little) == ["conv-shifted-rows"]
    assert "Slower than PyTorch: a start, not an example to follow." in little.text
    assert "torch.compile 0.08784 ms" in little.text
    enough = context(problem("torch.relu(self.conv(a))", image, layers=layers), 6000)
    assert shown(enough)[0] == "conv-tma"
    assert "a start" not in enough.text


def test_rows_too_long_for_a_block_get_a_kernel_that_walks_over_them(context):
    long = context(problem("torch.softmax(a, -1)", "torch.rand(64, 100000)"))
    assert shown(long)[0] == "softmax-dim-online"
    assert "register-caching" not in {each.slug for each in long.techniques}
    short = context(problem("torch.softmax(a, -1)", "torch.rand(64, 2048)"))
    assert shown(short)[0] == "softmax-register-cached"
    assert "online-reduction" not in {each.slug for each in short.techniques}


def test_zeros_between_inputs_are_a_topic_only_where_there_are_some(context):
    def slugs(stride):
        layers = f"self.c = nn.ConvTranspose2d(32, 16, 4, stride={stride})"
        text = problem("self.c(a)", "torch.rand(4, 32, 64, 64)", layers=layers)
        return {each.slug for each in context(text).techniques}

    assert "structural-sparsity" in slugs(2)
    assert "structural-sparsity" not in slugs(1)


@pytest.mark.parametrize("tokens", [1400, 1700, 2500, 4000])
def test_a_plain_form_is_shown_only_where_the_better_one_does_not_fit(context, tokens):
    response = context(
        problem("F.cross_entropy(a, b)", "torch.rand(64, 4096)", "torch.randint(0, 4096, (64,))"),
        tokens,
    )
    found = shown(response)
    assert found[:1] in ([], ["cross-entropy-online"], ["cross-entropy-plain"])
    if found[:1] == ["cross-entropy-plain"]:
        assert tokens < 1800
        assert "cross-entropy-online is better but does not fit into this budget" in response.text
    assert "A plain version" not in response.text or found == ["cross-entropy-plain"]


def test_beside_an_example_techniques_are_whole_prose_of_this_operator(context):
    text = problem("torch.tril(a @ b)", *["torch.tril(torch.rand(4096, 4096))"] * 2)
    parts = context(text).text.split("\n\n---\n\n")
    techniques = [part for part in parts if part.startswith("# ")]
    assert len(techniques) >= 2
    assert not any("```" in part for part in techniques)
    assert "conv-transpose" not in "".join(techniques)
    # The kernels of the pair differ in more than this technique: the figure is theirs.
    assert "matmul-triangular-plain" not in "".join(techniques)


def test_measurements_say_what_the_sizes_are_and_who_is_slower(context):
    text = context(problem("F.group_norm(a, 8)", "torch.rand(16, 64, 1024, 1024)"), 1800).text
    line = next(each for each in text.splitlines() if each.startswith("Measured on"))
    assert "32x256x16384x32 = [batch, channels, elements of a plane, groups]" in line
    assert "this 0.2667 ms; floor 0.1256 ms at measured bandwidth and rates" in line
    assert "eager 0.567 ms (this is 2.13x as fast)" in line
    assert "torch.compile 0.2473 ms (this is 0.93x: slower)" in line
    assert "Not shown: groupnorm-resident, groupnorm-lagged." in text


PLANS = {
    "causal": (problem(CAUSAL.format("torch.tril"), QUERY, QUERY, QUERY), "query i sees keys 0 to"),
    "triangles": (
        problem("a @ b", "torch.tril(torch.rand(512, 512))", "torch.rand(512, 512)"),
        "A lower triangular (-1), B dense (0), the result dense (0)",
    ),
    "twice": (
        problem("torch.softmax(a, -1)", "torch.rand(4096, 393216)"),
        "393,216 elements (1,573 kB) belong together and exceed one block's registers: they are "
        "read twice, 4.03 ms by bytes",
    ),
    "unaligned": (
        problem("a.sum(1)", "torch.rand(128, 4096, 4095)"),
        "rows of 4,095 float32 begin at addresses that are not multiples of 16 bytes: tensor "
        "descriptors and wide loads need 4 rows taken as one, or wide loads start at the next "
        "multiple, with a row's ends apart",
    ),
    "statistics over rows": (
        problem(
            "F.batch_norm(self.f(a), None, None, training=True)", "torch.rand(512, 1024)",
            layers="self.f = nn.Linear(1024, 1024)",
        ),
        "batch_norm spans 512 rows, more than a tile: a launch after the product",
    ),
    "inside a tile": (
        problem(
            "F.group_norm(self.f(a), 64).min(1, keepdim=True)[0]", "torch.rand(512, 1024)",
            layers="self.f = nn.Linear(1024, 1024)",
        ),
        "groups of 16 columns lie inside a tile of 128: reduce in the epilogue, with one stage "
        "fewer, since a reshaped accumulator takes shared memory; min spans 1,024 "
        "columns, more than a tile: the epilogue leaves a partial result for each row and tile, "
        "which a small second launch merges, and the product is never stored; the module returns "
        "[512, 1]",
    ),
    "two products": (
        problem(
            "torch.logsumexp(self.g(torch.sigmoid(self.f(a))), 1)", "torch.rand(512, 1024)",
            layers="self.f = nn.Linear(1024, 4096); self.g = nn.Linear(4096, 512)",
        ),
        "a kernel of its own for linear → logsumexp",
    ),
    "training": (
        problem(
            "self.n(self.c(a))", "torch.rand(8, 32, 64, 64)",
            layers="self.c = nn.Conv2d(32, 64, 3); self.n = nn.BatchNorm2d(64)",
        ),
        "takes mean and variance over the whole batch",
    ),
    "idle dropout": (
        problem("self.d(a @ b)", *["torch.rand(512, 512)"] * 2, layers="self.d = nn.Dropout(0.0)"),
        "dropout with p = 0 changes nothing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_says_what_the_shapes_settle(name):
    text, told = PLANS[name]
    line = plan_line(analysed(text), gpu_spec("H200"))
    assert line is not None
    assert line.startswith("Plan: ")
    assert told in line


def test_there_is_no_plan_where_the_facts_say_all():
    square = "torch.rand(1024, 1024)"
    assert plan_line(analysed(problem("torch.relu(a @ b)", square, square)), None) is None
    text = HEAD + "def forward(x):\n    return torch.softmax(x, -1)\n"
    assert plan_line(analysed(text), gpu_spec("H200")) is None


def test_rows_of_a_product_are_reduced_by_a_kernel_only_where_it_can(context):
    def asked(result):
        layers = "self.f = nn.Linear(1024, 4096)"
        return context(problem(result, "torch.rand(16384, 1024)", layers=layers))

    assert shown(asked("torch.logsumexp(self.f(a), 1)"))[0] == "matmul-row-reduce"
    for result in ("self.f(a)", "torch.relu(self.f(a))", "torch.norm(self.f(a), dim=1)"):
        assert "matmul-row-reduce" not in asked(result).text
