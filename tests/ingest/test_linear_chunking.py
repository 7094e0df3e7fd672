"""Reading a file takes time linear in it, whatever it holds."""

import time
from pathlib import PurePosixPath

import pytest

from ingest.chunkers import chunk_file
from ingest.chunking import fold_key
from ingest.roles import role_of

# Beginnings that a grammar, an expression or a scan of brackets might look for the rest of.
OPENINGS = [
    "/* ", "//\\\n", "\"", "\\\"", "'", "\"\"\"", "R\"x(", "# ", "#if X\n", "#else\n", "#endif\n",
    "{", "}", "(", ")", "[", "<", ">", "template <", "template<> ", "namespace ", "namespace a {",
    "struct ", "struct A {", "class A : ", "ABCDE()\n", "ABCDE(x ", "A_B_C ", "__global__ ",
    "a<x <<", "<<<", "f(a){}\n", "f(a){ ", "extern \"C\" ", "operator ", "def f(", "def f():\n",
    "class A:\n", "@a\n", "a\\\n", "\\\n", "    ", "\n", "\t", "a = [", "if a:\n", "lambda: ",
    "a.b.", "- a\n", "> ", "```\n", "= ", "===\n", "---\n", "* ", "| a ", "a ", "A", "\f", "1",
    "'''", "f'{", "async ", "for x in ",
]  # fmt: skip
SUFFIXES = [".cu", ".py", ".md", ".txt"]
# A file of the largest size that is read has sixteen times as many characters.
LARGE = 32_000
# Quadratic time would be sixteen times as long, and linear time four times.
SMALL, MOST_TIMES = LARGE // 4, 8
QUICK = 0.02


def read(name: PurePosixPath, text: str) -> None:
    for piece in chunk_file(name, text):
        role_of(piece)
        fold_key(piece.text, piece.language)
        assert piece.is_trivial in (True, False)


def seconds(name: PurePosixPath, text: str) -> float:
    started = time.process_time()
    read(name, text)
    return time.process_time() - started


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("opening", OPENINGS, ids=repr)
def test_chunking_takes_time_linear_in_the_file(opening: str, suffix: str) -> None:
    name = PurePosixPath(f"x{suffix}")
    read(name, opening)  # loads the grammar
    took = seconds(name, opening * (LARGE // len(opening)))
    if took > QUICK:
        small = seconds(name, opening * (SMALL // len(opening)))
        if took >= MOST_TIMES * small:  # once more: the machine may have been busy
            took = min(took, *(seconds(name, opening * (LARGE // len(opening))) for _ in range(2)))
        assert took < MOST_TIMES * small, f"{small:.3f} to {took:.3f} s"
