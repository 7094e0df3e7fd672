"""The teaching set is sound, and its splits keep paraphrases together."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.retrieval.teaching import (
    NOTHING,
    STYLES,
    Question,
    copies,
    novel,
    situations,
    teaching_questions,
)
from kb.errors import KbError
from kb.vocabulary import taxonomy

FAMILY = """
- family: {number}
  style: symptom
  techniques: {{{slug}: {grade}}}
  questions:
  - beginner: "{text}"
"""


def family(number=1, slug="split-k", grade=3, text="few blocks, and K is long"):
    return FAMILY.format(number=number, slug=slug, grade=grade, text=text)


@pytest.fixture(scope="module")
def questions():
    return teaching_questions()


def test_every_technique_is_asked_for_a_hundred_times_in_several_styles(questions):
    asked = Counter(slug for each in questions for slug, g in each.techniques.items() if g == 3)
    styles = Counter((each.file, each.style) for each in questions)
    for slug in (slug for slugs in taxonomy().values() for slug in slugs):
        assert asked[slug] >= 100, slug
        assert sum((slug, style) in styles for style in STYLES) >= 3, slug
    assert sum(each.style == NOTHING for each in questions) >= 1_500
    assert len(questions) >= 10_000


def test_what_the_benchmark_asks_is_not_taught():
    asked = [
        Question(text, "symptom", {"split-k": 3}, "a", "a/1")
        for text in ("Few blocks, K is long", "few blocks and a long K", "atomics are slow")
    ]
    vectors = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], dtype=np.float32)
    judged = ["few blocks, k is LONG!", "a long K, few blocks"]
    near = np.array([[0.5, 0.86], [0.95, 0.31]], dtype=np.float32)
    assert novel(asked, vectors, judged, near).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (family(slug="split-q"), "no technique split-q"),
        (family(grade=2), "no technique has grade 3"),
        (family() + family(2), "asked more than once"),
        ("- {family: 1, techniques: {}, questions: [{agent: cooking}]}", "name its topic"),
        ("- {family: 1, techniques: {}, topic: food, questions: [{cook: cooking}]}", "cook"),
        ("- [", "one.yaml"),
    ],
)
def test_a_malformed_file_is_refused_with_what_is_wrong(tmp_path, text, said):
    (tmp_path / "one.yaml").write_text(text)
    with pytest.raises(KbError, match=said):
        teaching_questions(tmp_path)


def test_a_situation_is_one_family_or_several_that_tell_the_same():
    names = ["a/1", "a/1", "a/2", "b/1", "b/2"]
    asked = [Question(name, "symptom", {"split-k": 3}, "a", name) for name in names]
    angles = np.deg2rad([0, 90, 20, 21, 180])
    vectors = np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)
    numbers = situations(asked, vectors)
    assert numbers[0] == numbers[1]  # one family, however unlike
    assert numbers[2] == numbers[3]  # two families, one question
    assert len({numbers[0], numbers[2], numbers[4]}) == 2  # 20 degrees are one situation, too
    assert copies(asked, vectors) == [(2, 3)]
