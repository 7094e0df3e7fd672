"""Judged queries are refused where they are malformed, taken from an entry, or lead nowhere."""

import pytest

from benchmarks.retrieval.functions import FOLDER, read_identifiers
from benchmarks.retrieval.indexes import build_index, open_index
from benchmarks.retrieval.judgements import technique_cases, unanswerable_cases
from benchmarks.retrieval.packages import index_set, pinned_packages
from kb.embedders import load_embedder
from kb.errors import KbError

GOOD = """
- id: q1
  style: symptom
  query: the same operand tiles travel from memory again and again
  answers: {"technique:pid-swizzling": 3, "technique:shared-memory-tiling": 1}
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    built = build_index("corpus", tmp_path_factory.mktemp("work"), load_embedder())
    with open_index(built.folder) as opened_corpus:
        yield opened_corpus


def written(tmp_path, text):
    path = tmp_path / "queries.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_query_becomes_a_case(corpus, tmp_path):
    (case,) = technique_cases(corpus, written(tmp_path, GOOD))
    assert [(answer.name, answer.grade) for answer in case.answers] == [
        ("technique:pid-swizzling", 3),
        ("technique:shared-memory-tiling", 1),
    ]
    assert case.labels == {"style": "symptom"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("symptom", "riddle"), "style"),
        (("pid-swizzling", "no-such-technique"), "no technique:no-such-technique"),
        ((": 3", ": 2"), "grade 3"),
        ((": 3", ": 4"), "less than or equal to 3"),
        (("the same operand tiles travel from memory again and again", "TMA"), "a name of"),
        (("  query", "  extra: 1\n  query"), "extra"),
    ],
)
def test_a_bad_query_is_refused(corpus, tmp_path, change, message):
    with pytest.raises(KbError, match=message):
        technique_cases(corpus, written(tmp_path, GOOD.replace(*change)))


def test_a_repeated_query_is_refused(corpus, tmp_path):
    with pytest.raises(KbError, match="more than once"):
        technique_cases(corpus, written(tmp_path, GOOD + GOOD.replace("q1", "q2")))


def test_an_unanswerable_query_has_no_answers(corpus, tmp_path):
    text = "- {id: n1, topic: cooking, query: how long do lentils have to soak}"
    (case,) = unanswerable_cases(corpus, written(tmp_path, text))
    assert case.answers == ()


def test_no_file_is_no_query(corpus, tmp_path):
    assert technique_cases(corpus, tmp_path / "none.yaml") == []


@pytest.mark.parametrize(("name", "least"), [("small", 160), ("full", 600)])
def test_stored_function_queries_are_identifiers_of_what_the_set_takes(name, least):
    stored = read_identifiers(FOLDER / f"functions-{name}.tsv")
    chosen, packages = index_set(name), pinned_packages()
    assert len({each.id for each in stored}) == len(stored) >= least
    for each in stored:
        assert each.package in packages
        assert chosen.takes(each.package, each.path)
        assert len(each.sentence) == 12


def test_every_package_is_pinned_by_hash():
    for package in pinned_packages().values():
        assert len(package.sha256) == 64
        assert package.version
