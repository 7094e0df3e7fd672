"""Patterns on foreign text: what they find, and that no text costs more than its length."""

import time

import pytest

from kb.caching import cached_by_word
from kb.corpus.comments import without_comments
from kb.corpus.detection import Detector
from kb.corpus.loader import load_shipped_corpus
from kb.errors import InvalidInputError
from kb.patterns import AnyOf, LinearPattern, encoded

# Twice the text costs twice the time; four times is quadratic. Between is room for noise.
MOST_FOR_TWICE = 3.0
SHORTEST_TIME = 0.01


def found(pattern: str, text: str) -> bool:
    return LinearPattern(pattern).search(encoded(text))


def test_a_repeated_word_is_the_same_word() -> None:
    pattern = r"^(?P<x>\w+) = load\([^\n]*\n[\s\S]*?sum\((?P=x)\)"
    assert found(pattern, "a = load(p)\nb = load(q)\ns = sum(b)")
    assert not found(pattern, "a = load(p)\nb = load(q)\ns = sum(c)")
    assert not found(pattern, "a = load(p)\nb = load(q)\ns = sum(ab)")


def test_a_match_with_an_unless_group_does_not_count() -> None:
    pattern = r"stages=(?:(?P<unless>1\b)|\w)"
    assert not found(pattern, "f(stages=1)")
    assert found(pattern, "f(stages=1); f(stages=12)")
    both = AnyOf([pattern, r"\bunroll\b(?P<unless>\s*1$)?"])
    assert both.search(b"pragma unroll 4")
    assert not both.search(b"pragma unroll 1\nf(stages=1)")


@pytest.mark.parametrize("pattern", [r"a(?!b)", r"(?<=a)b", r"(a)\1", "a{2000}", "(", "x" * 2_001])
def test_what_has_no_linear_match_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInputError):
        LinearPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [
        ("(x+x+)+y", "x"),
        (r"/\*[\s\S]*?\*/", "/* "),
        (r"^[ \t]+(?P<x>\w+)\s*=[\s\S]*?sum\((?P=x)\)", "  a = a\n"),
        (r"load\((?:(?P<unless>[\s\S]*dot\()|[\s\S]*store\()", "load("),
    ],
)
def test_twice_the_text_takes_twice_the_time(pattern: str, unit: str) -> None:
    compiled = LinearPattern(pattern)
    assert _growth(lambda text: compiled.search(encoded(text)), unit) < MOST_FOR_TWICE


# Each is the beginning of something that a pattern, or the reader of comments, would look for.
OPENINGS = [
    "/* ", "// ", '"', '\\"', "'", '"""', "'''", 'r"""', "# ", "__global__ ", "__global__ void k(",
    "tl.dot(", "tl.load(", "  a = tl.load(", "@triton.jit\n", "@jit ", "def f(", "  for i in x(",
    "#pragma unroll\n", "__shared__ float a[", "blockIdx.x * blockDim.x + threadIdx.x;", "& 15 ",
    "template <", "a\\\n", "#if __CUDA_ARCH__\n", "((((", "[[[[", "\n\n\n", "    ", "alpha = exp2(",
]  # fmt: skip


@pytest.fixture(scope="module")
def detector() -> Detector:
    entries = [file.entry for file in load_shipped_corpus().techniques]
    return Detector(entries, precheck=False)


@pytest.mark.parametrize("unit", OPENINGS, ids=repr)
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_tagging_code_takes_time_linear_in_it(detector: Detector, unit: str, language: str) -> None:
    assert _growth(lambda text: detector.techniques(text, language), unit, 8_000) < MOST_FOR_TWICE


@pytest.mark.parametrize("unit", OPENINGS, ids=repr)
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_blanking_comments_takes_time_linear_in_the_code(unit: str, language: str) -> None:
    assert _growth(lambda text: without_comments(text, language), unit) < MOST_FOR_TWICE


def _growth(work, unit: str, start: int = 30_000) -> float:
    """How many times the CPU time grows when the text doubles, at a size where it can be told.

    It is measured again, and better, only where it looks too much.
    """
    size, before = start, 0.0
    while True:
        text = unit * (size // len(unit))
        took = _seconds(work, text)
        if before > SHORTEST_TIME:
            if took / before < MOST_FOR_TWICE:
                return took / before
            half = unit * (size // 2 // len(unit))
            # In turn: what else the machine does, and how fast it runs, changes with time.
            pairs = [(_seconds(work, text), _seconds(work, half)) for _ in range(5)]
            return min(took for took, _ in pairs) / min(before for _, before in pairs)
        if size > 1_000_000:  # twice the largest file that is read
            return 0.0
        before, size = took, size * 2


def _seconds(work, text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started


def test_long_words_are_not_remembered() -> None:
    calls: list[str] = []

    @cached_by_word
    def length(word: str) -> int:
        calls.append(word)
        return len(word)

    assert [length("short"), length("short"), len(calls)] == [5, 5, 1]
    assert [length("x" * 5_000), length("x" * 5_000), len(calls)] == [5_000, 5_000, 3]
