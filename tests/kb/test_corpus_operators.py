"""Questions name operators by one vocabulary, as exactly as they can."""

import pytest

from kb.corpus.loader import load_shipped_corpus
from kb.corpus.operators import is_kind, kinds_of, lineage, operators_asked
from kb.vocabulary import read_data

OPS = sorted({kernel.entry.op for kernel in load_shipped_corpus().kernels})
TABLE = read_data("operators.yaml")


@pytest.mark.parametrize("op", OPS)
def test_every_operator_of_the_corpus_can_be_named(op):
    assert op in TABLE
    asked = operators_asked(op.replace("-", " "), symbol=True)
    assert any(is_kind(op, each) for each in asked)


def test_parents_and_parts_are_operators_and_parents_stand_first():
    order = list(TABLE)
    for op, marks in TABLE.items():
        assert set(marks.get("parts", ())) <= set(TABLE)
        parent = marks.get("parent", op)
        if "within" in TABLE[parent]:  # kinds are looked for in the order of the file
            assert order.index(parent) <= order.index(op)
        assert lineage(op)[-1] in TABLE


@pytest.mark.parametrize(
    ("question", "ops"),
    [
        ("RMSNorm with per-token FP8 quantization", ("rmsnorm", "quantize-fp8-rows")),
        ("fused RoPE on q and k plus writing k and v into a paged KV cache", ("kv-cache", "rope")),
        ("int4_gemv", ("matmul-int4", "matvec")),
        ("FP8 GEMM with scales per row", ("matmul-scaled-rows",)),
        ("residual add RMSNorm, then NVFP4 quantize", ("add-rmsnorm-quantize",)),
        ("log-softmax of long rows", ("log-softmax",)),
        ("causal attention with an online softmax", ("attention",)),
        ("transposed conv2d", ("conv-transpose",)),
        ("batch norm in training", ("batch-norm-training",)),
        ("sum of values by segment", ("segment-reduction",)),
        ("CSR matrix times a dense matrix", ("sparse-matmul",)),
        ("sum over rows of length 96, embedding dim 96", ("reduction",)),
    ],
)
def test_a_question_names_the_closest_kinds_and_no_parts(question, ops):
    assert sorted(operators_asked(question)) == sorted(ops)


@pytest.mark.parametrize(
    "question",
    [
        "what does the copy engine of Hopper do",
        "the optimizer was unable to unroll the loop",
        "reads of the KV cache take 70 % of the time",
        "tl.atomic_add with relaxed order",
    ],
)
def test_a_word_in_passing_names_no_operator(question):
    assert operators_asked(question) == ()
    assert operators_asked("copy_kernel", symbol=True) == ("copy",)


def test_a_family_is_served_by_its_kinds():
    assert kinds_of("convolution")[:2] == ("convolution", "conv")
    assert is_kind("quantize-fp8-rows", "quantize")
    assert not is_kind("quantize", "quantize-fp8-rows")
