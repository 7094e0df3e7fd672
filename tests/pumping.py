"""Find the regular expressions in a package's source, and texts that may take each one long.

A backtracking expression is slow on a text that holds the beginning of a match again and again. The
beginnings are read off the expression as `re` parses it, so a new expression needs no list.
"""

import ast
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_parser: Any = re._parser  # type: ignore[attr-defined]
_METHODS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
_AGAIN_AND_AGAIN = {"findall", "finditer", "sub", "subn", "split"}
# How many times longer twice the text may take.
MOST_FOR_TWICE = 3.0
# Eight times this text takes a second where the time is quadratic.
_SMALL = 1_500
_QUICK = 0.001
# How much longer eight times the text may take, if its time is not to be looked at closer. Of what
# grows as a n + b n^2 this lets nothing pass whose growth at the longest texts is above the bound.
_NEARLY_LINEAR = 10.0
_TRIES = 8
_SAMPLES = 4
_NAMED = re.compile(r"\bre\.")
_BETWEEN = ("", " ", "a", "\n", "\\")


@dataclass
class Use:
    """A use of `re`: where it stands, the expression if it is constant, and how it is matched."""

    path: str
    name: str
    """The constant that holds it, else the function around it."""
    source: str | bytes | None
    flags: int = 0
    methods: set[str] = field(default_factory=set)

    @property
    def place(self) -> tuple[str, str]:
        return Path(self.path).name, self.name


def uses(root: Path, package: str) -> Iterator[Use]:
    """Every use of `re` in a package."""
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text()
        if _NAMED.search(text):
            yield from _uses_in(ast.parse(text), path.relative_to(root).as_posix())


def _uses_in(tree: ast.Module, path: str) -> Iterator[Use]:
    known: dict[str, Any] = {}
    for node in tree.body:
        for name, value in _assigned(node):
            if (constant := _constant(value, known)) is not None:
                known[name] = constant
    called: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.setdefault(node.value.id, set()).add(node.attr)
    for outer in ast.walk(tree):
        names = [name for name, _ in _assigned(outer)]
        if isinstance(outer, ast.FunctionDef):
            names = [outer.name]
        if not names or (isinstance(outer, ast.Assign | ast.AnnAssign) and outer not in tree.body):
            continue
        for node in ast.walk(outer):
            method = _method(node)
            if method is None:
                continue
            assert isinstance(node, ast.Call)
            flags = sum(_flag(each) for each in ast.walk(node))
            how = called.get(names[0], set()) & _METHODS if method == "compile" else {method}
            yield Use(path, names[0], _constant(node.args[0], known), flags, how or {"finditer"})


def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return [(node.targets[0].id, node.value)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        return [(node.target.id, node.value)]
    return []


def _method(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    on, name = node.func.value, node.func.attr
    is_re = isinstance(on, ast.Name) and on.id == "re"
    return name if is_re and name in _METHODS | {"compile"} else None


def _flag(node: ast.AST) -> int:
    is_re = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "re"
    return int(getattr(re, node.attr)) if is_re and node.attr.isupper() else 0


def _constant(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _constant(node.left, known), _constant(node.right, known)
        return None if left is None or right is None else left + right
    return None


def _parsed(use: Use) -> Any:
    """The expression as `re` parses it, bytes as the characters of their numbers."""
    source = use.source.decode("latin-1") if isinstance(use.source, bytes) else use.source
    return _parser.parse(source, use.flags)


def beginnings(use: Use) -> list[str]:
    """Texts that match a beginning of the expression, or of a part of it."""
    found: dict[str, None] = {}

    def sequence(items: Any) -> str:
        said = ""
        for kind, value in items:
            choices = part(str(kind), value)
            found.update(dict.fromkeys(said + each for each in choices))
            said += choices[0]
        found[said] = None
        return said

    def part(kind: str, value: Any) -> list[str]:
        if kind == "LITERAL":
            return [chr(value)]
        if kind in {"ANY", "NOT_LITERAL"}:
            return ["x" if value != ord("x") else "y"]
        if kind == "IN":
            return _of_class(value)
        if kind in {"SUBPATTERN", "ATOMIC_GROUP"}:
            return [sequence(value[3] if kind == "SUBPATTERN" else value)]
        if kind == "BRANCH":
            return [sequence(each) for each in value[1]]
        if kind.endswith("_REPEAT"):
            one = sequence(value[2])
            return [one * max(value[0], 1), one * value[0]]
        return [""]

    sequence(_parsed(use))
    return [each for each in found if each]


def _of_class(items: Any) -> list[str]:
    if any(str(kind) == "NEGATE" for kind, _ in items):
        taken = {value for kind, value in items if str(kind) == "LITERAL"}
        return [each for each in "x (<\n" if ord(each) not in taken][:_SAMPLES]
    by_category = {"SPACE": [" ", "\n"], "DIGIT": ["1"], "WORD": ["a"], "NOT_SPACE": ["x"]}
    out: list[str] = []
    for kind, value in items:
        if str(kind) in {"LITERAL", "RANGE"}:
            out.append(chr(value if str(kind) == "LITERAL" else value[0]))
        else:
            out += by_category.get(str(value).removeprefix("CATEGORY_"), ["("])
    return out[:_SAMPLES]


def is_mismatched_by_old_python(use: Use) -> bool:
    """Whether Python before 3.11.5 may match it wrongly: a possessive repeat of what ends with a
    repeat that can give something back (https://github.com/python/cpython/issues/106052)."""

    def gives_back_at_its_end(items: Any) -> bool:
        kind, value = list(items)[-1] if len(items) else ("", None)
        if str(kind) == "BRANCH":
            return any(gives_back_at_its_end(alternative) for alternative in value[1])
        if str(kind) == "SUBPATTERN":
            return gives_back_at_its_end(value[3])
        return str(kind) in {"MAX_REPEAT", "MIN_REPEAT"} and value[0] != value[1]

    def is_wrong(items: Any) -> bool:
        return any(
            (str(kind) == "POSSESSIVE_REPEAT" and gives_back_at_its_end(value[2]))
            or any(is_wrong(part) for part in _parts(str(kind), value))
            for kind, value in items
        )

    return is_wrong(_parsed(use))


def _parts(kind: str, value: Any) -> list[Any]:
    """The expressions within an expression."""
    if kind == "BRANCH":
        return list(value[1])
    if kind in {"SUBPATTERN", "ATOMIC_GROUP"}:
        return [value[3] if kind == "SUBPATTERN" else value]
    return [value[2]] if kind.endswith("_REPEAT") else []


def growth(use: Use) -> tuple[float, str]:
    """How many times the time grows with twice the text, at worst, and what the text repeats."""
    assert use.source is not None
    pattern = re.compile(use.source, use.flags)
    worst = (0.0, "")
    for beginning in beginnings(use):
        for between in _BETWEEN:
            for method in {"finditer" if m in _AGAIN_AND_AGAIN else m for m in use.methods}:
                unit = beginning + between
                worst = max(worst, (_growth(pattern, method, unit), unit))
                if worst[0] > MOST_FOR_TWICE:
                    return worst
    return worst


def _growth(pattern: re.Pattern[Any], method: str, unit: str) -> float:
    """How many times the time grows with twice the text; 0 where even long text takes no time.

    The least of several times is the one that nothing else on the machine lengthened.
    """
    size = _SMALL
    once = min(_seconds(pattern, method, unit, size) for _ in range(3))
    if once < _QUICK:
        longer = math.inf
        for _ in range(_TRIES):
            longer = min(longer, _seconds(pattern, method, unit, 8 * size))
            if longer < _QUICK:
                return 0.0
            if longer < _NEARLY_LINEAR * once:
                return float((longer / once) ** (1 / 3))
        size, once = 8 * size, longer
    # Four times the text, for a factor of noise weighs half as much in the growth for twice of it.
    fourfold = math.inf
    for _ in range(_TRIES):
        fourfold = min(fourfold, _seconds(pattern, method, unit, 4 * size))
        if fourfold < MOST_FOR_TWICE**2 * once:
            break
        once = min(once, _seconds(pattern, method, unit, size))
    return math.sqrt(fourfold / max(once, 1e-9))


def _seconds(pattern: re.Pattern[Any], method: str, unit: str, size: int) -> float:
    text: Any = unit * (size // len(unit) or 1) + "\0"
    if isinstance(pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    started = time.process_time()
    if method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)
    return time.process_time() - started
