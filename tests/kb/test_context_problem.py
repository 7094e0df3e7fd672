"""A problem's context: facts first, a whole example of its operator's family, within the budget.

A slice of `python -m benchmarks.context`, on modules written for it.
"""

import ast
import re

import pytest
from pydantic import ValidationError

from benchmarks.context.problems import label_of, measure, read_labels, shown_example, table
from kb.context.budget import budget_tokens
from kb.context.build import build_context
from kb.context.choosing import is_slower
from kb.context.models import ContextRequest
from kb.corpus.loader import shipped_corpus
from kb.errors import InvalidInputError
from kb.search.opening import open_searcher

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
MODULE = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        {layers}\n    def forward(self, x):\n        return {result}\n\n"
    "def get_inputs():\n    return [torch.rand({shape})]\n"
)
# name (whose operator the labels know): layers, result, input shape
PROBLEMS = {
    "conv2d_gelu": (
        "self.c = nn.Conv2d(32, 64, 3, padding=1)", "F.gelu(self.c(x))", "8, 32, 56, 56"
    ),
    "conv1d_dilated": ("self.c = nn.Conv1d(32, 48, 5, dilation=2)", "self.c(x)", "4, 32, 4096"),
    "conv3d_groupnorm": (
        "self.c = nn.Conv3d(16, 32, 3)\n        self.n = nn.GroupNorm(4, 32)",
        "self.n(self.c(x))",
        "2, 16, 16, 32, 32",
    ),
    "conv_transposed_2d": ("self.c = nn.ConvTranspose2d(32, 16, 4)", "self.c(x)", "4, 32, 64, 64"),
    "depthwise_conv": ("self.c = nn.Conv2d(64, 64, 3, groups=64)", "self.c(x)", "8, 64, 64, 64"),
    "gemm_silu": ("self.f = nn.Linear(2048, 4096)", "F.silu(self.f(x))", "512, 2048"),
    "matmul_plain": ("self.w = nn.Parameter(torch.rand(2048, 2048))", "x @ self.w", "2048, 2048"),
    "softmax_inner": ("pass", "torch.softmax(x, dim=1)", "16, 1000, 512"),
    "layernorm": ("self.n = nn.LayerNorm(4096)", "self.n(x)", "2048, 4096"),
    "groupnorm": ("self.n = nn.GroupNorm(8, 64)", "self.n(x)", "16, 64, 64, 64"),
    "instancenorm": ("self.n = nn.InstanceNorm2d(64)", "self.n(x)", "16, 64, 64, 64"),
    "mish_relu": ("pass", "F.relu(F.mish(x))", "4096, 8192"),
    "max_pooling": ("self.p = nn.MaxPool2d(3, 2, 1)", "self.p(x)", "16, 64, 128, 128"),
    "sum_reduction_over": ("pass", "x.sum(dim=1)", "64, 2048, 1024"),
    "cumsum": ("pass", "torch.cumsum(x, dim=-1)", "512, 32768"),
    "multihead_attention": (
        "self.a = nn.MultiheadAttention(256, 8)", "self.a(x, x, x)[0]", "512, 4, 256"
    ),
}  # fmt: skip


def module(name):
    layers, result, shape = PROBLEMS[name]
    return MODULE.format(layers=layers, result=result, shape=shape)


@pytest.fixture(scope="module")
def searcher(shipped_index):
    return open_searcher(shipped_index)


def test_the_first_example_is_of_the_family_and_runs(searcher, tmp_path):
    pytest.importorskip("triton")
    files = []
    for name in PROBLEMS:
        files.append(tmp_path / f"{name}.py")
        files[-1].write_text(module(name))
    found = measure(files, searcher, shipped_corpus(), tokens=3000, gpu="H200", language="triton")
    failed = {each.name: (each.slug, each.problem) for each in found if not each.whole}
    assert failed == {}
    figures = table(found)
    assert figures["first"] == figures["whole"] == 1.0
    assert figures["relevant"] >= 0.85


# Kernel that fits: what is done, query, keys and values.
CACHES = {
    "attention-decode-split": ("F.scaled_dot_product_attention(q, k, k)", "16, 32, 1, 128",
                               "16, 32, 4096, 128"),
    "attention-paged-split": (
        'torch.einsum("bhgs,bshd->bhgd", F.softmax(torch.einsum("bhgd,bshd->bhgs", q,'
        " k[table].flatten(1, 2)), -1), k[table].flatten(1, 2))", "16, 8, 4, 128",
        "4096, 16, 8, 128",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slug", CACHES)
def test_attention_to_a_cache_is_shown_a_kernel_for_it(searcher, slug):
    result, query, keys = CACHES[slug]
    inputs = f"[torch.rand({query}), torch.rand({keys}), torch.randint(0, 4096, (16, 256))]"
    text = f"{HEAD}class Model(nn.Module):\n    def forward(self, q, k, table):\n"
    text += f"        return {result}\n\ndef get_inputs():\n    return {inputs}\n"
    response = build_context(ContextRequest(problem=text, gpu="H200", max_tokens=5000), searcher)
    assert shown_example(response.text)[0] == slug


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("budget", [64, 150, 300, 700, 1500, 2200])
def test_a_context_keeps_its_budget_and_shows_examples_whole_or_not_at_all(searcher, name, budget):
    response = build_context(
        ContextRequest(problem=module(name), gpu="H200", language="triton", max_tokens=budget),
        searcher,
    )
    assert 0 < budget_tokens(response.text) <= budget
    assert response.text.startswith("Problem Model: ")
    shown = shown_example(response.text)
    if shown is not None:
        slug, code = shown
        lines = response.text.splitlines()
        place = next(n for n, line in enumerate(lines) if line.endswith(f"({slug})"))
        assert lines[place].startswith("## Example: ")
        assert searcher.generation.kernels[slug].path in lines[place + 1]
        assert lines[place + 2].startswith(("Measured on", "Not measured"))
        tree = ast.parse(code)
        assert any(
            isinstance(n, ast.FunctionDef) and n.name == "kernel_function" for n in tree.body
        )
        if is_slower(searcher.generation.kernels[slug].entry, "H200"):
            assert "a start, not an example to follow" in response.text
    elif budget >= 700:
        assert re.search(
            r"Best example: .* `kb show [a-z0-9-]+ --code` or get_kernel", response.text
        )


def test_every_heading_has_text_and_every_part_ends_as_it_should(searcher):
    for name in PROBLEMS:
        request = ContextRequest(problem=module(name), gpu="H200", max_tokens=2000)
        text = build_context(request, searcher).text
        for part in text.split("\n\n---\n\n"):
            lines = part.strip().splitlines()
            assert len(lines) > (2 if lines[0].startswith("#") else 0), part
            assert not lines[-1].startswith("#"), part
            assert not lines[-1].endswith(":"), part


def test_facts_come_in_three_lines_with_the_floor_of_the_card(searcher):
    request = ContextRequest(problem=module("gemm_silu"), gpu="H200", max_tokens=2000)
    told = build_context(request, searcher).text.split("\n\n---\n\n")[0]
    facts = told.split("\nMeasured on ")[0].splitlines()
    assert len(facts) == 3
    assert "linear → silu" in facts[0]
    assert "fuse silu before its store" in facts[0]
    assert facts[1].startswith("Work: 8.59 GFLOP in products, ")
    assert facts[2].startswith("Floor on H200: ")


def test_a_module_given_as_kernel_is_taken_as_the_problem(searcher):
    text = module("softmax_inner")
    as_kernel = build_context(ContextRequest(kernel=text, gpu="H200"), searcher)
    assert as_kernel == build_context(ContextRequest(problem=text, gpu="H200"), searcher)


def test_an_operator_that_the_corpus_lacks_is_told_as_such(searcher):
    text = MODULE.format(layers="pass", result="torch.cumprod(x, dim=1)", shape="64, 4096")
    told = build_context(ContextRequest(problem=text, gpu="H200", language="triton"), searcher)
    assert "Not the same operation: the kernel shown sums" in told.text
    text = MODULE.format(layers="pass", result="torch.linalg.svd(x)", shape="64, 64")
    told = build_context(ContextRequest(problem=text, gpu="H200"), searcher)
    assert "no kernel for these operators: svd" in told.text
    assert told.examples == []


def test_a_profile_beside_a_problem_is_understood_and_has_its_say(searcher):
    text = module("matmul_plain")
    plain = build_context(ContextRequest(problem=text, gpu="H200"), searcher)
    told = build_context(
        ContextRequest(problem=text, gpu="H200", profile={"l2_hit_rate": 20, "nonsense": 1}),
        searcher,
    )
    assert "Profile: " in told.text
    assert told.ignored == ["nonsense"]
    ranks = [[each.slug for each in answer.techniques] for answer in (plain, told)]
    assert ranks[1].index("pid-swizzling") <= ranks[0].index("pid-swizzling")


def test_what_was_given_is_not_given_again(searcher):
    text = module("conv2d_gelu")
    seen = []
    for _ in range(2):
        request = ContextRequest(problem=text, gpu="H200", max_tokens=3000, exclude=seen)
        response = build_context(request, searcher)
        assert not set(seen) & {*response.examples, *(t.slug for t in response.techniques)}
        seen += [*response.examples, *(t.slug for t in response.techniques)]


def test_what_is_no_problem_is_refused_in_one_line(searcher):
    with pytest.raises(InvalidInputError, match="problem:1: not Python"):
        build_context(ContextRequest(problem="def (:"), searcher)
    with pytest.raises(ValidationError):
        ContextRequest(problem="x" * 200_001)
    with pytest.raises(ValidationError):
        ContextRequest(problem="  ")


def test_the_labels_know_every_problem_here():
    labels = read_labels()
    assert [name for name in PROBLEMS if label_of(name, labels) is None] == []


def test_work_and_floor_are_counted_in_the_format_in_which_the_problem_runs(searcher) -> None:
    text = module("gemm_silu")
    plain, half = (
        build_context(ContextRequest(problem=text, gpu="H100", dtype=dtype), searcher).text
        for dtype in (None, "bf16")
    )
    assert "[512, 2048] float32" in plain
    assert "in three TF32 products" in plain
    assert "[512, 2048] bfloat16" in half
    assert "TF32" not in half.split("Plan:")[0].split("---")[0]
    megabytes = [re.search(r"([\d.]+) MB of inputs", each) for each in (plain, half)]
    assert all(megabytes)
    one, other = (float(each[1]) for each in megabytes if each)
    assert other == pytest.approx(one / 2, rel=0.02)


@pytest.mark.parametrize("tokens", [700, 1000, 1500, 2000, 3000, 6000])
def test_a_kernel_that_refuses_the_shape_is_not_shown(tokens, shipped_index):
    searcher = open_searcher(shipped_index)
    for dtype in (None, "bf16"):
        request = ContextRequest(
            problem=module("gemm_silu"), gpu="H200", language="triton", dtype=dtype,
            max_tokens=tokens,
        )  # fmt: skip
        text = build_context(request, searcher).text
        for slug in ("matmul-short-k", "matmul-row-reduce", "matmul-skinny"):
            assert f"({slug})" not in text


def test_at_the_usual_budget_a_layer_gets_the_fastest_product_cut_to_it(shipped_index):
    request = ContextRequest(
        problem=module("gemm_silu"), gpu="H200", language="triton", dtype="bf16"
    )
    text = build_context(request, open_searcher(shipped_index)).text
    shown = shown_example(text)
    assert shown is not None and shown[0] == "matmul-tma-fused"
    assert "Cut to this problem: 2-byte elements, first operand contiguous, second operand the " \
        "transpose of a contiguous matrix, rows of whole 16 bytes." in text  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "step", "technique", "kernel"),
    [
        ("pass", "h = torch.exp(-x[:, t]) * h + x[:, t]", "parallel-scan", "cumsum-associative"),
        (
            "self.f = nn.Linear(64, 64)",
            "h = torch.tanh(self.f(h) + x[:, t])",
            "persistent-kernel",
            "recurrent-persistent",
        ),
    ],
)
def test_a_loop_over_time_gets_what_makes_it_one_launch(
    searcher, layers, step, technique, kernel
) -> None:
    body = f"h = x[:, 0]\n        for t in range(128):\n            {step}\n        return h"
    text = MODULE.format(layers=layers, result="x", shape="32, 128, 64")
    text = text.replace("return x\n", body + "\n")
    found = build_context(ContextRequest(problem=text, gpu="H200", max_tokens=6000), searcher)
    assert f"steps ({', '.join(OPERATORS[kernel])})," in found.text.splitlines()[0]
    assert found.techniques[0].slug == technique
    assert found.text.partition("## Example: ")[2].partition("\n")[0].endswith(f"({kernel})")
    assert "Not the same operation" in found.text


OPERATORS = {
    "cumsum-associative": ["neg", "exp", "mul", "add"],
    "recurrent-persistent": ["linear", "add", "tanh"],
}
