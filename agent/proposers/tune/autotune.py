"""Replaces the list of an autotuned kernel by one of its configurations, which can be tuned on."""

import ast
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent.proposers.tune.kernel_facts import autotuned, called
from agent.proposers.tune.parameters import find
from agent.proposers.tune.rewrite import Offsets, Site, rewrite
from agent.proposers.tune.tunable import Tunable
from judge.problem.syntax import assignment, named_values
from kb.pasted.source_triton import is_jit
from kb.problems.arithmetic import COMPARE

# Configurations that a list is taken apart into; more is a search of its own.
_MOST: Final = 128
_PLAIN: Final = (int, float, str, bool)


class _UnknownError(Exception):
    """An expression that is no plain value."""


def opened(text: str) -> tuple[Tunable, list[Tunable]]:
    """A file's parameters; of an autotuned one with one configuration, and with each other one.

    Raises
    ------
    SyntaxError
        The text is not Python.
    """
    versions = collapsed(text)
    if not versions:
        return find(text), []
    first, *others = [find(version) for version in versions]
    return first, others


def collapsed(text: str) -> list[str]:
    """Versions of a file with one configuration in each list that has several.

    The first versions take the first configuration of every list, the next ones the second, and so
    on. Empty where there is no such list, or none that can be read without running the file. A list
    that is computed stays as it is.
    """
    tree = ast.parse(text)
    offsets = Offsets(text)
    choices: list[list[Site]] = []
    kernels = [child for child in ast.walk(tree) if isinstance(child, ast.FunctionDef)]
    for node in (configs for kernel in kernels if is_jit(kernel) for configs in autotuned(kernel)):
        configs = list(itertools.islice(_configurations(tree, node), _MOST + 1))
        if 1 < len(configs) <= _MOST:
            span = offsets.span(node)
            choices.append([Site(*span, f"[{config}]", fixed=True) for config in configs])
    if not choices:
        return []
    versions = []
    for number in range(max(map(len, choices))):
        chosen = [choice[min(number, len(choice) - 1)] for choice in choices]
        versions.append(rewrite(text, [(site, 0) for site in chosen]))
    return versions


def _configurations(tree: ast.Module, node: ast.expr) -> Iterator[str]:
    """The text of each `triton.Config(...)` that an expression lists; nothing if it is unclear."""
    try:
        yield from list(_expanded(tree, node, {}, 4))
    except (_UnknownError, TypeError, ValueError, ArithmeticError, RecursionError):
        return


def _expanded(
    tree: ast.Module, node: ast.expr, known: Mapping[str, Any], depth: int
) -> Iterator[str]:
    if depth == 0:
        raise _UnknownError
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for item in items:
                inner = item.value if isinstance(item, ast.Starred) else item
                yield from _expanded(tree, inner, known, depth)
        case ast.ListComp(elt=element, generators=generators):
            for names in _combinations(tree, generators, known):
                yield from _expanded(tree, element, names, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _expanded(tree, left, known, depth)
            yield from _expanded(tree, right, known, depth)
        case ast.Call(args=[]) if called(node) != "Config" and not node.keywords:
            yield from _expanded(tree, _returned(tree, called(node)), known, depth - 1)
        case ast.Name(id=name):
            yield from _expanded(tree, _assigned(tree, name), known, depth - 1)
        case ast.Call() if called(node) == "Config":
            given = [repr(_value(tree, arg, known)) for arg in node.args]
            given += [
                f"{keyword.arg}={_value(tree, keyword.value, known)!r}" for keyword in node.keywords
            ]
            yield f"{ast.unparse(node.func)}({', '.join(given)})"
        case _:
            raise _UnknownError


def _combinations(
    tree: ast.Module, generators: list[ast.comprehension], known: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    if not generators:
        yield known
        return
    first, *rest = generators
    for value in itertools.islice(_value(tree, first.iter, known), _MOST + 1):
        names = dict(known)
        match first.target:
            case ast.Name(id=name):
                names[name] = value
            case ast.Tuple(elts=targets):
                for target, one in zip(targets, value, strict=True):
                    if not isinstance(target, ast.Name):
                        raise _UnknownError
                    names[target.id] = one
            case _:
                raise _UnknownError
        if all(_value(tree, each, names) for each in first.ifs):
            yield from _combinations(tree, rest, names)


def _value(tree: ast.Module, node: ast.expr, known: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    """A plain value: literals, names of them, products and comparisons of numbers."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, _PLAIN):
            return value
        case ast.Name(id=name):
            return known[name] if name in known else _value(tree, _assigned(tree, name), known)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(tree, item, known) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _value(tree, key, known): _value(tree, value, known)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.BinOp(left=left, op=ast.Mult() | ast.FloorDiv() as sign, right=right):
            one, other = _value(tree, left, known), _value(tree, right, known)
            if isinstance(one, int) and isinstance(other, int):
                return one * other if isinstance(sign, ast.Mult) else one // other
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            one, other = _value(tree, left, known), _value(tree, right, known)
            return bool(COMPARE[type(sign)](one, other))
        case ast.BoolOp(op=sign, values=values):
            every = [_value(tree, each, known) for each in values]
            return all(every) if isinstance(sign, ast.And) else any(every)
    raise _UnknownError


def _assigned(tree: ast.Module, name: str) -> ast.expr:
    assigned = [found for statement in tree.body if (found := assignment(statement)) is not None]
    pairs = (named_values(target, value) for targets, value in assigned for target in targets)
    match [value for pair in pairs for found, value in pair if found == name]:
        case [value]:
            return value
    raise _UnknownError


def _returned(tree: ast.Module, name: str) -> ast.expr:
    """What a function of one statement returns."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            match [s for s in statement.body if not isinstance(s, ast.Expr)]:
                case [ast.Return(value=ast.expr() as value)]:
                    return value
    raise _UnknownError
