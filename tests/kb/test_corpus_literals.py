"""The words that a pattern asks for are in every text that it matches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.corpus.detection import Detector
from kb.corpus.entries import Technique
from kb.corpus.literals import holds, required
from kb.corpus.loader import load_corpus, shipped_corpus

PATTERNS = [
    r"\btl\.dot\((?!x)",
    r"(?i)\bSplit_?K\b",
    r"alpha(?:beta|gamma)+delta",
    r"(?:abc|abd)?tail",
    r"(\w+)\s*=\s*load\(\1\)",
    r"__shfl_(?:xor|down)_sync|redux\.sync",
    r"[abc]{2,}\d*",
    r"(?=look)lookahead(?<!behind)after",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_its_words(pattern, data):
    text = data.draw(st.from_regex(re.compile(pattern, re.MULTILINE)))
    assert holds(text.lower(), required(pattern))


def test_words_rule_out_what_lacks_them():
    clauses = required(r"\btl\.load\([\s\S]*?(?:\btl\.sigmoid\(|\btl\.exp\()")
    assert holds("tl.load(x) tl.exp(y)", clauses)
    assert not holds("tl.load(x) tl.sqrt(y)", clauses)
    assert not holds("tl.exp(y)", clauses)


def test_the_shipped_patterns_find_the_same_with_and_without_the_check():
    corpus = load_corpus(shipped_corpus())
    entries = [each.entry for each in corpus.techniques]
    fast, slow = Detector(entries), Detector(entries, precheck=False)
    texts = [(each.text, each.entry.language) for each in corpus.kernels]
    texts += [(each.body, "cuda") for each in corpus.techniques]
    found = [fast.techniques(*each) for each in texts]
    assert found == [slow.techniques(*each) for each in texts]
    assert any(found)


def test_what_only_comments_and_docstrings_say_is_not_recognised():
    entry = next(
        each.entry
        for each in load_corpus(shipped_corpus()).techniques
        if each.entry.slug == "tensor-cores"
    )
    assert isinstance(entry, Technique)
    detector = Detector([entry])
    assert detector.techniques("acc = tl.dot(a, b)", "triton") == ("tensor-cores",)
    assert detector.techniques("x = 1  # tl.dot(a, b)", "triton") == ()
    assert detector.techniques('def f():\n    """tl.dot(a, b)"""\n    return 1', "triton") == ()
    assert detector.techniques("/* wmma::mma_sync(a) */ int x;", "cuda") == ()
    assert detector.techniques('asm("wgmma.mma_async x"); // y', "cuda") == ("tensor-cores",)
