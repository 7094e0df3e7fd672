"""The questions to train an embedder on: of every technique, all different, none evaluated."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kb.corpus.loader import load_shipped_corpus
from kb.vocabulary import load_yaml, taxonomy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUESTIONS = load_yaml((BENCHMARKS / "embedder/questions.yaml").read_text("utf-8"))
TEXTS = [(slug, each["text"]) for slug, asked in QUESTIONS.items() for each in asked]
STYLES = {"symptom", "metrics", "howto", "concept", "error", "api", "code"}
LEAST_PER_TECHNIQUE = 10
LONGEST_RUN = 8  # words in a row that an entry and a question may share: an API call is as long


def words(text):
    """Lower-case words: equal for texts that differ in marks and spacing alone."""
    return re.findall(r"[a-z0-9_]+", text.lower())


def runs(text):
    """All runs of LONGEST_RUN + 1 words."""
    found = words(text)
    return {tuple(found[i : i + LONGEST_RUN + 1]) for i in range(len(found) - LONGEST_RUN)}


def queries(name):
    """The texts of one file of KernelRetrieve, as words."""
    path = BENCHMARKS / "retrieval/queries" / name
    if path.suffix == ".tsv":
        return {tuple(words(field)) for line in path.open() for field in line.split("\t")}
    return {tuple(words(each["query"])) for each in load_yaml(path.read_text("utf-8"))}


@pytest.fixture(scope="module")
def entries():
    corpus = load_shipped_corpus()
    return {file.entry.slug: file for file in corpus.techniques}


def test_every_technique_of_the_taxonomy_is_asked_for_and_no_other():
    assert set(QUESTIONS) == {slug for slugs in taxonomy().values() for slug in slugs}


def test_pages_carry_the_same_questions(entries):
    carried = {
        slug: [words(each) for each in file.entry.questions] for slug, file in entries.items()
    }
    asked = {slug: [words(each["text"]) for each in rows] for slug, rows in QUESTIONS.items()}
    assert carried == asked


@pytest.mark.parametrize("slug", QUESTIONS)
def test_each_has_enough_in_several_styles(slug):
    asked = QUESTIONS[slug]
    assert len(asked) >= LEAST_PER_TECHNIQUE
    assert all(set(each) == {"style", "text"} for each in asked)
    styles = {each["style"] for each in asked}
    assert styles <= STYLES
    assert len(styles) >= 5


def test_no_question_is_asked_twice():
    counts = Counter(" ".join(words(text)) for _, text in TEXTS)
    assert [text for text, count in counts.items() if count > 1] == []


def test_no_question_is_a_name_of_an_entry(entries):
    names = {
        tuple(words(name))
        for file in entries.values()
        for name in (file.entry.slug, file.entry.title, *file.entry.aliases)
    }
    assert [text for _, text in TEXTS if tuple(words(text)) in names] == []


def test_no_question_repeats_a_sentence_of_its_entry(entries):
    repeated = []
    for slug, file in entries.items():
        told = file.entry.model_dump_json(exclude={"questions"})  # these may be asked in the entry
        said = runs(f"{told} {file.front.body}")
        repeated += [each["text"] for each in QUESTIONS[slug] if runs(each["text"]) & said]
    assert repeated == []


@pytest.mark.parametrize(
    "name", ["techniques.yaml", "unanswerable.yaml", "functions-small.tsv", "functions-full.tsv"]
)
def test_no_question_is_one_that_retrieval_is_measured_with(name):
    evaluated = queries(name)
    assert len(evaluated) > 10
    assert [text for _, text in TEXTS if tuple(words(text)) in evaluated] == []
