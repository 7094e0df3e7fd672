"""A misspelt word is read as the word of the field that was meant, and nothing else is changed."""

import pytest
from support import TinyCorpus, add, opened, searcher

from kb.search.models import Filters
from kb.search.query import QueryReader
from kb.search.spelling import Spelling


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    root = tmp_path_factory.mktemp("spelling")
    corpus = TinyCorpus(root / "corpus")
    corpus.technique(
        "atomics-privatization",
        "latency",
        aliases="[histogram, scattered stores, lanes]",
        questions='["threads queue on a hot address", "all threads have stored to one bucket"]',
    )
    corpus.technique("shared-memory-tiling", "memory", questions='["threads read it again"]')
    corpus.technique("store-scatter", "memory", aliases="[scatter, lines, thleads]")
    corpus.technique("many-a-one", "latency", questions='["many threads, little work"]')
    corpus.technique("idle-hands", "latency", questions='["idle threads"]')
    corpus.technique("long-wait", "latency", questions='["threads wait for others"]')
    corpus.technique("slow-path", "latency", questions='["threads take a slow path"]')
    add(corpus.root, root / "index")
    return root / "index"


@pytest.fixture(scope="module")
def correct(index):
    with opened(index) as generation:
        yield Spelling(generation).correct


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("memroy", "memory"),  # two letters in the wrong order
        ("swizling", "swizzling"),  # one is missing
        ("pipellining of loads", "pipelining of loads"),  # one too many
        ("histogrem buckets", "histogram buckets"),  # another one
        ("persistant kernal", "persistant kernel"),  # its stem is known as it is
        ("software-pipelning", "software-pipelining"),
        ("Memroy, (histogrem) and swizling?", "Memory, (histogram) and swizzling?"),
        ("privatisaton", "privatization"),  # nine letters and more may have two edits
    ],
)
def test_a_word_that_nothing_knows_is_read_as_the_nearest_one(correct, query, meant):
    assert correct(query)[0] == meant


@pytest.mark.parametrize(
    "query",
    [
        "memory tiling by software-pipelining",
        "tl.memroy(x) and memroy_load and cudaMemroy",  # identifiers
        "`memroy` in <memroy> or --memroy or /memroy",  # code, markup, options, paths
        "MEMROY histogrem2",  # capitals, digits
        "thread",  # its stem is in the index
        "memo",  # too short
        "nemory",  # the first letter differs
        "stared",  # English, and one edit from `stored`
        "seldom stalls",  # English, though nothing here has it
        "kubernetes ingress",
        "msxmory",  # two edits in a short word
    ],
)
def test_all_else_is_left_alone(correct, query):
    assert correct(query) == (query, {})


def test_of_two_words_equally_near_the_much_commoner_one_is_meant(correct):
    assert correct("lxnes") == ("lxnes", {})  # `lanes` or `lines`, of one entry each
    assert correct("thxeads")[0] == "threads"  # `thleads` is of one entry, `threads` of three
    # `scatter` and `scattered` are one word with two endings.
    assert correct("scatterd")[0] in {"scatter", "scattered"}


def test_what_is_read_is_searched_for_and_told(index):
    with opened(index) as generation:
        said = QueryReader(generation).read("pid swizling for a matmul")
    assert said.text == "pid swizzling for a matmul"
    assert said.spelled == {"swizling": "swizzling"}
    assert "pid-swizzling" in said.techniques
    search = searcher(index)
    meant, misspelt = (
        search.search(query, explain=True)
        for query in ("pid swizzling for a matmul", "pid swizling for a matmul")
    )
    assert misspelt.query == "pid swizling for a matmul"
    assert [each.id for each in misspelt.results] == [each.id for each in meant.results]
    assert [each.score for each in misspelt.results] == [each.score for each in meant.results]
    assert {each.explanation["read as"] for each in misspelt.results} == {meant.query}
    assert not any("read as" in each.explanation for each in meant.results)


def test_the_evidence_of_abstention_is_that_of_the_word_that_was_meant(index):
    search = searcher(index)
    meant, misspelt, other = (
        search.rank(query, 10, Filters()).evidence
        for query in ("pid swizzling", "pid swizling", "pid swozzzung")
    )
    assert misspelt == meant
    assert other.known < meant.known


def test_code_is_never_corrected(index):
    code = "import triton\n\n\n@triton.jit\ndef memroy(x):\n    tl.load(x) # swizling\n"
    with opened(index) as generation:
        said = QueryReader(generation).read(code)
    assert said.pasted is not None
    assert said.text == code
    assert said.spelled == {}
