"""The suite's files: the declarations of attacks and honest kernels, read without running them."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from judge.evaluate.result import Verdict
from judge.problem.source import ProblemFile

ROOT = Path(__file__).parents[2] / "tests" / "fixtures" / "judge"
Kind = Literal["attack", "honest"]
# One line in a Python file, a comment in a .cu file.
_DECLARATION = re.compile(r"^(?:// )?(ATTACK|HONEST) = (\{.*\})$", re.MULTILINE)
_DOCSTRING = re.compile(r'\A"""(.*?)"""\n', re.DOTALL)
_FRONT_MATTER = re.compile(r"\A/\*\n---\n.*?\n---\n(.*?)\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One kernel of the suite and the verdicts that are right for it."""

    name: str
    kind: Kind
    path: Path
    problem: Path
    needs: Literal["cpu", "gpu"]
    """`gpu`: its effect exists on a GPU only, or shows in timing only."""
    verdicts: frozenset[Verdict]
    """An attack is caught, an honest kernel well judged, if its verdict is among these."""
    gains: float | None
    """An attack that is right within tolerance gets away with nothing if it is called correct, but
    no more than so many times as fast as eager; None where it must not be called correct."""
    about: str
    """One sentence that says what it does."""

    def source(self) -> str:
        """The text that is judged: no docstring, no declaration, but the same line numbers.

        The judge must not see what the files say about themselves.
        """
        text = self.path.read_text()
        if self.path.suffix == ".py":
            text = _DOCSTRING.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
        return _DECLARATION.sub("", text, count=1)

    def problem_source(self, *, small: bool) -> str:
        """The problem's text; with `small`, at the sizes that its `SMALL` names."""
        problem = ProblemFile.read(self.problem)
        return problem.with_constants(constant(problem.text, "SMALL")) if small else problem.text


def read_suite(kind: Kind) -> list[SuiteCase]:
    """All cases of one kind, by name."""
    folder = ROOT / ("attacks" if kind == "attack" else "honest")
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".cu"))
    return [_read_case(path, kind) for path in paths]


def _read_case(path: Path, kind: Kind) -> SuiteCase:
    text = path.read_text()
    declarations = _DECLARATION.findall(text)
    if [name for name, _ in declarations] != [kind.upper()]:
        raise ValueError(f"{path}: declare {kind.upper()} once")
    declaration: dict[str, Any] = ast.literal_eval(declarations[0][1])
    problem = ROOT / "problems" / f"{declaration['problem']}.py"
    if not problem.is_file():
        raise ValueError(f"{path}: no problem {declaration['problem']}")
    if declaration["needs"] not in ("cpu", "gpu"):
        raise ValueError(f"{path}: needs 'cpu' or 'gpu'")
    match = (_DOCSTRING if path.suffix == ".py" else _FRONT_MATTER).match(text)
    if match is None:
        raise ValueError(f"{path}: say what it does")
    return SuiteCase(
        name=path.stem,
        kind=kind,
        path=path,
        problem=problem,
        needs=declaration["needs"],
        verdicts=frozenset(Verdict(verdict) for verdict in declaration["verdicts"]),
        gains=declaration.get("gains"),
        about=" ".join(match[1].strip().split("\n\n")[0].split()),
    )


def constant(text: str, name: str) -> Any:
    """The literal that a Python file assigns to `name`."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise ValueError(f"the file declares no {name}")
