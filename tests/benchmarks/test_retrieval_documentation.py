"""What documents a function leaves its text, line numbers stay, and only whole sentences ask."""

from pathlib import PurePosixPath

import pytest

from benchmarks.retrieval.documentation import without_documentation
from benchmarks.retrieval.sentences import first_sentence, refusal

PYTHON = '''"""About the module."""
import x


# Directly above.
@jit
def outer(a):
    """First sentence. Second one.

    More.
    """
    # stays: it is code
    b = a

    def inner():
        """Hidden too."""
        return 1
    return "not a docstring"


class Thing:
    """About the class."""

    def method(self):
        r\'\'\'Say what
        it does.\'\'\'

    def plain(self):
        return 1
'''
CUDA = """// Licence of the file.

/** Prototype's words. */
int declared(int);

namespace n {
// Adds one.
// In two lines.
template <typename T>
__global__ void add(T* x) {
  x[0] += 1;  // stays
}

int after() { return 1; }  // stays
/// Half of it.
int half(int x) {
  return x / 2;
}
}
"""


def test_python_documentation_is_blanked_in_place():
    text, found = without_documentation(PurePosixPath("a.py"), PYTHON)
    assert text.count("\n") == PYTHON.count("\n")
    gone = ["About", "Directly", "First sentence", "More", "Hidden", "Say what"]
    assert not [words for words in gone if words in text]
    assert "# stays" in text
    assert '"not a docstring"' in text
    assert [(each.symbol, each.line, each.is_kernel) for each in found] == [
        ("outer", 7, True),
        ("Thing.method", 24, False),
    ]
    assert found[0].doc == "First sentence. Second one.\n\nMore."
    compile(text, "a.py", "exec")


def test_cuda_documentation_is_blanked_in_place():
    text, found = without_documentation(PurePosixPath("a.cu"), CUDA)
    assert text.count("\n") == CUDA.count("\n")
    assert not [w for w in ("Prototype", "Adds", "In two", "Half of") if w in text]
    assert text.count("stays") == 2
    assert [(each.symbol, each.is_kernel) for each in found] == [
        ("n::add", True),
        ("n::half", False),
    ]
    assert found[0].doc.split("\n")[0] == "Adds one."
    assert text.split("\n")[found[0].line - 1] == "template <typename T>"


def test_other_files_are_left_alone():
    assert without_documentation(PurePosixPath("a.md"), "# Title\n") == ("# Title\n", [])


@pytest.mark.parametrize(
    ("doc", "sentence"),
    [
        ("One thing, e.g. This. Another.", "One thing, e.g. This."),
        ("Wraps\nover lines. Rest", "Wraps over lines."),
        ("No stop\n\nnext paragraph", "No stop"),
        ("Uses `code` and **bold** — plainly.", "Uses code and bold - plainly."),
        ("@brief Short words.\n@param x the x", "Short words."),
        ("Text first\nArgs:\n    x: y", "Text first"),
        ("=====\nTitle line", "Title line"),
    ],
)
def test_first_sentence(doc, sentence):
    assert first_sentence(doc) == sentence


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("Compute the loss.", "too short"),
        ("The sum of a " + "long " * 40 + "list of things.", "too long"),
        ("Args: a list of the values to add up here", "a section's heading"),
        (
            "Same as the function above but for the other layout of the rows.",
            "refers to other text",
        ),
        ("Let row_total give the total of every row in the matrix.", "names the function"),
        ("The row total of a row of the rows", "says no more than the name"),
        ("Verteilt Blöcke auf die Recheneinheiten der Karte in Gruppen.", "not ASCII"),
        ("a[i] = b[i*2] + c[i*3] - d[i*4] / (e[i] * 2) + 1", "not prose"),
    ],
)
def test_what_cannot_be_a_query(sentence, reason):
    assert refusal(sentence, "row_total") == reason


def test_a_plain_sentence_can_be_a_query():
    assert refusal("Sum the elements of each line of a matrix in one pass.", "row_total") is None
