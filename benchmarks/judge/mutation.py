"""Mistakes made in kernels by their syntax trees: one small change in a function for the GPU."""

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

from judge.evaluate.scan_names import Names
from judge.problem.syntax import parse

_NARROWER = {"float32": "float16", "float64": "float32", "int64": "int32"}
_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
_NEXT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One kernel file with one mistake."""

    kind: str
    line: int
    change: str
    """The changed expression or statement, before and after."""
    text: str


def mutants(text: str, name: str, seed: int, count: int) -> list[Mutant]:
    """Up to `count` mutants of a Triton file, of as many kinds as there are, the same for a seed.

    Comments and layout are lost: the file is written anew from its tree.
    """
    module = parse(text, name)
    # Where a mistake can be made: kind, number of the node, and which of several.
    sites = [
        (kind, number, way)
        for number, node in enumerate(_nodes(module))
        for kind, ways in _ways(node)
        for way in ways
    ]
    draw = random.Random(f"{seed} {name}")
    draw.shuffle(sites)
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for kind, number, way in sites:
        by_kind.setdefault(kind, []).append((number, way))
    chosen: list[Mutant] = []
    seen = {ast.unparse(module)}
    # One of each kind in turn: large kernels have hundreds of sums and one loop.
    while len(chosen) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(chosen) < count:
                found = _mutated(module, kind, *by_kind[kind].pop())
                if found is not None and found.text not in seen:
                    seen.add(found.text)
                    chosen.append(found)
    return chosen


def _nodes(module: ast.Module) -> list[ast.AST]:
    """Nodes of device functions' bodies, in an order that a copy of the tree has as well."""
    names = Names(module)

    def is_jit(decorator: ast.expr) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        return names.resolve(called) == "triton.jit"

    return [
        node
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef) and any(map(is_jit, function.decorator_list))
        for statement in function.body
        for node in ast.walk(statement)
    ]


def _ways(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            yield "operand dropped", ["left", "right"]
            yield "operator changed", ["other"]
        case ast.AugAssign(op=ast.Add() | ast.Mult() | ast.Sub()):
            yield "accumulation lost", ["assign"]
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
            yield "comparison off by one", ["next"]
            yield "bound off by one", ["less"]
        case ast.For(iter=ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range"))):
            yield "loop one short", ["end", "start"]
        case ast.Call(func=ast.Attribute(attr="arange")):
            yield "index off by one", ["plus"]
        case ast.Call(func=ast.Attribute(attr="program_id"), args=[ast.Constant()]):
            yield "axis changed", ["other"]
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Attribute(attr=dtype)]):
            if dtype in _NARROWER:
                yield "dtype narrowed", ["to"]
        case ast.Call(func=ast.Attribute(attr="load" | "store"), keywords=keywords):
            named = {each.arg for each in keywords}
            if "mask" in named:
                yield "mask dropped", ["mask"]
            if "other" in named:
                yield "padding changed", ["other"]
        case ast.Call(func=ast.Attribute(attr="zeros" | "full")):
            yield "beginning changed", ["value"]
        case ast.Call(func=ast.Attribute(attr="maximum" | "minimum"), args=[_, _]):
            yield "accumulation lost", ["first", "second"]
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, _, _]):
            yield "branches swapped", ["swap"]
        case ast.Call(func=ast.Attribute(attr="atomic_add")):
            yield "race", ["store"]
        case ast.Constant(value=float()):
            yield "constant changed", ["half"]


def _mutated(module: ast.Module, kind: str, number: int, way: str) -> Mutant | None:
    copied = copy.deepcopy(module)
    node = _nodes(copied)[number]
    before = ast.unparse(node).splitlines()[0]
    new = _changed(node, kind, way)
    if new is None:
        return None
    changed = _Replaced(node, new).visit(copied) if new is not node else copied
    after = ast.unparse(ast.fix_missing_locations(new)).splitlines()[0]
    line = getattr(node, "lineno", 0)
    text = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    return Mutant(kind, line, f"{before}  ->  {after}"[:200], text)


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _changed(node: ast.AST, kind: str, way: str) -> ast.AST | None:
    one = ast.Constant(1)
    match kind, node:
        case "operand dropped", ast.BinOp():
            return node.right if way == "left" else node.left
        case "operator changed", ast.BinOp():
            node.op = _OTHER[type(node.op)]()
            return node
        case "accumulation lost", ast.AugAssign():
            target = copy.deepcopy(node.target)
            return ast.Assign(targets=[target], value=node.value)
        case "accumulation lost", ast.Call():
            return node.args[0 if way == "first" else 1]
        case "comparison off by one", ast.Compare():
            node.ops = [_NEXT[type(node.ops[0])]()]
            return node
        case "bound off by one", ast.Compare():
            node.comparators = [ast.BinOp(node.comparators[0], ast.Sub(), one)]
            return node
        case "loop one short", ast.For(iter=ast.Call(args=arguments) as called):
            step = arguments[2] if len(arguments) > 2 else one
            if way == "start" and len(arguments) > 1:
                called.args = [ast.BinOp(arguments[0], ast.Add(), step), *arguments[1:]]
            elif len(arguments) == 1:
                called.args = [ast.BinOp(arguments[0], ast.Sub(), one)]
            else:
                end = ast.BinOp(arguments[1], ast.Sub(), step)
                called.args = [arguments[0], end, *arguments[2:]]
            return node
        case "index off by one", ast.Call():
            return ast.BinOp(node, ast.Add(), one)
        case "axis changed", ast.Call(args=[ast.Constant(value=int() as axis)]):
            node.args = [ast.Constant((axis + 1) % 2)]
            return node
        case "dtype narrowed", ast.Call(args=[ast.Attribute() as dtype]):
            dtype.attr = _NARROWER[dtype.attr]
            return node
        case "mask dropped", ast.Call():
            node.keywords = [each for each in node.keywords if each.arg not in ("mask", "other")]
            return node
        case "padding changed", ast.Call():
            for each in node.keywords:
                if each.arg == "other":
                    each.value = ast.Constant(3)
            return node
        case "beginning changed", ast.Call():
            return ast.BinOp(node, ast.Add(), one)
        case "branches swapped", ast.Call(args=[condition, yes, no]):
            node.args = [condition, no, yes]
            return node
        case "race", ast.Call(func=ast.Attribute() as function):
            function.attr = "store"
            node.keywords = [each for each in node.keywords if each.arg == "mask"]
            return node
        case "constant changed", ast.Constant(value=float() as value):
            node.value = 0.5 * value if abs(value) < 1e300 else 0.0  # infinities, too
            return node if node.value != value else None
    return None
