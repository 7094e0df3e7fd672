"""The mistuned kernels and their problems, read without running either."""

import ast
from dataclasses import dataclass
from pathlib import Path

from benchmarks.judge.cases import ROOT, constant
from judge.problem.source import ProblemFile

_MISTUNED = ROOT.with_name("mistuned")


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel that could be faster with other meta-parameters."""

    name: str
    about: str
    """What is wrong with it."""
    kernel: str
    """The text of its file."""
    operator: str
    """Stem of the problem file."""
    problem: str
    """The problem's text at benchmark size."""
    small: str
    """The problem's text at a size for Triton's interpreter."""
    constants: dict[str, int]


def load(only: list[str] | None = None) -> list[Case]:
    """All cases by name, or those named.

    Raises
    ------
    KeyError
        There is no kernel of a name.
    """
    paths = {path.stem: path for path in sorted(_MISTUNED.glob("*.py"))}
    return [_read_case(paths[name]) for name in (only or paths)]


def _read_case(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    mistuned = constant(text, "MISTUNED")
    problem = ProblemFile.read(ROOT / "problems" / f"{mistuned['problem']}.py")
    return Case(
        name=path.stem,
        about=(ast.get_docstring(ast.parse(text)) or "").partition("\n")[0],
        kernel=text,
        operator=mistuned["problem"],
        problem=problem.with_constants(mistuned["constants"]),
        small=problem.with_constants(constant(problem.text, "SMALL")),
        constants=mistuned["constants"],
    )
