"""A kernel file's short form runs, computes the same, and holds nothing that a reader can spare."""

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.context.execute import run
from benchmarks.context.problems import small_job
from kb.context.assuming import Assumptions
from kb.context.shortening import ShortForm, short_form
from kb.corpus.loader import load_shipped_corpus, shipped_corpus
from kb.embedders.tokens import count_tokens

CORPUS = load_shipped_corpus()
TRITON = {k.entry.slug: k for k in CORPUS.kernels if k.entry.language == "triton"}


@cache
def form_of(slug: str) -> ShortForm | None:
    """The short form of a shipped kernel, made when a test asks for it."""
    return short_form(TRITON[slug].text)


HOOKED = '''
import torch
import triton
import triton.language as tl

TUNABLES = {"block": [64]}
KINDS = ("none", "relu")


@triton.jit
def _same(x, operands):
    return x


@triton.jit
def _kernel(
    x_ptr, out_ptr, operands, n, AFTER: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if KIND == "relu":
        # What is left of a branch keeps its comment.
        x = tl.maximum(x, 0.0)
    tl.store(out_ptr + i, AFTER(x, operands), mask=i < n)


def kernel_function(x, kind="none", after=_same, after_operands=(), out_dtype=None, block=64):
    """Return `kind` of `x`."""
    if kind not in KINDS:
        raise ValueError(kind)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype)
    _kernel[(triton.cdiv(x.numel(), block),)](
        x, out, after_operands, x.numel(), AFTER=after, KIND=kind, BLOCK=block
    )
    return out


def reference(x):
    return x
'''


def test_hooks_options_and_checks_that_are_not_used_are_left_out():
    form = short_form(HOOKED, (("kind", "relu"),))
    assert form is not None
    for gone in (
        "_same",
        "AFTER",
        "operands",
        "KIND",
        "raise",
        "reference",
        "TUNABLES",
        "out_dtype",
    ):
        assert gone not in form.code
    assert "x = tl.maximum(x, 0.0)" in form.code
    assert "keeps its comment" in form.code
    assert "keeps its comment" not in form.bare
    plain = short_form(HOOKED, (("kind", "none"),))
    assert plain is not None
    assert "maximum" not in plain.code


def test_a_comment_says_where_a_hook_that_is_not_given_was_called():
    called = HOOKED.replace(
        "    tl.store(out_ptr + i, AFTER(x, operands), mask=i < n)",
        "    x = AFTER(x, operands)\n    tl.store(out_ptr + i, x, mask=i < n)",
    )
    form = short_form(called)
    assert form is not None
    comment, store = (
        "    # Work fused into results goes here: x = f(x).",
        "    tl.store(out_ptr + i, x",
    )
    assert f"{comment}\n{store}" in form.code
    assert "goes here" not in form.bare


def test_a_text_that_is_no_kernel_file_has_no_short_form():
    assert short_form("x = 1") is None
    assert short_form("def kernel_function(:") is None


@pytest.mark.parametrize("slug", TRITON)
def test_every_short_form_is_a_file_without_what_serves_the_checks(slug):
    form = form_of(slug)
    assert form is not None
    for text in (form.code, form.bare):
        tree = ast.parse(text)
        names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
        assert "kernel_function" in names
        assert names.isdisjoint({"reference", "make_inputs", "agrees"})
        assert max(map(len, text.splitlines())) <= 110


def test_short_forms_are_short():
    sizes = {slug: count_tokens(form.bare) for slug in TRITON if (form := form_of(slug))}
    assert len(sizes) > 0.95 * len(TRITON)
    for slug, size in sizes.items():
        assert size <= 0.7 * count_tokens(TRITON[slug].text), slug
    # What half of them take depends on which kernels the corpus has.
    assert sorted(sizes.values())[len(sizes) // 2] <= 1250


# One of each shape of file: hooks, options, descriptors, helpers, several kernels.
RUN = (
    "layernorm-dim-tiled", "scale-shift-activation", "matmul-tma-fused", "conv-shifted-rows",
    "conv-transpose-classes", "depthwise-conv-tile", "matmul-epilogue", "softmax-dim-tiled",
    "reduce-dim-split", "max-pool-plain", "groupnorm-plain", "attention-flash", "cumsum-dim-plain",
    "pointwise-loss-split", "cross-entropy-plain", "batchnorm-inference",
)  # fmt: skip


def test_short_forms_compute_what_their_entries_say():
    pytest.importorskip("triton")
    jobs = []
    for kernel in TRITON.values():
        slug = kernel.entry.slug
        if slug in RUN:
            form = form_of(slug)
            assert form is not None
            path = Path(shipped_corpus()) / kernel.path
            jobs.append(small_job(slug, form.bare, kernel.entry.model_dump(), path))
    assert len(jobs) == len(RUN)
    assert {slug: problem for slug, problem in run(jobs).items() if problem} == {}


LINEAR = Assumptions(gpu=True, itemsize=2, sized=True, transposed=(False, True), present=("bias",))
# What each is cut to: a linear layer, a product of contiguous matrices, and dtype and card alone.
CUT = {
    "matmul-tma-fused": LINEAR,
    "matmul-row-reduce": replace(LINEAR, present=()),
    "matmul-epilogue": replace(LINEAR, transposed=(False, False), present=()),
    "avg-pool-plain": Assumptions(gpu=True, itemsize=2, sized=True),
    "conv-shifted-rows": Assumptions(gpu=True, itemsize=2, sized=True),
    "attention-flash": Assumptions(gpu=True, itemsize=2, sized=True),
}


def test_what_is_cut_to_a_problem_computes_what_its_entry_says_there():
    pytest.importorskip("triton")
    jobs = []
    for kernel in TRITON.values():
        assumed = CUT.get(kernel.entry.slug)
        if assumed is not None:
            form = short_form(kernel.text, (), assumed)
            assert form is not None
            path = Path(shipped_corpus()) / kernel.path
            job = small_job(kernel.entry.slug, form.bare, kernel.entry.model_dump(), path)
            layout = {"transposed": assumed.transposed, "present": assumed.present}
            jobs.append(replace(job, dtype="float16", **layout))
    assert len(jobs) == len(CUT)
    assert {slug: problem for slug, problem in run(jobs).items() if problem} == {}


def test_branches_for_other_layouts_dtypes_and_devices_are_left_out():
    fused = TRITON["matmul-tma-fused"].text
    form = short_form(fused, (), LINEAR)
    assert form is not None
    whole = form_of("matmul-tma-fused")
    assert whole is not None and count_tokens(form.bare) < 0.7 * count_tokens(whole.bare)
    for gone in (
        "TURNED",
        "_for_tma",
        "element_size",
        "is_cuda",
        "numel() == 0",
        "tf32",
        "strides",
    ):
        assert gone in whole.bare or gone in fused, gone
        assert gone not in form.bare, gone
    assert "b = b.T" in form.bare and "def kernel_function(a, b, bias, block_m" in form.bare


def test_an_or_that_gives_a_value_keeps_its_last_number():
    code = HOOKED.replace("x.numel(), AFTER", "x.numel() or 0, AFTER")
    form = short_form(code, (("kind", "none"),))
    assert form is not None and "x.numel() or 0" in form.bare


def test_a_parameter_that_is_given_another_value_stays_a_parameter():
    code = HOOKED.replace("kind=\"none\", after", "kind=\"none\", wide=True, after").replace(
        "    out = torch.empty", "    first = wide\n    wide = False\n    out = torch.empty"
    ).replace("    return out\n", "    return out, first, wide\n")  # fmt: skip
    form = short_form(code, (), Assumptions(gpu=True, sized=True))
    assert form is not None and "first = wide" in form.bare and "wide=True" in form.bare
