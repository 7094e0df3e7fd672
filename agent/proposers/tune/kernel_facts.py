"""Facts about the constexpr parameters of a Triton kernel, from its syntax tree.

Flow is followed by name through plain assignments, which is what kernels are made of; where it is
lost, less is known, and nothing false follows from it: every version is compared and judged later.
"""

import ast
from collections import defaultdict
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


def configs_of(kernel: ast.FunctionDef) -> list[ast.expr]:
    """The `configs` of its autotuning decorators, as they stand there."""
    configs = []
    for decorator in kernel.decorator_list:
        if isinstance(decorator, ast.Call) and callee(decorator) == "autotune":
            values = [keyword.value for keyword in decorator.keywords if keyword.arg == "configs"]
            configs += [*values, *decorator.args[:1]][:1]
    return configs


def all_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """All parameters of a function, in their order."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def callee(node: ast.AST) -> str:
    """`dot` of `tl.dot(...)`, "" for other nodes."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
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
        notes = [(parameter.arg, parameter.annotation) for parameter in all_parameters(node)]
        notes += [
            (child.target.id, child.annotation)
            for child in ast.walk(node)
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
        ]
        names = dict.fromkeys(name for name, note in notes if note and _is_constexpr(note))
        self.facts = KernelFacts(node, tuple(names))
        self._known = names.keys()
        self._lanes: dict[str, set[str]] = defaultdict(set)
        self._programs: dict[str, set[int]] = defaultdict(set)
        assignments = [*_assignments(node)]
        for _ in range(2):  # what a loop carries is known in the second pass
            for target, value in assignments:
                self._lanes[target] |= self._lanes_of(value)
                self._programs[target] |= self._programs_of(value)
        self._read(node, in_loop=False)

    def _names(self, *nodes: ast.AST) -> set[str]:
        """Constexprs that occur in these."""
        return set().union(*map(_names_in, nodes)) & self._known

    def _lanes_of(self, node: ast.AST) -> set[str]:
        """Constexprs that say how many lanes a value has."""
        match node:
            case ast.Call() if callee(node) == "arange":
                return self._names(*node.args[1:])
            case ast.Call(args=[shape, *_]) if callee(node) in _SHAPED:
                return self._names(shape)
            case ast.Call() if callee(node) in _REDUCING:
                return set()
            case ast.Name(id=name):
                return self._lanes.get(name, set())
            case ast.Subscript(value=value):
                return self._lanes_of(value)
        return set().union(*map(self._lanes_of, ast.iter_child_nodes(node)))

    def _programs_of(self, node: ast.AST) -> set[int]:
        """Axes of the grid that a value is computed from, loads left out."""
        match node:
            case ast.Call() if callee(node) == "program_id":
                args = [*node.args, *(keyword.value for keyword in node.keywords)]
                values = (arg.value for arg in args if isinstance(arg, ast.Constant))
                return {value for value in values if isinstance(value, int)}
            case ast.Call() if callee(node) == "load":
                return set()
            case ast.Name(id=name):
                return self._programs.get(name, set())
        return set().union(*map(self._programs_of, ast.iter_child_nodes(node)))

    def _read(self, node: ast.AST, *, in_loop: bool) -> None:
        facts = self.facts
        match node:
            case ast.For(iter=ast.Call() as iterable):
                facts.loops = True
                if callee(iterable) in {"range", "static_range"} and len(iterable.args) == 3:
                    for name in self._names(iterable.args[2]):
                        facts.steps.add(name)
                        self._add_bound(name, iterable.args[1])
                loads = any(callee(child) == "load" for child in ast.walk(node))
                if callee(iterable) == "range" and loads:
                    facts.ranges.append(iterable)
                in_loop = True
            case ast.While():
                facts.loops = in_loop = True
            case ast.BinOp(op=ast.Mult()):
                self._add_step(node)
            case ast.Compare(left=left, comparators=[right]):
                lanes = self._lanes_of(left)
                if len(lanes) == 1:
                    self._add_bound(next(iter(lanes)), right)
            case ast.Call():
                self._call(node, in_loop=in_loop)
        for child in ast.iter_child_nodes(node):
            self._read(child, in_loop=in_loop)

    def _call(self, node: ast.Call, *, in_loop: bool) -> None:
        facts, name = self.facts, callee(node)
        if name == "arange":
            facts.extents |= self._names(*node.args[1:])
        elif name in _DOTS:
            facts.dots = True
            for arg in node.args[:2]:
                facts.dotted |= self._lanes_of(arg)
        elif name == "num_programs":
            facts.counts_programs = True
        elif name in {"load", "store"} and node.args:
            lanes = frozenset(self._lanes_of(node.args[0]))
            facts.tiles.add(TileShape(lanes, in_loop, loaded=name == "load"))
        elif name in _SHAPED and node.args:
            shape = frozenset(self._names(node.args[0]))
            facts.tiles.add(TileShape(shape, in_loop=False, loaded=False))
        elif name == "cdiv" and len(node.args) == 2:
            for constexpr in self._names(node.args[1]):
                self._add_bound(constexpr, node.args[0])

    def _add_step(self, node: ast.BinOp) -> None:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ast.Name) and side.id in self._known:
                axes = self._programs_of(other)
                if axes:
                    self.facts.steps.add(side.id)
                    self.facts.axes.setdefault(side.id, set()).update(axes)

    def _add_bound(self, constexpr: str, node: ast.expr) -> None:
        self.facts.bounds.setdefault(constexpr, set()).update(_names_in(node) - self._known)


def _names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


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
                yield from ((elt.id, value) for elt in targets if isinstance(elt, ast.Name))
        yield from _assignments(child)
