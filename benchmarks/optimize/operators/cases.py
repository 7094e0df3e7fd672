"""The operators, read without running them.

There are two lists: the first twenty, in `problems/`, and twenty more, in `further/`, with which
every family of `families.toml` has at least four. Each stood before kernels for it were written.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.judge.cases import ROOT, declared

_HERE = Path(__file__).parent
FIRST, FURTHER = "first", "further"
_FIXTURES = ROOT.with_name("operators")
LISTS = {FIRST: _FIXTURES / "problems", FURTHER: _FIXTURES / "further"}


@dataclass(frozen=True, slots=True)
class Operator:
    """One of the lists."""

    name: str
    path: Path
    dtype: str
    """Of floating-point inputs and parameters."""
    about: str
    family: str = ""
    """Of `families.toml`."""
    of: str = FIRST
    """The list that it is of."""


def load(only: list[str] | None = None, lists: tuple[str, ...] = tuple(LISTS)) -> list[Operator]:
    """All operators of the lists by name, or those named.

    Raises
    ------
    KeyError
        There is no operator of a name.
    """
    families = tomllib.loads((_HERE / "families.toml").read_text(encoding="utf-8"))
    family = {name: each for each, names in families.items() for name in names}
    found = {
        path.stem: _operator(path, family[path.stem], which)
        for which in lists
        for path in sorted(LISTS[which].glob("[a-z]*.py"))
    }
    return [found[name] for name in (only or found)]


def _operator(path: Path, family: str, which: str) -> Operator:
    text = path.read_text(encoding="utf-8")
    about = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return Operator(path.stem, path, declared(text, "DTYPE"), about, family, which)
