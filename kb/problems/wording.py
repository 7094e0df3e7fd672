"""What a module says about itself: its names, its docstrings and its comments."""

import ast
import re
from typing import Final

from kb.corpus.operators import subwords
from kb.problems.reading import parse

# A question of more is cut by the embedder.
_MAX_CHARS: Final = 1500
_COMMENT = re.compile(r"#([^\n]{1,200})")
# Names that every file of the form has.
_USUAL: Final = frozenset({"Model", "forward", "get_inputs", "get_init_inputs", "__init__", "self"})


def wording(text: str) -> str:
    """Return what a module says about itself, as a question; empty where it says nothing.

    Raises
    ------
    InvalidInputError
        It is not Python.
    """
    tree = parse(text, "problem")
    said: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            said.append((ast.get_docstring(node) or "").partition("\n\n")[0])
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name not in _USUAL:
            said.append(subwords(node.name))
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            said.append(", ".join(subwords(arg.arg) for arg in node.args.args[1:]))
    said += [comment[1] for comment in _COMMENT.finditer(text)]
    parts = (part.strip().rstrip(".") for part in said)
    return ". ".join(part for part in parts if part)[:_MAX_CHARS]
