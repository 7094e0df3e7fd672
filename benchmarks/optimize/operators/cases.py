"""The operators, read without running them."""

import ast
from dataclasses import dataclass
from pathlib import Path

PROBLEMS = Path(__file__).parent / "problems"


@dataclass(frozen=True, slots=True)
class Operator:
    """One of the list."""

    name: str
    path: Path
    dtype: str
    """Of floating-point inputs and parameters."""
    about: str


def load(only: list[str] | None = None) -> list[Operator]:
    """All operators by name, or those named.

    Raises
    ------
    KeyError
        There is no operator of a name.
    """
    found = {path.stem: path for path in sorted(PROBLEMS.glob("[a-z]*.py"))}
    return [_operator(name, found[name]) for name in (only or found)]


def _operator(name: str, path: Path) -> Operator:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    dtype = next(
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "DTYPE"
    )
    return Operator(name, path, dtype, (ast.get_docstring(tree) or "").partition("\n")[0])
