"""Production code stands under the techniques it shows, and is an example where it fits better."""

import pytest
from support import HashingEmbedder, TinyCorpus, searcher

from ingest.pipeline import Request, ingest
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.production import Traits, best_rows, production_view

TRITON = '''import triton
import triton.language as tl


@triton.jit
def {name}(x_ptr, n, BLOCK: tl.constexpr):
    """Work."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = pid_swizzling_order(i)
    tl.store(x_ptr + i, x{dtype} + {number})
'''
HOST = "def pid_swizzling_host(x):\n    return pid_swizzling_order(x) + 1\n\n\nprint(1)\n"


@pytest.fixture(scope="module")
def generation(tmp_path_factory):
    place = tmp_path_factory.mktemp("production")
    corpus = TinyCorpus(place / "corpus")
    corpus.technique("split-k", "utilization", detect="{triton: ['nothing_like_it'], cuda: []}")
    for source in ("one", "two"):
        code = place / source
        code.mkdir()
        for number in range(3):
            name = f"rope_{source}_{number}_kernel"
            dtype = ".to(tl.bfloat16)" if number == 1 else ""
            text = TRITON.format(name=name, dtype=dtype, number=f"{number}{source == 'two':d}")
            (code / f"f{number}.py").write_text(text)
        (code / "host.py").write_text(HOST)
        (code / "copy.py").write_text((code / "f0.py").read_text())
    requests = [Request(corpus.root), Request(place / "one"), Request(place / "two")]
    ingest(requests, place / "index", HashingEmbedder())
    return searcher(place / "index")


def test_code_is_tagged_with_operator_role_and_dtypes(generation):
    columns = generation.generation.columns
    found = [c for c in generation.generation.store.all() if c.symbol == "rope_one_1_kernel"]
    assert [(c.op, c.role, c.dtypes) for c in found] == [("rope", "kernel", ("bfloat16",))]
    assert "kernel" in {value for values in columns["roles"].values for value in values}


def test_kernels_come_before_host_code_and_no_copy_or_source_fills_the_list(generation):
    index = generation.generation
    view = production_view(index, "pid-swizzling", 6)
    assert view["count"] == 10
    assert [each["role"] for each in view["best"]] == ["kernel"] * 4
    assert {each["source"]["name"] for each in view["best"]} == {"one", "two"}
    texts = [index.store.find(each["id"]).fold for each in view["best"]]
    assert len(set(texts)) == len(texts)
    first = view["best"][0]
    assert first["path"].endswith(".py")
    assert first["start_line"] < first["end_line"]
    assert set(first["source"]) == {"name", "version", "licence", "url"}


def test_what_nothing_shows_has_no_production_example(generation):
    assert production_view(generation.generation, "split-k", 3) == {"count": 0, "best": []}


def test_traits_asked_for_decide_first(generation):
    index = generation.generation
    asked = Traits(dtypes=frozenset({"bfloat16"}))
    (chunk,) = index.store.rows(best_rows(index, "pid-swizzling", 1, asked))
    assert chunk.dtypes == ("bfloat16",)


def examples(generation, **request):
    answer = build_context(ContextRequest(max_tokens=4000, **request), generation)
    return answer, [generation.generation.store.find(each) for each in answer.examples]


def test_a_shipped_kernel_stays_the_example_where_nothing_speaks_for_another(generation):
    _, shown = examples(generation, query="pid swizzling")
    assert shown[0].kind == "kernel"


def test_production_code_is_the_example_where_it_has_more_of_what_is_asked(generation):
    answer, shown = examples(generation, query="pid swizzling of a bf16 rope kernel in triton")
    assert (shown[0].kind, shown[0].op, shown[0].dtypes) == ("code", "rope", ("bfloat16",))
    assert f"{shown[0].path}:{shown[0].start_line}-{shown[0].end_line}" in answer.text
    assert shown[0].source in {each.title for each in answer.citations}


def test_production_code_that_is_excluded_gives_way_to_the_next(generation):
    query = "pid swizzling of a rope kernel in triton"
    _, shown = examples(generation, query=query)
    _, after = examples(generation, query=query, exclude=[shown[0].id])
    assert after[0].kind == "code"
    assert after[0].id != shown[0].id
