"""Operator family, dtypes and oldest architecture are read from code and its names."""

import pytest

from kb.architectures import parse_architecture
from kb.corpus.features import (
    dtypes_named,
    features,
    operators_named,
)
from kb.corpus.loader import load_shipped_corpus
from kb.corpus.operators import lineage
from kb.vocabulary import read_data


@pytest.mark.parametrize(
    ("symbol", "path", "op"),
    [
        ("vllm::fused_add_rms_norm_static_fp8_quant_kernel", "csrc/a.cu", "add-rmsnorm"),
        ("_per_token_group_quant_fp8", "pkg/ops/fp8.py", "quantize"),
        ("Collective::mma", "pkg/gemm/collective/main.hpp", "matmul"),
        ("Attention.mma_qk", "pkg/mla_decode_fp16.py", "attention"),
        ("_process_y", "pkg/gated_delta_net_cp.py", "linear-attention"),
        ("liger_cross_entropy_kernel", "liger_kernel/ops/cross_entropy.py", "cross-entropy"),
        ("silu_and_mul_kernel", "pkg/activation.cu", "silu-mul"),
        ("elect_one_sync", "pkg/cluster.hpp", None),
    ],
)
def test_the_nearest_name_that_says_something_gives_the_operator(symbol, path, op):
    assert features("int x;", "cuda", symbol, path).op == op


def test_code_gives_the_operator_where_no_name_does():
    assert features("acc += tl.dot(a, b)", "triton", "_inner", "pkg/thing.py").op == "matmul"


@pytest.mark.parametrize(
    ("code", "dtypes"),
    [
        ("__nv_bfloat16* x; float acc; int32_t i;", ("bfloat16",)),
        ("const float* x; int32_t i;", ("float32",)),
        ("x.to(tl.float8e4nv)", ("float8_e4m3",)),
        ("int32_t* x;", ("int32",)),
        ("// half\nint x;", ()),
    ],
)
def test_accumulators_and_indices_count_only_where_nothing_narrower_is_named(code, dtypes):
    language = "triton" if "tl." in code else "cuda"
    assert features(code, language, "f", "p/f.cu").dtypes == dtypes


@pytest.mark.parametrize(
    ("code", "path", "needs"),
    [
        ('asm("tcgen05.mma x");', "p/a.cuh", ("sm_100f",)),
        ('asm("wgmma.mma_async x");', "p/a.cuh", ("sm_90a",)),
        ('asm("cp.async.bulk.tensor x");', "p/a.cuh", ("sm_90",)),
        ('asm("cp.async.cg.shared.global x");', "p/a.cuh", ("sm_80",)),
        ("int x;", "p/sm90_kernel.hpp", ("sm_90",)),
        ("int x;", "p/asm90000.hpp", ()),
        ("x = tl.load(p)", "p/a.py", ()),
    ],
)
def test_the_oldest_architecture_is_that_of_the_newest_thing_used(code, path, needs):
    language = "triton" if path.endswith(".py") else "cuda"
    assert features(code, language, "f", path).architectures == needs


def test_code_with_another_form_for_older_cards_needs_no_new_one():
    both = '#if __CUDA_ARCH__ >= 900\nasm("mbarrier.init x");\n#else\ny = 1;\n#endif\n'
    assert features(both, "cuda", "f", "p/a.cuh").architectures == ()
    one = '#if __CUDA_ARCH__ >= 900\nasm("mbarrier.init x");\n#endif\n'
    assert features(one, "cuda", "f", "p/a.cuh").architectures == ("sm_90",)
    fails = both.replace("y = 1;", 'printf("no such card");')
    assert features(fails, "cuda", "f", "p/a.cuh").architectures == ("sm_90",)


def test_prose_has_no_features():
    found = features("wgmma and bf16", "markdown", "GEMM", "gemm.md")
    assert (found.op, found.dtypes, found.architectures) == (None, (), ())


def test_words_name_operators_and_dtypes():
    assert operators_named("fused cross entropy without materializing logits")[0] == "cross-entropy"
    assert operators_named("weather in paris") == ()
    assert "float8_e4m3" in dtypes_named("an fp8 gemm")
    assert dtypes_named("a BF16 kernel") == {"bfloat16"}


@pytest.mark.parametrize(
    ("words", "op"),
    [
        ("binary cross entropy with logits", "loss"),
        ("smooth l1 loss forward kernel", "loss"),
        ("triplet margin loss", "triplet-loss"),
        ("cosine similarity of rows", "cosine-similarity"),
        ("l2norm fwd kernel", "normalize"),
        ("histogram in shared memory", "histogram"),
        ("layer normalization over channels", "layernorm"),
        ("batch normalisation", "groupnorm"),
    ],
)
def test_a_family_is_known_by_the_names_it_goes_by(words, op):
    assert operators_named(words)[0] == op


@pytest.mark.parametrize(
    ("symbol", "path", "op"),
    [
        ("liger_dpo_loss", "pkg/losses.py", "distillation-loss"),
        ("RadixHistogram", "pkg/topk.cuh", "top-k"),
        ("normalize", "pkg/softmax.cuh", "softmax"),
    ],
)
def test_what_is_part_of_many_operators_names_none_beside_a_special_name(symbol, path, op):
    assert features("int x;", "cuda", symbol, path).op == op


def test_architectures_can_be_read():
    for target in ("sm_100f", "sm_90a", "sm_80"):
        parse_architecture(target)


def test_the_operator_of_most_shipped_kernels_is_recognised_from_their_code():
    """The words are for production code; our own kernels are a check that nobody tuned them on."""
    tagging = {op for op, marks in read_data("operators.yaml").items() if "names" in marks}
    kernels = load_shipped_corpus().kernels
    known = [each for each in kernels if tagging & set(lineage(each.entry.op))]
    right = 0
    for each in known:
        name = each.path.rsplit("/", 1)[-1]
        found = features(each.text, each.entry.language, None, f"corpus/{name}")
        right += found.op in lineage(each.entry.op)
    assert right / len(known) >= 0.7
