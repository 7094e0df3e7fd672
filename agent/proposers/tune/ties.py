"""Literals on the host side that repeat a block size: `triton.cdiv(n, 256)` beside `BLOCK=256`."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.proposers.tune.kernel_facts import callee
from agent.proposers.tune.launches import Launch, Module, number


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A literal that something is divided by, rounded up or not."""

    node: ast.Constant
    dividend: str
    """The text of what is divided."""
    axis: int | None
    """Of the grid, where it stands in one; None elsewhere."""
    added: ast.Constant | None = None
    """What rounds up: the 255 of `(n + 255) // 256`, the first 256 of `(n + 256 - 1) // 256`."""
    plus: int = 0
    """How far that is from the divisor."""


def repeats(node: ast.AST, axis: int | None = None) -> Iterator[Repeat]:
    """Divisions by an integer literal in an expression or function."""
    match node:
        case ast.Call(args=[dividend, ast.Constant() as divisor]) if callee(node) == "cdiv":
            if _is_size(divisor):
                yield Repeat(divisor, ast.unparse(dividend), axis)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant() as divisor):
            if _is_size(divisor):
                yield _rounded_division(left, divisor, axis)
    for child in ast.iter_child_nodes(node):
        yield from repeats(child, axis)


def _rounded_division(left: ast.expr, divisor: ast.Constant, axis: int | None) -> Repeat:
    match left:
        case ast.BinOp(left=inner, op=ast.Add(), right=ast.Constant() as added) if (
            added.value == number(divisor) - 1
        ):
            return Repeat(divisor, ast.unparse(inner), axis, added, -1)
        case ast.BinOp(
            left=ast.BinOp(left=inner, op=ast.Add(), right=ast.Constant() as added),
            op=ast.Sub(),
            right=ast.Constant(value=1),
        ) if added.value == number(divisor):
            return Repeat(divisor, ast.unparse(inner), axis, added)
    return Repeat(divisor, ast.unparse(left), axis)


def grid_repeats(module: Module, launch: Launch) -> list[Repeat]:
    """Those in the grid of one launch, with their axes."""
    grid = module.resolve(launch.grid)
    if isinstance(grid, ast.Lambda):
        grid = grid.body
    parts: Sequence[ast.expr] = grid.elts if isinstance(grid, ast.Tuple | ast.List) else [grid]
    whole = [module.resolve(part) for part in parts]
    return [repeat for axis, part in enumerate(whole) for repeat in repeats(part, axis)]


def tied_literals(
    launch: Launch, sizes: dict[str, ast.Constant], repeat: Repeat, *, alone: bool
) -> list[ast.Constant]:
    """Which of a launch's sizes a division repeats; several where that cannot be told.

    Parameters
    ----------
    sizes
        The literal of each constexpr parameter that has one.
    alone
        The division stands in the grid of this launch: one size of that value is enough to go by.
    """
    same = {name: node for name, node in sizes.items() if node.value == repeat.node.value}
    if not same or launch.kernel is None:
        return []
    names = {
        name for name, value in launch.arguments.items() if ast.unparse(value) == repeat.dividend
    }
    bounds, axes, extents = launch.kernel.bounds, launch.kernel.axes, launch.kernel.extents
    by_bound = {name for name in same if bounds.get(name, set()) & names}
    by_axis = {
        name for name in same if name in extents and alone and repeat.axis in axes.get(name, set())
    }
    # Queries and keys are both compared with the number of tokens; the grid counts one of them.
    matching = by_bound & by_axis or by_bound or by_axis
    if matching:
        return [node for name, node in same.items() if name in matching]
    return list(same.values()) if alone or len(same) == 1 else []


def _is_size(literal: ast.Constant) -> bool:
    return type(literal.value) is int and literal.value > 0
