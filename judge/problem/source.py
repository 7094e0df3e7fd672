"""Problem files in KernelBench's format, read by their syntax tree; nothing of them runs here."""

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from judge.problem.judge import JudgeDeclaration
from judge.problem.literals import named_sizes
from judge.problem.syntax import (
    ProblemFileError,
    Text,
    assignment,
    definition_of,
    definitions,
    integer,
    named_values,
    names_assigned,
    parse,
    reachable_names,
    read_text,
    top_level,
)
from kb.refusals import key_problem

_REQUIRED: tuple[tuple[str, type[ast.ClassDef] | type[ast.FunctionDef], str], ...] = (
    ("Model", ast.ClassDef, "class"),
    ("get_inputs", ast.FunctionDef, "function"),
    ("get_init_inputs", ast.FunctionDef, "function"),
)
_DECLARATION = "JUDGE"
LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Constant:
    """A module-level integer that `get_inputs` uses, directly or through other names."""

    name: str
    """Its name; `shape[0]` for the first element of a tuple `shape`."""
    value: int
    span: tuple[int, int]
    """Where its expression stands: start and end in the file's UTF-8 bytes."""
    structural: bool
    """Whether `Model` or `get_init_inputs` uses it too: channels, a window, a number of groups."""


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """A problem: `Model`, `get_inputs`, `get_init_inputs`, and what the syntax tree tells."""

    name: str
    text: str
    """The file's, with names for sizes that it writes as numbers (`literals.py`)."""
    sha256: str
    constants: Mapping[str, Constant]
    """The integers that shape variants may change, in the file's order."""
    judge: JudgeDeclaration
    """What the file declares; all defaults where it declares nothing."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a problem file.

        Raises
        ------
        ProblemFileError
            If it cannot be read, is not Python, lacks a required name, or declares nonsense.
        """
        return cls._from(read_text(path))

    @classmethod
    def parse(cls, text: str, name: str = "problem.py") -> Self:
        """As `read`, from text; messages use `name`."""
        return cls._from(Text(name, text, hashlib.sha256(text.encode()).hexdigest()))

    @classmethod
    def _from(cls, file: Text) -> Self:
        module = parse(file.text, file.name)
        _require(module, file.name)
        try:
            constants = _constants(module, file.text)
            text = file.text if constants else named_sizes(module, file.text)
            if text != file.text:
                module = parse(text, file.name)
                constants = _constants(module, text)
        except RecursionError as error:
            raise ProblemFileError(f"{file.name}:1: nested too deeply to read") from error
        judge = _declaration(module, file.name)
        if unknown := sorted(set(judge.constants) - set(constants)):
            line = definitions(module)[_DECLARATION].lineno
            raise ProblemFileError(
                f"{file.name}:{line}: {_DECLARATION} has a rule for '{unknown[0]}', which is not "
                f"a module-level integer that get_inputs uses; those are: {_list(constants)}"
            )
        return cls(file.name, text, file.sha256, constants, judge)

    def with_constants(self, values: Mapping[str, int]) -> str:
        """The file's text with some constants replaced; line numbers stay as they are.

        Raises
        ------
        ProblemFileError
            If a name is none of `constants`.
        """
        if unknown := sorted(set(values) - set(self.constants)):
            raise ProblemFileError(
                f"{self.name}: no module-level integer constant '{unknown[0]}' that get_inputs "
                f"uses; those are: {_list(self.constants)}"
            )
        data = self.text.encode()
        replacements = [(self.constants[name], value) for name, value in values.items()]
        for constant, value in sorted(replacements, key=lambda pair: pair[0].span, reverse=True):
            start, end = constant.span
            # In parentheses, an expression of several lines keeps its line breaks.
            breaks = b"\n" * data.count(b"\n", start, end)
            new = b"(%d%s)" % (value, breaks) if breaks else b"%d" % value
            data = data[:start] + new + data[end:]
        return data.decode()


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _require(module: ast.Module, name: str) -> None:
    defined = definitions(module)
    for required, kind, word in _REQUIRED:
        statement = defined.get(required)
        if statement is None:
            raise ProblemFileError(
                f"{name}:1: no {word} {required}: a problem file defines class Model and the "
                "functions get_inputs and get_init_inputs"
            )
        if definition_of(defined, required, kind) is None:
            raise ProblemFileError(f"{name}:{statement.lineno}: {required} is not a {word}")


def _declaration(module: ast.Module, name: str) -> JudgeDeclaration:
    statement = definitions(module).get(_DECLARATION)
    if statement is None:
        return JudgeDeclaration()
    where = f"{name}:{statement.lineno}"
    assigned = assignment(statement)
    if assigned is None:
        raise ProblemFileError(f"{where}: {_DECLARATION} must be assigned a literal dictionary")
    try:
        data = ast.literal_eval(assigned[1])
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ProblemFileError(f"{where}: {_DECLARATION} is not a literal dictionary") from error
    try:
        return JudgeDeclaration.model_validate(data)
    except ValidationError as error:
        raise ProblemFileError(f"{where}: {_DECLARATION}: {key_problem(error)}") from error


def _constants(module: ast.Module, text: str) -> dict[str, Constant]:
    """Integers assigned once, from literals alone; derived ones follow by themselves."""
    used = reachable_names(module, ["get_inputs"])
    structural = reachable_names(module, ["get_init_inputs", "Model"])
    starts = line_starts(text)
    statements = [*top_level(module.body)]
    # A loop's variable counts as assigned as often as it stands there.
    counts = Counter(name for statement in statements for name in names_assigned(statement))
    loops = (statement.target for statement in statements if isinstance(statement, ast.For))
    counts.update(n.id for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Name))
    constants: dict[str, Constant] = {}
    for statement in module.body:
        for name, node in _integer_expressions(statement):
            base = name.partition("[")[0]
            value = integer(node, {})
            if value is None or base not in used or counts[base] != 1:
                continue
            place = span(starts, node)
            if any(constant.span == place for constant in constants.values()):
                continue  # `N = M = 4` is one constant
            constants[name] = Constant(name, value, place, base in structural)
    return constants


def _integer_expressions(statement: ast.stmt) -> list[tuple[str, ast.expr]]:
    """`N = 4`, `N: int = 4`, `N = M = 4`, `N, M = 4, 5`, `shape = (4, 5)` as (name, expression)."""
    if (assigned := assignment(statement)) is None:
        return []
    targets, value = assigned
    if len(targets) > 1:  # one expression for several names: replacing it changes all of them
        return [(target.id, value) for target in targets if isinstance(target, ast.Name)]
    match targets[0], value:
        case [ast.Name(id=name), (ast.Tuple(elts=elements) | ast.List(elts=elements))]:
            return [(f"{name}[{i}]", element) for i, element in enumerate(elements)]
    return named_values(targets[0], value)


def line_starts(text: str) -> list[int]:
    """Byte offsets of the lines as `ast` counts them."""
    return [0, *(match.end() for match in LINE_END.finditer(text.encode()))]


def span(starts: list[int], node: ast.expr | ast.keyword) -> tuple[int, int]:
    """The first byte of a node and the one after it, from `line_starts` of its text."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    start = starts[node.lineno - 1] + node.col_offset
    return start, starts[node.end_lineno - 1] + node.end_col_offset
