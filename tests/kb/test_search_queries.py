"""What a query is understood to say."""

import pytest
from support import TinyCorpus, add, searcher

from kb.search.pasted import pasted_code

CUDA = """// A matmul. tensor cores, split-k
__global__ void scale_rows(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    place = tmp_path_factory.mktemp("queries")
    corpus = TinyCorpus(place / "corpus")
    add(corpus.root, place / "index")
    return searcher(place / "index")._reader.read


@pytest.mark.parametrize(
    ("query", "dtypes"),
    [
        ("quantize to fp8", {"float8_e4m3", "float8_e5m2", "mxfp8"}),
        ("e4m3 gemm", {"float8_e4m3"}),
        ("NVFP4 weights and bf16 activations", {"nvfp4", "bfloat16"}),
        ("half precision", {"float16"}),
        ("a matrix product", set()),
    ],
)
def test_number_formats_are_read_by_their_usual_names(read, query, dtypes):
    assert read(query).dtypes == dtypes


@pytest.mark.parametrize(
    ("query", "device"),
    [
        ("GEMM on Hopper", "sm_90a"),
        ("Ampere softmax", "sm_80"),
        ("what does Blackwell add", "sm_100a"),
        ("H100 copy", "sm_90a"),
        ("compile for sm_103a", "sm_103a"),
        ("copy", None),
    ],
)
def test_a_gpu_is_read_by_model_generation_or_target(read, query, device):
    assert read(query).device == device


@pytest.mark.parametrize(
    ("query", "op"),
    [
        ("fused add RMSNorm", "add-rmsnorm"),
        ("rotary position embedding with rope cache", "rope"),
        ("gemm with a fused epilogue", "matmul"),
        ("SwiGLU backward", "silu-mul"),
    ],
)
def test_an_operator_is_read_by_the_words_that_tag_code(read, query, op):
    assert op in read(query).ops


@pytest.mark.parametrize(
    ("query", "symbols", "only", "plain"),
    [
        ("tl.make_tensor_descriptor", ("tl.make_tensor_descriptor",), True, False),
        ("flashinfer::norm::RMSNorm", ("flashinfer::norm::RMSNorm",), True, False),
        ("softmax", ("softmax",), True, True),
        ("how does layer_norm work", ("layer_norm",), False, False),
        ("two words", (), False, False),
    ],
)
def test_identifiers_are_told_from_words(read, query, symbols, only, plain):
    query = read(query)
    assert (query.symbols, query.only_symbols, query.plain_word) == (symbols, only, plain)


def test_an_identifier_names_the_technique_whose_patterns_it_meets(read):
    assert read("pid_swizzling_rows").techniques[0] == "pid-swizzling"
    assert read("software_pipelining_of").techniques[0] == "software-pipelining"


def test_pasted_code_is_read_without_its_comments(read):
    understanding = read(CUDA)
    assert understanding.pasted.names == ("scale_rows",)
    assert understanding.pasted.language == "cuda"
    assert "tensor cores" not in understanding.pasted.code
    assert understanding.techniques == ()
    assert understanding.wants_kernel
    assert understanding.languages == ("cuda",)


@pytest.mark.parametrize(
    "query",
    [
        "why is my kernel slow",
        "def main",
        "error: too many resources\nrequested for launch\nin kernel foo",
        "l2_hit_rate: 30\ndram_throughput: 90\noccupancy: 12",
        "",
    ],
)
def test_what_is_no_code_is_not_taken_for_code(query):
    assert pasted_code(query) is None


def test_metrics_with_values_are_read_from_a_list(read):
    understanding = read("l2_hit_rate: 30\ndram_throughput: 91")
    assert sorted(understanding.metrics.values()) == [30.0, 91.0]
