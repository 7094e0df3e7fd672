"""What a query is searched with: an identifier that no chunk has is left to its parts."""

import pytest
from support import TinyCorpus, add, opened, searcher

from kb.search.models import Filters
from kb.search.query import QueryReader
from kb.search.query_terms import query_terms


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    corpus = TinyCorpus(root / "corpus")
    corpus.technique("store-scatter", "memory", aliases="[HBM, atomic_scatter_rows]")
    add(corpus.root, root / "index")
    return root / "index"


@pytest.fixture(scope="module")
def asked(index):
    with opened(index) as generation:
        reader = QueryReader(generation)
        yield lambda query: query_terms(reader.read(query), generation.lexical)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("atomic_scatter_rows", ["atomic_scatter_rows", "atom", "scatter", "row"]),
        ("atomic_scatter_columns", ["atom", "scatter", "column"]),
        ("atomicScatterColumns", ["atom", "scatter", "column"]),
        ("kit.atomic_scatter_columns", ["kit", "atom", "scatter", "column"]),
        ("tl.frobnicate(x)", ["tl", "frobnic", "x"]),
        ("frobnicate", ["frobnic"]),  # a plain word that nothing has counts as before
        ("bytes of HBM3", ["byte", "hbm"]),
        ("XYZ3 bytes", ["xyz3", "byte"]),
    ],
)
def test_an_identifier_that_no_chunk_has_is_left_to_its_parts(asked, query, terms):
    assert asked(query) == terms


def test_an_unknown_identifier_takes_nothing_from_the_evidence_of_its_parts(index):
    search = searcher(index)
    by_name, by_parts, unknown = (
        search.rank(query, 10, Filters()).evidence
        for query in ("swizzling_tiles_matmul", "swizzling tiles matmul", "frobnicating_gizmo")
    )
    assert by_name.known == by_parts.known == 1.0
    assert by_name.coverage == pytest.approx(by_parts.coverage)
    assert unknown.known == 0.0


def test_pasted_code_is_searched_by_what_tells_it_from_other_code(asked):
    code = "import triton\n\n\n@triton.jit\ndef scatter_rows(x):\n    tl.load(x)\n"
    terms = asked(code)
    assert terms[:2] == ["scatter", "row"]
    assert "scatter_rows" not in terms
