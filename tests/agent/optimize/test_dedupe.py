"""Two files are one program where only names of locals, comments and layout differ."""

import pytest

from agent.optimize.dedupe import digest

SOURCE = '''
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def _add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Adds."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, total, mask=offsets < n)


def kernel_function(x):
    out = x.new_empty(x.shape)
    _add[(triton.cdiv(x.numel(), 1_024),)](x, out, x.numel(), BLOCK=1024)
    return out
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("offsets", "where"),
        ("total", "value"),
        ('    """Adds."""\n', ""),
        ('"""Adds."""', "'Says otherwise.'"),
        ("    out = x.new_empty(x.shape)", "    # a result\n    out = (x.new_empty(x.shape))"),
        ("1_024", "0x400"),
        ("\n\n\n", "\n\n"),
    ],
)
def test_these_differences_make_no_other_program(old: str, new: str) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert digest(changed) == digest(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1_024", "1025"),
        ("x_ptr", "first_ptr"),
        ("kernel_function(x)", "kernel_function(y)"),
        ("tl.store(y_ptr + offsets, total", "tl.store(y_ptr + offsets, offsets"),
        ("import triton\n", "import triton as tri\n"),
        ("BLOCK = 64", "BLOCK = 32"),
        ("offsets < n)\n    tl.store", "offsets <= n)\n    tl.store"),
    ],
)
def test_these_differences_make_another(old: str, new: str) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert digest(changed) != digest(SOURCE)


def test_a_local_that_is_named_like_something_outside_stays_what_it_is() -> None:
    one = "A = 1\ndef f():\n    A = 2\n    return A\n"
    other = "A = 1\ndef f():\n    b = 2\n    return A\n"
    assert digest(one) != digest(other)


def test_swapped_names_are_told_apart() -> None:
    one = "def f(g):\n    a = g(1)\n    b = g(2)\n    return a - b\n"
    other = "def f(g):\n    a = g(1)\n    b = g(2)\n    return b - a\n"
    renamed = "def f(g):\n    b = g(1)\n    a = g(2)\n    return b - a\n"
    assert digest(one) != digest(other)
    assert digest(one) == digest(renamed)


def test_names_matter_where_a_function_looks_at_them() -> None:
    one = "def f():\n    a = 1\n    return locals()\n"
    assert digest(one) != digest(one.replace("a = 1", "b = 1"))
    keyword = "def f(g):\n    a = 1\n    return g(a=a)\n"
    assert digest(keyword) == digest("def f(g):\n    b = 1\n    return g(a=b)\n")
    assert digest(keyword) != digest("def f(g):\n    a = 1\n    return g(b=a)\n")


def test_closures_and_declarations_keep_their_meaning() -> None:
    one = "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g\n"
    other = "def f():\n    n = 0\n    def g():\n        n = 1\n    return g\n"
    assert digest(one) != digest(other)
    used = "def f():\n    n = 0\n    def g():\n        return n\n    return g\n"
    assert digest(used) == digest(used.replace("n = 0", "m = 0").replace("return n", "return m"))


@pytest.mark.parametrize(
    "source", ["def f(:", "\0", "x = " + "(" * 9000 + "1" + ")" * 9000, "x = '\udc80'", ""]
)
def test_what_does_not_parse_is_compared_as_text(source: str) -> None:
    assert digest(source) == digest(source)
    assert digest(source) != digest(source + "\ny = 1")


CUDA = """// kernel: add
// launch: add<<<n / 256, 256>>>
#define N 4
__global__ void add(float *x) {
  /* adds */
  x[0] += 1;  // one
  const char *s = "a  // b";
}
"""


def test_cuda_comments_and_layout_make_no_other_program_but_the_leading_comment_does() -> None:
    tidy = CUDA.replace("  /* adds */\n", "").replace("  // one", "").replace("  x[0]", "\tx[0]")
    assert digest(tidy, ".cu") == digest(CUDA, ".cu")
    assert digest(CUDA.replace("256>>>", "128>>>"), ".cu") != digest(CUDA, ".cu")
    assert digest(CUDA.replace("a  // b", "a  // c"), ".cu") != digest(CUDA, ".cu")
    assert digest(CUDA.replace("#define N 4\n", "#define N 4 "), ".cu") != digest(CUDA, ".cu")
    assert digest(CUDA, ".cu") != digest(CUDA, ".py")
