"""Mistakes made in kernels by their syntax trees: one small change in a function for the GPU."""

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    # Where a mistake can be made: its kind, the number of the node, and of the mistake there.
    sites = [
        (kind, number, choice)
        for number, node in enumerate(_nodes(module))
        for choice, (kind, _) in enumerate(_mistakes(node))
    ]
    generator = random.Random(f"{seed} {name}")
    generator.shuffle(sites)
    by_kind: dict[str, list[tuple[int, int]]] = {}
    for kind, number, choice in sites:
        by_kind.setdefault(kind, []).append((number, choice))
    chosen: list[Mutant] = []
    seen = {ast.unparse(module)}
    # One of each kind in turn: large kernels have hundreds of sums and one loop.
    while len(chosen) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(chosen) < count:
                mutant = _mutate(module, *by_kind[kind].pop())
                if mutant is not None and mutant.text not in seen:
                    seen.add(mutant.text)
                    chosen.append(mutant)
    return chosen


def _nodes(module: ast.Module) -> list[ast.AST]:
    """Nodes of device functions' bodies, in the same order for a copy of the tree."""
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


def _mistakes(node: ast.AST) -> Iterator[tuple[str, Callable[[], ast.AST | None]]]:
    """Mistakes that can be made at a node: their kind, and a function that makes one.

    It changes the node, or returns its replacement; None where nothing would change.
    """
    one = ast.Constant(1)
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op):
            yield "operand dropped", lambda: node.right
            yield "operand dropped", lambda: node.left
            yield "operator changed", lambda: _update(node, op=_OTHER[type(op)]())
        case ast.AugAssign(op=ast.Add() | ast.Mult() | ast.Sub()):
            yield "accumulation lost", lambda: ast.Assign([copy.deepcopy(node.target)], node.value)
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op]):
            reduced = ast.BinOp(node.comparators[0], ast.Sub(), one)
            yield "comparison off by one", lambda: _update(node, ops=[_NEXT[type(op)]()])
            yield "bound off by one", lambda: _update(node, comparators=[reduced])
        case ast.For(
            iter=ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range")) as call
        ):
            for end in (True, False):
                yield "loop one short", partial(_shorten, node, call, end=end)
        case ast.Call(func=ast.Attribute(attr="arange")):
            yield "index off by one", lambda: ast.BinOp(node, ast.Add(), one)
        case ast.Call(func=ast.Attribute(attr="program_id"), args=[ast.Constant(value=axis)]):
            yield "axis changed", lambda: _update(node, args=[ast.Constant((axis + 1) % 2)])
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Attribute() as dtype]):
            if dtype.attr in _NARROWER:
                narrower = ast.Attribute(dtype.value, _NARROWER[dtype.attr], dtype.ctx)
                yield "dtype narrowed", lambda: _update(node, args=[narrower])
        case ast.Call(func=ast.Attribute(attr="load" | "store"), keywords=keywords):
            unmasked = [keyword for keyword in keywords if keyword.arg not in ("mask", "other")]
            padded = [
                ast.keyword("other", ast.Constant(3)) if keyword.arg == "other" else keyword
                for keyword in keywords
            ]
            if any(keyword.arg == "mask" for keyword in keywords):
                yield "mask dropped", lambda: _update(node, keywords=unmasked)
            if any(keyword.arg == "other" for keyword in keywords):
                yield "padding changed", lambda: _update(node, keywords=padded)
        case ast.Call(func=ast.Attribute(attr="zeros" | "full")):
            yield "beginning changed", lambda: ast.BinOp(node, ast.Add(), one)
        case ast.Call(func=ast.Attribute(attr="maximum" | "minimum"), args=[first, second]):
            yield "accumulation lost", lambda: first
            yield "accumulation lost", lambda: second
        case ast.Call(func=ast.Attribute(attr="where"), args=[condition, yes, no]):
            yield "branches swapped", lambda: _update(node, args=[condition, no, yes])
        case ast.Call(func=ast.Attribute(attr="atomic_add") as function, keywords=keywords):
            masks = [keyword for keyword in keywords if keyword.arg == "mask"]
            store = ast.Attribute(function.value, "store", function.ctx)
            yield "race", lambda: _update(node, func=store, keywords=masks)
        case ast.Constant(value=float() as number):
            half = 0.5 * number if abs(number) < 1e300 else 0.0  # infinities, too
            yield "constant changed", lambda: _update(node, value=half) if half != number else None


def _update(node: ast.AST, **fields: Any) -> ast.AST:
    """The node with some of its fields changed."""
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _shorten(loop: ast.For, call: ast.Call, *, end: bool) -> ast.AST:
    """A loop that ends before its last round, or begins after its first."""
    first, *rest = call.args
    step = rest[1] if len(rest) > 1 else ast.Constant(1)
    if not rest:
        call.args = [ast.BinOp(first, ast.Sub(), ast.Constant(1))]
    elif end:
        call.args = [first, ast.BinOp(rest[0], ast.Sub(), step), *rest[1:]]
    else:
        call.args = [ast.BinOp(first, ast.Add(), step), *rest]
    return loop


def _mutate(module: ast.Module, number: int, choice: int) -> Mutant | None:
    tree = copy.deepcopy(module)
    node = _nodes(tree)[number]
    before = ast.unparse(node).splitlines()[0]
    kind, make = list(_mistakes(node))[choice]
    new = make()
    if new is None:
        return None
    changed = _Replace(node, new).visit(tree) if new is not node else tree
    after = ast.unparse(ast.fix_missing_locations(new)).splitlines()[0]
    line = getattr(node, "lineno", 0)
    text = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    return Mutant(kind, line, f"{before}  ->  {after}"[:200], text)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)
