"""Replaces the list of an autotuned kernel by one of its configurations, which can be tuned on."""

import ast
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent.proposers.tune.kernel_facts import callee, configs_of
from agent.proposers.tune.parameters import find_parameters
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


def read_tunables(text: str) -> tuple[Tunable, list[Tunable]]:
    """A file's parameters; of an autotuned one with one configuration, and with each other one.

    Raises
    ------
    SyntaxError
        The text is not Python.
    """
    versions = collapse(text)
    if not versions:
        return find_parameters(text), []
    first, *others = [find_parameters(version) for version in versions]
    return first, others


def collapse(text: str) -> list[str]:
    """Versions of a file with one configuration in each list that has several.

    The first versions take the first configuration of every list, the next ones the second, and so
    on. Empty where there is no such list, or none that can be read without running the file. A list
    that is computed stays as it is.
    """
    tree = ast.parse(text)
    offsets = Offsets(text)
    choices: list[list[Site]] = []
    kernels = [child for child in ast.walk(tree) if isinstance(child, ast.FunctionDef)]
    for node in (configs for kernel in kernels if is_jit(kernel) for configs in configs_of(kernel)):
        configs = list(itertools.islice(_configurations(tree, node), _MOST + 1))
        if 1 < len(configs) <= _MOST:
            span = offsets.span(node)
            choices.append([Site(*span, f"[{config}]", fixed=True) for config in configs])
    if not choices:
        return []
    versions = []
    for number in range(max(map(len, choices))):
        sites = [choice[min(number, len(choice) - 1)] for choice in choices]
        versions.append(rewrite(text, [(site, 0) for site in sites]))
    return versions


def _configurations(tree: ast.Module, node: ast.expr) -> Iterator[str]:
    """The text of each `triton.Config(...)` that an expression lists; nothing if it is unclear."""
    try:
        yield from list(_expand_configs(tree, node, {}, 4))
    except (_UnknownError, TypeError, ValueError, ArithmeticError, RecursionError):
        return


def _expand_configs(
    tree: ast.Module, node: ast.expr, env: Mapping[str, Any], depth: int
) -> Iterator[str]:
    if depth == 0:
        raise _UnknownError
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for item in items:
                inner = item.value if isinstance(item, ast.Starred) else item
                yield from _expand_configs(tree, inner, env, depth)
        case ast.ListComp(elt=element, generators=generators):
            for names in _combinations(tree, generators, env):
                yield from _expand_configs(tree, element, names, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _expand_configs(tree, left, env, depth)
            yield from _expand_configs(tree, right, env, depth)
        case ast.Call(args=[]) if callee(node) != "Config" and not node.keywords:
            yield from _expand_configs(tree, _returned_value(tree, callee(node)), env, depth - 1)
        case ast.Name(id=name):
            yield from _expand_configs(tree, _assigned_value(tree, name), env, depth - 1)
        case ast.Call() if callee(node) == "Config":
            args = [repr(_value(tree, arg, env)) for arg in node.args]
            args += [
                f"{keyword.arg}={_value(tree, keyword.value, env)!r}" for keyword in node.keywords
            ]
            yield f"{ast.unparse(node.func)}({', '.join(args)})"
        case _:
            raise _UnknownError


def _combinations(
    tree: ast.Module, generators: list[ast.comprehension], env: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    if not generators:
        yield env
        return
    first, *rest = generators
    for value in itertools.islice(_value(tree, first.iter, env), _MOST + 1):
        names = dict(env)
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
        if all(_value(tree, condition, names) for condition in first.ifs):
            yield from _combinations(tree, rest, names)


def _value(tree: ast.Module, node: ast.expr, env: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    """A plain value: literals, names of them, products and comparisons of numbers."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, _PLAIN):
            return value
        case ast.Name(id=name):
            return env[name] if name in env else _value(tree, _assigned_value(tree, name), env)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(tree, item, env) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _value(tree, key, env): _value(tree, value, env)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.BinOp(left=left, op=ast.Mult() | ast.FloorDiv() as sign, right=right):
            one, other = _value(tree, left, env), _value(tree, right, env)
            if isinstance(one, int) and isinstance(other, int):
                return one * other if isinstance(sign, ast.Mult) else one // other
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            one, other = _value(tree, left, env), _value(tree, right, env)
            return bool(COMPARE[type(sign)](one, other))
        case ast.BoolOp(op=sign, values=values):
            operands = [_value(tree, item, env) for item in values]
            return all(operands) if isinstance(sign, ast.And) else any(operands)
    raise _UnknownError


def _assigned_value(tree: ast.Module, name: str) -> ast.expr:
    bindings = [item for statement in tree.body if (item := assignment(statement)) is not None]
    pairs = (named_values(target, value) for targets, value in bindings for target in targets)
    match [value for pair in pairs for item, value in pair if item == name]:
        case [value]:
            return value
    raise _UnknownError


def _returned_value(tree: ast.Module, name: str) -> ast.expr:
    """What a function of one statement returns."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            match [s for s in statement.body if not isinstance(s, ast.Expr)]:
                case [ast.Return(value=ast.expr() as value)]:
                    return value
    raise _UnknownError
