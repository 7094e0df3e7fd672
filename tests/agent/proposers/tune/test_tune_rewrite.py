"""Edits change what they name and nothing else."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.tune.rewrite import Offsets, RewriteError, Site, rewrite

# Pieces of Python around integer literals, with what makes offsets go wrong: several bytes to a
# character, every kind of line end, form feeds, strings that look like code.
PIECES = st.sampled_from(
    [
        "x = {}\n",
        "y = ('ä', {})\r\n",
        "s = '''日本\n{{}} # 7'''; z = {}\n",
        "if True:\n\tf = [{}, 3]\r\n",
        "g = {{'é': {}}}  # ü {{}} 12\n",
        "\x0c\nh = ({})\r",
    ]
)


@given(st.lists(st.tuples(PIECES, st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1))
@settings(max_examples=150, deadline=None)
def test_literals_are_replaced_and_all_else_stays(
    pieces: list[tuple[str, int, int]],
) -> None:
    marked = [f"{10**7 + n}" for n in range(len(pieces))]
    text = "".join(p.format(mark) for (p, _, _), mark in zip(pieces, marked, strict=True))
    offsets = Offsets(text)
    nodes = {
        str(node.value): node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
    }
    sites = [offsets.site(nodes[mark]) for mark in marked]
    for site, mark in zip(sites, marked, strict=True):
        assert text.encode()[site.start : site.end] == mark.encode()
    new = [new for _, _, new in pieces]
    changed = rewrite(text, zip(sites, new, strict=True))
    expected = "".join(p.format(value) for (p, _, _), value in zip(pieces, new, strict=True))
    assert changed == expected
    assert rewrite(text, zip(sites, map(int, marked), strict=True)) == text


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f()", "f(w=8)"),
        ("f(a)", "f(a, w=8)"),
        ("f(a,)", "f(a, w=8)"),
        ("f((a))", "f((a), w=8)"),
        ("f(\n    a,\n    (b),  # last, (one)\n)", "f(\n    a,\n    (b), w=8  # last, (one)\n)"),
        ("f(a, B=1)", "f(a, w=8, B=1)"),
        ("f(*a, **b)", "f(*a, w=8, **b)"),
        ("f(a, B=1, *c)", "f(a, w=8, B=1, *c)"),
        ("k[(n,)]('ä', b)", "k[(n,)]('ä', b, w=8)"),
    ],
)
def test_a_keyword_is_added_to_any_call(call: str, expected: str) -> None:
    text = f"r = {call}\n"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.Assign)
    assert isinstance(node.value, ast.Call)
    site = Offsets(text).keyword(node.value, "w")
    assert rewrite(text, [(site, 8)]) == f"r = {expected}\n"


def test_edits_that_overlap_or_break_the_file_are_refused() -> None:
    with pytest.raises(RewriteError, match="overlaps another"):
        rewrite("x = 12345\n", [(Site(4, 7), 1), (Site(6, 9), 2)])
    with pytest.raises(RewriteError, match="not Python"):
        rewrite("x = 1\n", [(Site(0, 1, "1 +"), 1)])
    assert rewrite("x = 1\n", [(Site(4, 5), 2), (Site(4, 5), 2)]) == "x = 2\n"
