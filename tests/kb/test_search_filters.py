"""Filters keep exactly what they say, results are ordered, and both vector paths agree."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import HashingEmbedder, TinyCorpus, function, searcher, tree_hash

from ingest.pipeline import Request, ingest
from kb.architectures import any_runs_on, parse_architecture
from kb.errors import InvalidInputError
from kb.records import KINDS, Chunk
from kb.search.filtering import filter_mask
from kb.search.models import Filters

DEVICES = ["sm_70", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120a"]
QUERIES = [
    "pid swizzling of tiles",
    "kernel that multiplies tiles and stores them",
    "software pipelining",
    "Compute fn3 with an offset",
    "persistent kernel risks",
    "who wrote the guide",
]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("search")
    corpus = TinyCorpus(place / "corpus")
    corpus.kernel("only-hopper", "pid-swizzling", architectures="[sm_90a]", op="attention")
    corpus.kernel("family", architectures="[sm_100f]")
    code = place / "code"
    code.mkdir()
    for number in range(30):
        (code / f"f{number}.py").write_text(function(f"fn{number}", "uses pid_swizzling_(x)"))
    (code / "k.cu").write_text("__global__ void scale(float* x) {\n  x[threadIdx.x] *= 2.0f;\n}\n")
    (code / "read.md").write_text("# Read\n\nHow tiles are read.\n")
    ingest([Request(corpus.root), Request(code)], place / "index", HashingEmbedder())
    return searcher(place / "index")


def keeps(filters: Filters, chunk: Chunk) -> bool:
    """What the filters say of one chunk, in the plainest way."""
    return all(
        (
            not filters.techniques or set(filters.techniques) & set(chunk.techniques),
            not filters.bottlenecks or set(filters.bottlenecks) & set(chunk.bottlenecks),
            not filters.languages or chunk.language in filters.languages,
            not filters.sources or chunk.source in filters.sources,
            not filters.kinds or chunk.kind in filters.kinds,
            not filters.architectures
            or not chunk.architectures
            or any(
                parse_architecture(target).runs_on(parse_architecture(device))
                for target in chunk.architectures
                for device in filters.architectures
            ),
        )
    )


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=3)


FILTERS = st.builds(
    Filters,
    techniques=some(["pid-swizzling", "software-pipelining", "persistent-kernel", "nothing"]),
    bottlenecks=some(["memory", "latency", "utilization", "nothing"]),
    languages=some(["triton", "cuda", "python", "markdown", "cobol"]),
    sources=some(["tiny", "code", "nothing"]),
    kinds=some(list(KINDS)),
    architectures=some(DEVICES),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(filters=FILTERS)
def test_a_filter_keeps_exactly_the_chunks_that_brute_force_keeps(one, filters):
    mask = filter_mask(filters, one.generation.columns)
    expected = [bool(keeps(filters, chunk)) for chunk in one.generation.store.all()]
    assert expected == ([True] * len(expected) if mask is None else mask.tolist())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(filters=FILTERS, query=st.sampled_from(QUERIES), k=st.integers(1, 60))
def test_results_are_kept_by_the_filters_ordered_and_scored_in_the_unit_interval(
    one, filters, query, k
):
    named = {*filters.techniques, *filters.bottlenecks, *filters.languages, *filters.sources}
    if named & {"nothing", "cobol"}:
        with pytest.raises(InvalidInputError, match=r"no .* is called"):
            one.search(query, k, filters)
        return
    response = one.search(query, k, filters, explain=True)
    scores = [result.score for result in response.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(scores) <= k
    assert len({result.id for result in response.results}) == len(scores)
    assert response.abstained == (not scores)
    for result in response.results:
        chunk = one.generation.store.find(result.id)
        assert keeps(filters, chunk)
        assert (result.text, result.path) == (chunk.text, chunk.path)
        assert {"fused", "relevance"} <= result.explanation.keys()
        assert {"lexical rank", "dense rank"} & result.explanation.keys() or chunk.entry
        if result.kind == "technique":
            assert result.techniques == [chunk.entry]


@pytest.mark.parametrize(
    ("targets", "device", "runs"),
    [
        (["sm_90"], "sm_100a", True),
        (["sm_90"], "sm_80", False),
        (["sm_90a"], "sm_90", True),
        (["sm_90a"], "sm_90a", True),
        (["sm_90a"], "sm_100a", False),
        (["sm_100f"], "sm_100a", True),
        (["sm_100f"], "sm_103a", True),
        (["sm_103f"], "sm_100a", False),
        (["sm_100f"], "sm_120a", False),
        (["sm_90a", "sm_100f"], "sm_103a", True),
        ([], "sm_70", True),
    ],
)
def test_which_targets_run_on_which_device(targets, device, runs):
    assert any_runs_on(targets, device) is runs


@pytest.mark.parametrize(
    "name", ["sm90", "SM_90", "sm_9", "sm_90b", "sm_1000", "", "sm_90 ", "sm_90\n"]
)
def test_what_is_no_architecture_is_refused(one, name):
    with pytest.raises(InvalidInputError, match="is not an architecture"):
        one.search("tiles", filters=Filters(architectures=[name]))


def test_the_graph_finds_what_the_exact_product_finds_and_touches_nothing(one):
    folder = one.generation.folder
    before = tree_hash(folder, times=True)
    graph = searcher(folder.parent.parent, exact_limit=0)
    shared = total = 0
    for query in QUERIES:
        exact = [result.id for result in one.search(query, 10).results]
        found = [result.id for result in graph.search(query, 10).results]
        shared += len(set(exact) & set(found))
        total += len(exact)
    graph.close()
    assert shared >= 0.95 * total > 0
    assert tree_hash(folder, times=True) == before


def test_an_abstained_answer_holds_no_results(one, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(one, "_calibration", replace(one._calibration, threshold=1.1))
    response = one.search("pid swizzling", explain=True)
    assert (response.abstained, response.results) == (True, [])


def test_the_same_query_has_the_same_answer_every_time(one):
    for query in QUERIES:
        first, second = (one.search(query, 20, explain=True).results for _ in range(2))
        assert first == second


@pytest.mark.parametrize(
    "query", ["?", "\0", "🚀" * 50, "the of and", "x" * 20_000, "a\u2028b", "%s {0}"]
)
def test_odd_queries_are_answered_without_an_error(one, query):
    assert one.search(query, 3).index.chunks == one.generation.manifest.chunks
