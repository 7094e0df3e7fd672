"""Options that are folded away are not spoken of in the docstring that a context shows."""

import ast

import pytest

from kb.context.docstrings import summary

KIND = {"kind": ast.Constant("l2")}
OFF = {"out_dtype": ast.Constant(None)}
HOOK = {"after": ast.Name("_unchanged")}


@pytest.mark.parametrize(
    ("docstring", "folded", "shown"),
    [
        (
            'Return `x` over its norm `kind` ("l1", "l2") along `dim`.',
            KIND,
            "Return `x` over its norm `l2` along `dim`.",
        ),
        ("Return `x`, contiguous, in `out_dtype` (`x`'s if None). At least `eps`.", OFF,
         "Return `x`, contiguous. At least `eps`."),
        ("Return `after(a @ b + bias)`: `a` [M, K].", HOOK, "Return `a @ b + bias`: `a` [M, K]."),
        ("Return the sum (of `x`, or `y`).\n\n`after` is applied.", HOOK,
         "Return the sum (of `x`, or `y`)."),
        ("Return `a`. `after` is a function of results, `b` not.", HOOK, "Return `a`."),
    ],
)  # fmt: skip
def test_a_docstring_names_only_what_is_left(docstring, folded, shown):
    assert summary(docstring, folded) == shown
