"""What words and counters of the field mean, and which questions are of the field."""

from pathlib import Path

import pytest
from support import add, searcher

from kb.corpus.loader import load_shipped_corpus
from kb.embedders import load_embedder
from kb.search.engine import Searcher
from kb.search.meanings import code_meaning, domain_terms, query_meaning
from kb.search.models import Filters
from kb.search.opening import open_searcher
from kb.vocabulary import find_metric, load_yaml

DATA = Path(__file__).parents[2] / "kb" / "data"

# Question → entries of which at least this many are among the first three, the first one of them.
TOP_THREE = [
    ("short scoreboard stalls", 2, "bank-conflict-avoidance", "warp-shuffle-reduction"),
    ("stall short scoreboard 40%", 2, "bank-conflict-avoidance", "warp-shuffle-reduction"),
    ("stall wait", 1, "loop-unrolling", "thread-coarsening"),
    ("stall_wait 45%", 1, "loop-unrolling", "thread-coarsening"),
    ("occupancy 12% with 255 registers", 2, "register-pressure", "occupancy-tuning"),
    ("OutOfResources, Required: 264192", 2, "software-pipelining", "autotuning"),
    ("out of resource: shared memory, Required: 264192, Hardware limit: 232448. Reducing block "
     "sizes or `num_stages` may help.", 2, "software-pipelining", "autotuning"),
    ("tensor core utilization 85%", 2, "mixed-precision-math", "structural-sparsity"),
    ("memory bound at 40% of DRAM bandwidth", 2, "vectorized-access", "coalesced-access"),
    ("wgmma inline PTX", 2, "tensor-cores", "conv-transpose-wgmma-cuda"),
    ("KL divergence", 2, "distillation-loss-online", "pointwise-loss-split"),
    ("KL divergence loss kernel", 2, "distillation-loss-online", "pointwise-loss-split"),
    ("cooperative groups grid sync", 2, "persistent-kernel", "synchronization-reduction"),
    ("if (threadIdx.x % 2) does something expensive", 1, "divergence-avoidance"),
    ("lg throttle 45%", 2, "vectorized-access", "coalesced-access"),
    ("warps stalled at a barrier 35%", 1, "synchronization-reduction"),
    ("liger rope", 2, "rope-heads", "rope-plain"),
    ("my matmul rereads the same tiles and L2 hit rate is 30%", 1, "pid-swizzling"),
]  # fmt: skip
# Asked by people who were told that nothing is relevant.
ANSWERED = {
    "cross entropy with vocab 128k memory blowup": "cross-entropy-online",
    "geglu fused mlp": "kernel-fusion",
    "numerical error fp16 accumulation": "mixed-precision-math",
    "layernorm backward dgamma dbeta reduction": "register-caching",
    "CSR SpMM with one huge hub row": "load-balancing",
    "stencil on global memory, coalescing hopeless": "shared-memory-tiling",
}
NOTHING = [
    "data loader num_workers",
    "dataloader num_workers bottleneck",
    "pin_memory and prefetch_factor for my training loop",
    "learning rate warmup length for fine tuning a 7B model with LoRA",
    "why does my popcorn burn before every kernel pops",
    "regrout shower tiles without removing them",
]


@pytest.fixture(scope="module")
def one(shipped_index) -> Searcher:
    return open_searcher(shipped_index)


def entries(one, query, k=3):
    ranking = one.rank(query, k, Filters())
    assert not ranking.abstained, query
    columns = one.generation.columns["entries"]
    return [columns.of(hit.row)[0].partition(":")[2] for hit in ranking.hits[:k]]


@pytest.mark.parametrize(("query", "least", "expected"), [(q, n, e) for q, n, *e in TOP_THREE])
def test_what_a_question_means_is_among_the_first_three(one, query, least, expected):
    found = entries(one, query)
    assert found[0] in expected
    assert len(set(found) & set(expected)) >= least, found
    if query.startswith("occupancy"):
        assert found[0] == "register-pressure"


@pytest.mark.parametrize(("query", "expected"), ANSWERED.items())
def test_questions_of_the_field_are_answered_whatever_words_they_have(one, query, expected):
    assert expected in entries(one, query)


@pytest.mark.parametrize("query", NOTHING)
def test_what_lies_beside_the_field_has_no_answer(one, query):
    assert one.rank(query, 5, Filters()).abstained


def test_who_names_a_package_and_an_operator_gets_the_kernel_not_its_wrapper(tmp_path):
    code = tmp_path / "acme-kernels"
    code.mkdir()
    (code / "api.py").write_text(
        "def acme_rope(q, k, cos, sin):\n    return AcmeRope.apply(q, k, cos, sin)\n"
    )
    (code / "rope.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def _triton_rope(q_ptr, cos_ptr, sin_ptr, n, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n    q = tl.load(q_ptr + at)\n"
        "    cos = tl.load(cos_ptr + at)\n    sin = tl.load(sin_ptr + at)\n"
        "    tl.store(q_ptr + at, q * cos - q * sin)\n"
    )
    embedder = load_embedder()
    add(code, tmp_path / "index", embedder)
    found = searcher(tmp_path / "index", embedder).rank("acme rope", 2, Filters())
    symbols = found.ranker._columns["symbols"]
    assert [symbols.of(hit.row)[0] for hit in found.hits] == ["_triton_rope", "acme_rope"]


def test_a_counter_that_is_no_problem_is_said_to_be_none(one):
    response = one.search("stall_not_selected 40%", 3)
    assert any("this is no problem in itself" in note for note in response.notes)
    assert one.search("stall_long_scoreboard 40%", 3).notes == []


def test_a_profile_of_many_counters_is_weighed_by_its_gates(one):
    few = query_meaning("stall_barrier 30", {find_metric("stall_barrier").name: 30.0})
    many = dict.fromkeys(
        (find_metric(a).name for a in ("stall_barrier", "l2_hit_rate", "ipc")), 30.0
    )
    said = query_meaning("stall_barrier 30 l2_hit_rate 30 ipc 30", many)
    name = "technique:synchronization-reduction"
    assert said.entries[name] < few.entries[name] / 2


def test_the_words_of_a_sentence_are_no_name_of_a_counter():
    assert query_meaning("each warp is stalled waiting for its siblings", {}).entries == {}
    assert query_meaning("barriers between the two phases", {}).entries == {}


@pytest.mark.parametrize(
    ("code", "technique"),
    [
        ("if (threadIdx.x % 2 == 0) y[i] = f(x); else y[i] = g(x);", "divergence-avoidance"),
        ("sum += a[threadIdx.x * cols + j];", "coalesced-access"),
        ("for (int j = 0; j < n; ++j)\n  atomicAdd(&count[key[j]], 1);", "atomics-privatization"),
        ("  float seen[64];\n", "register-pressure"),
    ],
)
def test_patterns_of_code_are_read_as_symptoms(code, technique):
    kernel = f"__global__ void k(float *y) {{\n  int i = threadIdx.x;\n{code}\n}}"
    assert max(code_meaning(kernel).entries.items(), key=lambda item: item[1])[0] == (
        f"technique:{technique}"
    )
    assert f"technique:{technique}" in query_meaning(code, {}).entries


@pytest.mark.parametrize(
    "code",
    [
        "if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;",
        "float4 v = in[threadIdx.x * 4];",
        "__shared__ float tile[64];",
        "atomicAdd(total, sum);",
        "float acc[8];",
    ],
)
def test_what_good_kernels_have_as_well_is_no_symptom(code):
    assert not code_meaning(code).entries


def test_meanings_name_entries_and_metrics_that_exist():
    corpus = load_shipped_corpus()
    slugs = {each.entry.slug for each in (*corpus.techniques, *corpus.kernels)}
    for each in load_yaml((DATA / "meanings.yaml").read_text()):
        assert {*each.get("techniques", ()), *each.get("kernels", ())} <= slugs
        assert {"metric", "said", "pattern", "code"} & each.keys()
        for metric in (each.get("metric"), each.get("with", {}).get("metric")):
            assert metric is None or find_metric(metric) is not None
        weights = (*each.get("techniques", {}).values(), *each.get("kernels", {}).values())
        assert all(-1 <= weight <= 1 for weight in weights)


def test_words_that_other_fields_have_are_not_the_field_s():
    for word in ("kernel", "warp", "tile", "split", "cuda", "gpu", "driver", "shuffle", "thread"):
        assert domain_terms(word).terms == 0, word
    assert domain_terms("geglu mlp").terms == 2
    assert domain_terms("liger rope").neutral >= {"liger", "rope"}
    assert domain_terms("pin_memory=True").outside
