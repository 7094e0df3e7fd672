"""Names, calls and parameters in the syntax tree of a kernel file."""

import ast
from collections import Counter
from dataclasses import dataclass
from typing import Any


def bound_name(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return (alias.asname or alias.name).partition(".")[0]


def names_of(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [bound_name(alias) for alias in names]
        case ast.Assign(targets=targets):
            ids = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            return [] if ids == ["TUNABLES"] else ids
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def declared_tunables(module: ast.Module) -> dict[str, list[Any]]:
    """Return `TUNABLES` of a kernel file: parameter → values; empty where it cannot be read."""
    for statement in module.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="TUNABLES")], value=value)
                | ast.AnnAssign(target=ast.Name(id="TUNABLES"), value=ast.expr() as value)
            ):
                try:
                    tunables = ast.literal_eval(value)
                except (ValueError, TypeError, SyntaxError):
                    return {}
                if isinstance(tunables, dict):
                    return {
                        str(name): list(values)
                        for name, values in tunables.items()
                        if isinstance(values, list | tuple)
                    }
    return {}


@dataclass(frozen=True, slots=True)
class Uses:
    """The names in a syntax tree, and its calls: `name(…)`, and launches `name[grid](…)`."""

    names: Counter[str]
    """How often each occurs."""
    calls: dict[str, list[ast.Call]]
    """By the name that is called."""


def uses_in(node: ast.AST) -> Uses:
    """Collect names and calls in one walk of the tree, which is the slow part."""
    uses = Uses(Counter(), {})
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            uses.names[child.id] += 1
        elif isinstance(child, ast.Call):
            target = child.func.value if isinstance(child.func, ast.Subscript) else child.func
            if isinstance(target, ast.Name):
                uses.calls.setdefault(target.id, []).append(child)
    return uses


def passed_argument(
    call: ast.Call, place: int, name: str, function: ast.FunctionDef
) -> ast.expr | None:
    """The argument that a call passes for a parameter; None if it cannot be determined."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if any(isinstance(arg, ast.Starred) for arg in call.args[: place + 1]):
        return None
    if place < len(call.args):
        return call.args[place]
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    defaults = function.args.defaults
    behind = place - (len(function.args.args) - len(defaults))
    return defaults[behind] if 0 <= behind < len(defaults) else None


def remove_argument(call: ast.Call, place: int, name: str) -> None:
    """Remove an argument from a call, by its name or its position."""
    keywords = [keyword for keyword in call.keywords if keyword.arg != name]
    if len(keywords) != len(call.keywords):
        call.keywords = keywords
    elif place < len(call.args):
        del call.args[place]


def is_unresolved(function: ast.FunctionDef, value: ast.expr) -> bool:
    """Whether a folded None or hook remains in arithmetic: then it was not resolved."""
    if isinstance(value, ast.Name):
        names = (n for n in ast.walk(function) if isinstance(n, ast.Name))
        calls = (n for n in ast.walk(function) if isinstance(n, ast.Call))
        arg_ids = {id(a) for call in calls for a in (*call.args, *(k.value for k in call.keywords))}
        return any(n.id == value.id and id(n) not in arg_ids for n in names)
    if not isinstance(value, ast.Constant) or value.value is not None:
        return False
    return any(
        isinstance(side, ast.Constant) and side.value is None
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp)
        for side in (node.left, node.right)
    )


def read_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements read."""
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def has_call(node: ast.expr) -> bool:
    """Whether evaluating an expression calls something or unpacks a sequence."""
    return any(isinstance(child, ast.Call | ast.Starred) for child in ast.walk(node))
