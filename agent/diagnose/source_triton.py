"""What the syntax tree of a Triton kernel file shows: passes over one pointer, tiles too small."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# triton.compile's default.
_DEFAULT_WARPS = 4
_LANES = 32


@dataclass(frozen=True, slots=True)
class IdleLanes:
    """Threads of a block with nothing to do."""

    busy: int
    """Threads that have an item."""
    threads: int | None
    """Threads of the block, where the text says; else the launch tells."""
    where: str
    """The line, shortened."""


@dataclass(frozen=True, slots=True)
class Reread:
    """One global array that is read again after a barrier, or in a further pass."""

    array: str
    passes: int
    """In how many places it is read."""
    where: str
    """What separates them: `__syncthreads` or `loops`."""


def read_triton(tree: ast.Module) -> tuple[tuple[IdleLanes, ...], tuple[Reread, ...]]:
    """Launches with fewer elements than threads, and pointers that several loops load from.

    Of all `@triton.jit` functions of a module.
    """
    kernels = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and is_jit(node)
    }
    rereads: dict[str, int] = {}
    for kernel in kernels.values():
        for pointer, passes in _passes(kernel).items():
            if passes > 1:
                rereads[pointer] = max(passes, rereads.get(pointer, 0))
    constants = {
        target.id: value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (value := _integer(node.value, {})) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    tiles = tuple(
        tile
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        for tile in _small_tile(node, kernels, constants)
    )
    return tiles, tuple(Reread(name, passes, "loops") for name, passes in sorted(rereads.items()))


def is_jit(node: ast.FunctionDef) -> bool:
    """Whether a function is a Triton kernel: `@triton.jit`, `@jit`, or a call of it."""
    targets = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "jit")
        or (isinstance(each, ast.Name) and each.id == "jit")
        for each in targets
    )


def _is_tl(call: ast.AST, name: str) -> bool:
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and isinstance(call.func.value, ast.Name)
    )


def _leftmost(node: ast.expr) -> str | None:
    """The pointer of `pointer + offset + ...`."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node = node.left
    return node.id if isinstance(node, ast.Name) else None


def _passes(kernel: ast.FunctionDef) -> dict[str, int]:
    """Pointer parameter → in how many separate loops it is loaded.

    Loads outside loops do not count: two of them read different offsets more often than the same.
    """
    roots = {argument.arg: argument.arg for argument in kernel.args.args}
    loops: dict[str, set[int]] = {}

    def visit(node: ast.AST, loop: int | None) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, left = node.targets[0], _leftmost(node.value)
            if isinstance(target, ast.Name) and left in roots:
                roots[target.id] = roots[left]
        if isinstance(node, ast.Call) and _is_tl(node, "load") and node.args:
            left = _leftmost(node.args[0])
            if left in roots and loop is not None:
                loops.setdefault(roots[left], set()).add(loop)
        inner = id(node) if isinstance(node, ast.For | ast.While) and loop is None else loop
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(kernel, None)
    return {pointer: len(places) for pointer, places in loops.items()}


def _integer(node: ast.expr, constants: Mapping[str, int | None]) -> int | None:
    """The value of a literal, or of a name that is known."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return None


def _small_tile(
    launch: ast.Call, kernels: dict[str, ast.FunctionDef], constants: dict[str, int]
) -> Iterator[IdleLanes]:
    assert isinstance(launch.func, ast.Subscript)
    name = launch.func.value.id if isinstance(launch.func.value, ast.Name) else ""
    kernel = kernels.get(name)
    if kernel is None:
        return
    given = {each.arg: _integer(each.value, constants) for each in launch.keywords if each.arg}
    warps = given.get("num_warps", _DEFAULT_WARPS)
    extents = {
        ast.unparse(node.args[1]): _integer(node.args[1], given)
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call) and _is_tl(node, "arange") and len(node.args) == 2
    }
    if warps is None or not extents:
        return
    elements = 1
    for extent in extents.values():
        if extent is None:
            return
        elements *= extent
    if elements < warps * _LANES:
        where = f"{name}: {' x '.join(extents)} elements, num_warps={warps}"
        yield IdleLanes(elements, warps * _LANES, where)
