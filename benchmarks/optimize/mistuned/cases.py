"""The mistuned kernels and their problems, read without running either."""

import ast
from dataclasses import dataclass
from pathlib import Path

from judge.problem.source import ProblemFile

_FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
PROBLEMS = _FIXTURES / "judge" / "problems"


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
    found = {path.stem: path for path in sorted((_FIXTURES / "mistuned").glob("*.py"))}
    return [_case(found[name]) for name in (only or found)]


def _case(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    declared = next(
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "MISTUNED"
    )
    problem = ProblemFile.read(PROBLEMS / f"{declared['problem']}.py")
    small = next(
        ast.literal_eval(each.value)
        for each in ast.parse(problem.text).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "SMALL"
    )
    return Case(
        name=path.stem,
        about=(ast.get_docstring(tree) or "").partition("\n")[0],
        kernel=text,
        operator=declared["problem"],
        problem=problem.with_constants(declared["constants"]),
        small=problem.with_constants(small),
        constants=declared["constants"],
    )
