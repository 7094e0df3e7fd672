"""Facts about the constexpr parameters of a Triton kernel, from its syntax tree.

Flow is followed by name through plain assignments, which is what kernels are made of; where it is
lost, less is known, and nothing false follows from it: every version is compared and judged later.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.proposers.tune.tunable import TileShape

# Their results have fewer axes than their arguments, or others.
_REDUCING = frozenset({
    "sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "dot", "dot_scaled",
    "program_id",
})  # fmt: skip
_DOTS = frozenset({"dot", "dot_scaled"})
_SHAPED = frozenset({"zeros", "full"})


@dataclass(slots=True)
class KernelFacts:
    """One `@triton.jit` function."""

    node: ast.FunctionDef
    constexprs: tuple[str, ...]
    """Parameters annotated `tl.constexpr`, and locals that are."""
    extents: set[str] = field(default_factory=set)
    """Constexprs that are (part of) the end of a `tl.arange`."""
    steps: set[str] = field(default_factory=set)
    """Constexprs that a loop advances by, or a program's number is multiplied by."""
    axes: dict[str, set[int]] = field(default_factory=dict)
    """Constexpr → axes of the grid whose program number it is multiplied by."""
    bounds: dict[str, set[str]] = field(default_factory=dict)
    """Constexpr → names that its lanes are compared with, or that a loop of its step ends at."""
    dotted: set[str] = field(default_factory=set)
    """Constexprs that shape an operand of `tl.dot`."""
    tiles: set[TileShape] = field(default_factory=set)
    dots: bool = False
    """It has a `tl.dot`."""
    loops: bool = False
    """It has a loop."""
    counts_programs: bool = False
    """It asks for the size of its grid, so any grid will do."""
    ranges: list[ast.Call] = field(default_factory=list)
    """Calls of `range` and `tl.range` that loops run over, with a body that loads."""


def is_jit(node: ast.FunctionDef) -> bool:
    """Whether a function is a Triton kernel."""
    targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(_last_name(each) == "jit" for each in targets)


def autotuned(kernel: ast.FunctionDef) -> list[ast.expr]:
    """The `configs` of its autotuning decorators, as they stand there."""
    found = []
    for decorator in kernel.decorator_list:
        if isinstance(decorator, ast.Call) and called(decorator) == "autotune":
            given = [each.value for each in decorator.keywords if each.arg == "configs"]
            found += [*given, *decorator.args[:1]][:1]
    return found


def all_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """All parameters of a function, in their order."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def called(node: ast.AST) -> str:
    """`dot` of `tl.dot(...)`, "" for other nodes."""
    return _last_name(node.func) if isinstance(node, ast.Call) else ""


def _last_name(node: ast.expr) -> str:
    """`dot` of `tl.dot` and of `dot`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def kernel_facts(node: ast.FunctionDef) -> KernelFacts:
    """Read one kernel."""
    return _Reader(node).facts


def language_name(tree: ast.Module) -> str:
    """The name that the file gives `triton.language`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "triton.language" and alias.asname:
                    return alias.asname
        elif isinstance(node, ast.ImportFrom) and node.module == "triton":
            for alias in node.names:
                if alias.name == "language":
                    return alias.asname or alias.name
    return ""


class _Reader:
    def __init__(self, node: ast.FunctionDef) -> None:
        names = [
            a.arg for a in all_parameters(node) if a.annotation and _is_constexpr(a.annotation)
        ]
        names += [
            each.target.id
            for each in ast.walk(node)
            if isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and _is_constexpr(each.annotation)
        ]
        self.facts = KernelFacts(node, tuple(dict.fromkeys(names)))
        self._known = frozenset(names)
        self._lanes: dict[str, frozenset[str]] = {}
        self._programs: dict[str, frozenset[int]] = {}
        for _ in range(2):  # what a loop carries is known in the second pass
            self._flow(node)
        self._read(node, in_loop=False)

    def _flow(self, node: ast.FunctionDef) -> None:
        for target, value in _assignments(node):
            self._lanes[target] = self._lanes.get(target, frozenset()) | self._lanes_of(value)
            axes = self._programs.get(target, frozenset()) | self._programs_of(value)
            self._programs[target] = axes

    def _names(self, node: ast.AST) -> frozenset[str]:
        found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return frozenset(found & self._known)

    def _lanes_of(self, node: ast.AST) -> frozenset[str]:
        """Constexprs that say how many lanes a value has."""
        name = called(node)
        if isinstance(node, ast.Call):
            if name == "arange":
                return frozenset().union(*(self._names(each) for each in node.args[1:]))
            if name in _SHAPED and node.args:
                return self._names(node.args[0])
            if name in _REDUCING:
                return frozenset()
        if isinstance(node, ast.Name):
            return self._lanes.get(node.id, frozenset())
        if isinstance(node, ast.Subscript):
            return self._lanes_of(node.value)
        return frozenset().union(*(self._lanes_of(each) for each in ast.iter_child_nodes(node)))

    def _programs_of(self, node: ast.AST) -> frozenset[int]:
        """Axes of the grid that a value is computed from, loads left out."""
        name = called(node)
        if isinstance(node, ast.Call):
            if name == "program_id":
                given = [*node.args, *(each.value for each in node.keywords)]
                return frozenset(
                    each.value
                    for each in given
                    if isinstance(each, ast.Constant) and isinstance(each.value, int)
                )
            if name == "load":
                return frozenset()
        if isinstance(node, ast.Name):
            return self._programs.get(node.id, frozenset())
        return frozenset().union(*(self._programs_of(each) for each in ast.iter_child_nodes(node)))

    def _read(self, node: ast.AST, *, in_loop: bool) -> None:
        facts = self.facts
        match node:
            case ast.For(iter=ast.Call() as over):
                facts.loops = True
                self._range(over)
                if called(over) == "range" and any(
                    called(each) == "load" for each in ast.walk(node)
                ):
                    facts.ranges.append(over)
                in_loop = True
            case ast.While():
                facts.loops = in_loop = True
            case ast.BinOp(op=ast.Mult()):
                self._multiplied(node)
            case ast.Compare(left=left, comparators=[right]):
                lanes = self._lanes_of(left)
                if len(lanes) == 1:
                    self._bound(next(iter(lanes)), right)
            case ast.Call():
                self._call(node, in_loop=in_loop)
        for child in ast.iter_child_nodes(node):
            self._read(child, in_loop=in_loop)

    def _call(self, node: ast.Call, *, in_loop: bool) -> None:
        facts, name = self.facts, called(node)
        if name == "arange":
            for each in node.args[1:]:
                facts.extents |= self._names(each)
        elif name in _DOTS:
            facts.dots = True
            for each in node.args[:2]:
                facts.dotted |= self._lanes_of(each)
        elif name == "num_programs":
            facts.counts_programs = True
        elif name in {"load", "store"} and node.args:
            lanes = self._lanes_of(node.args[0])
            facts.tiles.add(TileShape(lanes, in_loop, loaded=name == "load"))
        elif name in _SHAPED and node.args:
            shape = self._names(node.args[0])
            facts.tiles.add(TileShape(shape, in_loop=False, loaded=False))
        elif name == "cdiv" and len(node.args) == 2:
            for constexpr in self._names(node.args[1]):
                self._bound(constexpr, node.args[0])

    def _range(self, over: ast.Call) -> None:
        if called(over) in {"range", "static_range"} and len(over.args) == 3:
            for each in self._names(over.args[2]):
                self.facts.steps.add(each)
                self._bound(each, over.args[1])

    def _multiplied(self, node: ast.BinOp) -> None:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ast.Name) and side.id in self._known:
                axes = self._programs_of(other)
                if axes:
                    self.facts.steps.add(side.id)
                    self.facts.axes.setdefault(side.id, set()).update(axes)

    def _bound(self, constexpr: str, node: ast.expr) -> None:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        self.facts.bounds.setdefault(constexpr, set()).update(names - self._known)


def _is_constexpr(annotation: ast.expr) -> bool:
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return str(text).rpartition(".")[2] == "constexpr"


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what they are assigned, in the order of the text."""
    for child in ast.iter_child_nodes(node):
        match child:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.For(target=ast.Name(id=name), iter=value)
            ):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                yield from ((each.id, value) for each in targets if isinstance(each, ast.Name))
        yield from _assignments(child)
