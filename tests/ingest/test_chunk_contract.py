"""Whatever the text, chunking drops no line and says truly where each piece comes from."""

import time
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunkers import SUPPORTED_SUFFIXES, chunk_file
from ingest.chunkers.limits import MAX_CHARS
from ingest.chunkers.markdown import front_matter_end

SUFFIXES = [".md", ".py", ".cu", ".hpp", ".txt"]
# Words of all the grammars, one a line; what decides between them is rarely a letter.
WORDS = """
{ } ( ) ; , :: < > " ' /* */ // R"( )" = # @ \\ ``` ~~~ --- === é
#if #else #endif #define template<class> struct class namespace extern"C" void f() return
__global__ __launch_bounds__( FOO_API def if: import triton @triton.jit k[g](x) a<<<b>>>(c)
"""
PARTS = [
    *WORDS.split(),
    *"\ue000\r\f\t",
    "\n",
    "\n\n",
    "\n    ",
    "x" * 700,
    "# Heading\n",
    "\n}\n",
    "template <class T>",
    "void f() {",
    "def f(x):\n    ",
    "class A:\n",
    "namespace n {",
]
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(PARTS), max_size=80).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=80).map(" ".join),
)


def assert_contract(text: str, suffix: str) -> None:
    lines = text.split("\n")
    pieces = chunk_file(PurePosixPath("a" + suffix), text)
    skipped = front_matter_end(lines) if suffix == ".md" else 0
    covered: dict[int, list[str]] = {}
    last = 0
    for piece in pieces:
        assert 1 <= piece.start_line <= piece.end_line <= len(lines)
        assert piece.start_line >= last, "pieces come in file order"
        last = piece.end_line
        assert piece.text.strip()
        assert len(piece.text) <= MAX_CHARS
        whole = "\n".join(lines[piece.start_line - 1 : piece.end_line])
        if piece.start_line == piece.end_line:
            assert piece.text in whole
        else:
            assert piece.text == whole
        for line in range(piece.start_line, piece.end_line + 1):
            covered.setdefault(line, []).append(piece.text)
    for number, line in enumerate(lines, 1):
        if number <= skipped or not line.strip():
            continue
        assert number in covered, f"line {number} was dropped"
        if len(line) <= MAX_CHARS:
            assert len(covered[number]) == 1, f"line {number} is in two pieces"
        else:
            assert "".join(covered[number]).strip() == line.strip()


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_any_text_is_chunked_without_losing_a_line(suffix: str, text: str) -> None:
    assert_contract(text, suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_minified_line_is_sliced_below_the_cap(suffix: str) -> None:
    assert_contract("int before;\n" + "a = 1; " * 5_000 + "\nint after;", suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_long_text_without_structure_is_cut_into_windows(suffix: str) -> None:
    assert_contract("\n".join(f"value {n} = {n * n}" for n in range(3_000)), suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("text", ["", "\n", "   \n\t\n", "\ufeff".replace("\ufeff", " ")])
def test_white_space_alone_makes_no_piece(suffix: str, text: str) -> None:
    assert chunk_file(PurePosixPath("a" + suffix), text) == []


@pytest.mark.parametrize("suffix", [".cu", ".py", ".md"])
@pytest.mark.parametrize(
    "unit",
    [
        *"({}#<\"' \t",
        *("/*", "template<", "namespace a{", "FOO_API(", "#if\n#else\n", "struct S {"),
        *("class A:\n ", "\\\n", "# ", "```\n"),
    ],
)
def test_unbalanced_text_costs_no_more_than_its_length(suffix: str, unit: str) -> None:
    text = unit * (100_000 // len(unit))
    began = time.perf_counter()
    assert_contract(text, suffix)
    # These take a second at most; what is quadratic in them took from ten seconds to minutes.
    assert time.perf_counter() - began < 8


@pytest.mark.parametrize("suffix", sorted(SUPPORTED_SUFFIXES))
def test_every_supported_suffix_chunks_in_either_case(suffix: str) -> None:
    text = "first line\n\nsecond line\n"
    lower, upper = (chunk_file(PurePosixPath("a" + s), text) for s in (suffix, suffix.upper()))
    assert lower == upper
    assert lower[0].start_line == 1
    assert lower[-1].end_line == 3


def test_scopes_nested_beyond_recursion_still_chunk() -> None:
    assert_contract("namespace a {\n" * 3_000 + "int x;\n" + "}\n" * 3_000, ".cu")


def test_the_same_text_gives_the_same_pieces() -> None:
    text = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n"
    assert chunk_file(PurePosixPath("a.py"), text) == chunk_file(PurePosixPath("b.py"), text)
