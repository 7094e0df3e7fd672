"""Techniques are recognised in code by their patterns, whose words are looked for first."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.corpus.detection import Detector
from kb.corpus.entries import Technique
from kb.corpus.loader import load_shipped_corpus
from kb.patterns import LinearPattern, Screen, encoded, linear_pattern

PATTERNS = [
    r"\btl\.dot\([^x]",
    r"(?i)\bSplit_?K\b",
    r"alpha(?:beta|gamma)+delta",
    r"(?:abc|abd)?tail",
    r"(?P<x>\w+)\s*=\s*load\((?P=x)\)",
    r"__shfl_(?:xor|down)_sync|redux\.sync",
    r"[abc]{2,}\d*",
    r"load(?:(?P<unless>1\b)|\w)",
]
COMPILED = [LinearPattern(pattern) for pattern in PATTERNS]
SCREEN = Screen([pattern.body for pattern in COMPILED])


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_a_screen_passes_whatever_matches(pattern, data):
    text = encoded(data.draw(st.from_regex(re.compile(pattern, re.MULTILINE))))
    matching = [place for place, each in enumerate(COMPILED) if each.search(text)]
    assert set(matching) <= set(SCREEN.candidates(text))


def test_words_rule_out_what_lacks_them():
    screen = Screen([r"\btl\.load\([\s\S]*?(?:\btl\.sigmoid\(|\btl\.exp\()"])
    assert screen.candidates(b"tl.load(x) tl.exp(y)") == [0]
    assert screen.candidates(b"tl.load(x) tl.sqrt(y)") == []
    assert screen.candidates(b"tl.exp(y)") == []
    assert Screen([]).candidates(b"tl.exp(y)") == []


@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_no_shipped_pattern_matches_a_kernel_that_lacks_its_words(language):
    corpus = load_shipped_corpus()
    sources = [each for file in corpus.techniques for each in getattr(file.entry.detect, language)]
    patterns = [linear_pattern(source) for source in sources]
    screen = Screen([pattern.body for pattern in patterns])
    kernels = [each.text for each in corpus.kernels if each.entry.language == language]
    assert kernels
    for text in map(encoded, kernels):
        passed = set(screen.candidates(text))
        left_out = [each for place, each in enumerate(patterns) if place not in passed]
        assert [each.source for each in left_out if each.search(text)] == []


def test_the_shipped_patterns_find_the_same_with_and_without_the_check():
    corpus = load_shipped_corpus()
    entries = [each.entry for each in corpus.techniques]
    fast, slow = Detector(entries), Detector(entries, precheck=False)
    kernels = corpus.kernels[::8]
    texts = [(each.text, each.entry.language) for each in kernels]
    texts += [(each.front.body, "cuda") for each in corpus.techniques]
    # what a query gives is as short as a line
    lines = [(line, each.entry.language) for each in kernels for line in each.text.split("\n")]
    texts += dict.fromkeys(lines)
    found = [fast.techniques(*each) for each in texts]
    assert found == [slow.techniques(*each) for each in texts]
    assert any(found[: len(kernels)])
    assert any(found[len(kernels) + len(corpus.techniques) :])


def test_what_only_comments_and_docstrings_say_is_not_recognised():
    entry = next(
        each.entry for each in load_shipped_corpus().techniques if each.entry.slug == "tensor-cores"
    )
    assert isinstance(entry, Technique)
    detector = Detector([entry])
    assert detector.techniques("acc = tl.dot(a, b)", "triton") == ("tensor-cores",)
    assert detector.techniques("x = 1  # tl.dot(a, b)", "triton") == ()
    assert detector.techniques('def f():\n    """tl.dot(a, b)"""\n    return 1', "triton") == ()
    assert detector.techniques("/* wmma::mma_sync(a) */ int x;", "cuda") == ()
    assert detector.techniques('asm("wgmma.mma_async x"); // y', "cuda") == ("tensor-cores",)
