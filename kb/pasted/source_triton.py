"""What the syntax tree of a Triton kernel file shows: passes over one pointer, tiles too small."""

import ast
from collections.abc import Container, Iterator, Mapping
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
        for pointer, passes in passes_of(kernel).items():
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
    targets = [
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in node.decorator_list
    ]
    return any(
        (isinstance(target, ast.Attribute) and target.attr == "jit")
        or (isinstance(target, ast.Name) and target.id == "jit")
        for target in targets
    )


def called_name(node: ast.AST) -> str:
    """The name of a function of `tl` that a node calls; empty if it is no such call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr if isinstance(node.func.value, ast.Name) else ""
    return ""


def calls(tree: ast.AST, names: Container[str]) -> Iterator[ast.Call]:
    """The calls of functions of `tl` by these names, that have arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and called_name(node) in names:
            yield node


def leftmost(node: ast.expr) -> str | None:
    """The pointer of `pointer + offset + ...`."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node = node.left
    return node.id if isinstance(node, ast.Name) else None


def passes_of(kernel: ast.FunctionDef) -> dict[str, int]:
    """Pointer parameter → in how many separate loops from one beginning it is loaded.

    Loads outside loops do not count: two of them read different offsets more often than the same.
    A loop that begins elsewhere, or whose pointer an earlier loop has moved, reads what is left.
    """
    roots = {argument.arg: argument.arg for argument in kernel.args.args}
    moved_by: dict[str, int] = {}
    """Pointer → the loop that moves it."""
    loops: dict[tuple[str, str], set[int]] = {}

    def visit(node: ast.AST, loop: ast.For | ast.While | None) -> None:
        match node:
            case ast.AugAssign(target=ast.Name(id=name)) if loop is not None:
                moved_by.setdefault(name, id(loop))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                left = leftmost(value)
                if left == name and loop is not None:
                    moved_by.setdefault(name, id(loop))
                elif left in roots:
                    roots[name] = roots[left]
                    moved_by.pop(name, None)
            case ast.Call(args=[where, *_]) if loop is not None and called_name(node) == "load":
                left = leftmost(where)
                if left in roots and moved_by.get(left, id(loop)) == id(loop):
                    loops.setdefault((roots[left], _beginning(loop)), set()).add(id(loop))
        outer = loop is None and isinstance(node, ast.For | ast.While)
        for child in ast.iter_child_nodes(node):
            visit(child, node if outer else loop)  # type: ignore[arg-type]

    visit(kernel, None)
    passes: dict[str, int] = {}
    for (pointer, _), places in loops.items():
        passes[pointer] = max(passes.get(pointer, 0), len(places))
    return passes


def _beginning(loop: ast.For | ast.While) -> str:
    """Where a loop over a range begins, or where one ends that goes backwards; else nothing."""
    match loop:
        case ast.For(iter=ast.Call(args=[_] | [_, _, ast.UnaryOp(op=ast.USub())])):
            return "0"
        case ast.For(iter=ast.Call(args=[first, *_])):
            return ast.unparse(first)
    return ""


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
    keywords = {
        keyword.arg: _integer(keyword.value, constants)
        for keyword in launch.keywords
        if keyword.arg
    }
    warps = keywords.get("num_warps", _DEFAULT_WARPS)
    extents = {
        ast.unparse(node.args[1]): _integer(node.args[1], keywords)
        for node in calls(kernel, {"arange"})
        if len(node.args) == 2
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
