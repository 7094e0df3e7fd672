"""Finds tunable parameters of a Triton kernel file in its syntax tree. Executes nothing.

Found are: integer literals that reach a constexpr parameter or a launch option, directly, through
names, defaults, dictionaries and `min`; literals that repeat them in grids and divisions;
sizes written inside a kernel; configurations of an autotuner (one by one: `autotune.collapse`
first); loops that Triton can pipeline; and `TUNABLES`. Whether a value may be another one is not
decided here beyond names and shapes that give it away: a version with other results is dropped.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.proposers.tune import ties
from agent.proposers.tune.kernel_facts import (
    KernelFacts,
    all_parameters,
    callee,
    configs_of,
    language_name,
)
from agent.proposers.tune.launches import OPTIONS, Launch, Module, defaults, number
from agent.proposers.tune.rewrite import Offsets, Site, Value
from agent.proposers.tune.tunable import Parameter, Role, TileShape, Tunable
from kb.context.calls import declared_tunables

# triton.compile's defaults on NVIDIA cards (backends/nvidia/compiler.py, CUDAOptions).
DEFAULT_WARPS: Final = 4
DEFAULT_STAGES: Final = 3
# Sizes of the operator, or switches: another value is another operator.
_MEANING: Final = re.compile(
    r"(?i)stride|pad|dilat|window|kernel|head|dim|chan|^c_?(in|out)$|flag|^(has|is|use)_|axis|taps"
)
# Counts that may well be 1 before they are tuned.
_COUNT: Final = re.compile(r"(?i)group|split|unroll|rows|per_|num|iter|tiles|programs|chunk")
# Below this a literal in a kernel is more likely an index than a block.
_LEAST_INNER: Final = 16


@dataclass(slots=True, eq=False)
class _Draft:
    """A group of literals that change together."""

    name: str
    role: Role
    nodes: dict[ast.Constant, int] = field(default_factory=dict)
    """Literal → what is added to the value there."""
    inserts: list[Site] = field(default_factory=list)
    value: Value = 0
    least: int = 1
    choices: tuple[Value, ...] | None = None
    aliases: set[str] = field(default_factory=set)


def find_parameters(text: str) -> Tunable:
    """The parameters of a Triton kernel file, in the order of their places.

    Raises
    ------
    SyntaxError
        The text is not Python.
    """
    return _Finder(text).tunable()


class _Finder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.module = Module(ast.parse(text))
        self.offsets = Offsets(text)
        self.by_node: dict[ast.Constant, _Draft] = {}
        self.inserted: list[_Draft] = []

    def tunable(self) -> Tunable:
        for launch in self.module.launches:
            self._sizes(launch)
            self._options(launch)
        for kernel in self.module.kernels.values():
            self._inner(kernel)
            self._signature(kernel)
            self._configuration(kernel)
            self._loops(kernel)
        for launch in self.module.launches:
            self._ties(launch)
        self._tunables()
        parameters = self._parameters([*dict.fromkeys(self.by_node.values()), *self.inserted])
        facts = self.module.kernels
        dots = any(fact.dots for fact in facts.values())
        return Tunable(self.text, parameters, tuple(_shapes(facts, parameters)), dots)

    # Arguments of launches

    def _sizes(self, launch: Launch) -> None:
        kernel = launch.kernel
        if kernel is None:
            return
        for name in kernel.constexprs:
            if name in launch.arguments:
                self._size(launch.arguments[name], name, kernel)
        if kernel.counts_programs:
            grid = self.module.resolve(launch.grid)
            parts = grid.elts if isinstance(grid, ast.Tuple) else [grid]
            if len(parts) == 1:
                for node in self.module.literals(parts[0]):
                    if number(node) > 1:
                        self._draft(node, "PROGRAMS", Role.COUNT)

    def _size(self, argument: ast.expr, name: str, kernel: KernelFacts) -> None:
        """The literals that reach a constexpr parameter by an argument."""
        for node in self.module.literals(argument):
            role = _role(node, name, kernel)
            if role is None:
                continue
            draft = self._draft(node, name, role)
            draft.aliases.add(f"{kernel.node.name}.{name}")
            if role is Role.TILE:
                draft.role = Role.TILE
            if name in kernel.dotted:
                draft.least = 16  # tl.dot takes no smaller operands

    def _option(self, argument: ast.expr, name: str, role: Role) -> None:
        for node in self.module.literals(argument):
            self._draft(node, name, role)

    def _signature(self, kernel: KernelFacts) -> None:
        """Constexprs that get their value inside the kernel, or from a global."""
        inside = set(kernel.constexprs) - {
            parameter.arg for parameter in all_parameters(kernel.node)
        }
        for child in ast.walk(kernel.node):
            if not (isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)):
                continue
            outside = child.id not in kernel.constexprs and self._is_global(child)
            if child.id in inside or outside:
                self._size(child, child.id, kernel)

    def _is_global(self, name: ast.Name) -> bool:
        """A module-level `X = tl.constexpr(…)`, or `X: tl.constexpr = …`."""
        for statement in self.module.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as value):
                    if target == name.id and callee(value) == "constexpr":
                        return True
                case ast.AnnAssign(target=ast.Name(id=target), annotation=annotation):
                    if target == name.id and "constexpr" in ast.unparse(annotation):
                        return True
        return False

    def _inner(self, kernel: KernelFacts) -> None:
        """`tl.arange(0, 256)`: equal literals of the kernel are one size."""
        nodes = [*ast.walk(kernel.node)]
        ends = {
            end.value
            for node in nodes
            if isinstance(node, ast.Call) and callee(node) == "arange" and len(node.args) == 2
            if isinstance(end := node.args[1], ast.Constant) and type(end.value) is int
        }
        integers = [n for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int]
        for value in sorted(end for end in ends if end >= _LEAST_INNER):
            draft = _Draft(f"{kernel.node.name}_{value}", Role.TILE, value=value)
            draft.least = 16 if kernel.dots else 1
            for integer in integers:
                if integer.value == value and integer not in self.by_node:
                    draft.nodes[integer] = 0
                    self.by_node[integer] = draft

    # Options and loops

    def _options(self, launch: Launch) -> None:
        for name, role in zip(OPTIONS, (Role.WARPS, Role.STAGES, Role.CTAS), strict=True):
            if name in launch.options:
                self._option(launch.options[name], name, role)
        kernel = launch.kernel
        if kernel is None or launch.autotuned or not launch.complete:
            return
        self._add_unset(launch.call, kernel, launch.options)

    def _add_unset(self, call: ast.Call, kernel: KernelFacts, options: Iterable[str]) -> None:
        """Options that are not given; Triton pipelines by itself only loops with a `tl.dot`."""
        candidates = [("num_warps", Role.WARPS, DEFAULT_WARPS)]
        if kernel.dots and kernel.loops:
            candidates.append(("num_stages", Role.STAGES, DEFAULT_STAGES))
        for name, role, value in candidates:
            if name not in options:
                draft = _Draft(name, role, inserts=[self.offsets.keyword(call, name)], value=value)
                draft.aliases.add(f"{kernel.node.name}.{name}")
                self.inserted.append(draft)

    def _configuration(self, kernel: KernelFacts) -> None:
        """The one configuration of an autotuned kernel."""
        for node in configs_of(kernel.node):
            configs = [child for child in ast.walk(node) if callee(child) == "Config"]
            if len(configs) != 1 or not isinstance(node, ast.List):
                continue
            (config,) = configs
            assert isinstance(config, ast.Call)
            options = {keyword.arg: keyword.value for keyword in config.keywords if keyword.arg}
            values = config.args[0] if config.args else options.get("kwargs")
            if isinstance(values, ast.Dict):
                for key, value in zip(values.keys, values.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        self._size(value, key.value, kernel)
            for name, role in (("num_warps", Role.WARPS), ("num_stages", Role.STAGES)):
                if name in options:
                    self._option(options[name], name, role)
            self._add_unset(config, kernel, options)

    def _loops(self, kernel: KernelFacts) -> None:
        """Loops whose loads Triton pipelines only when told: those without a `tl.dot`."""
        language = language_name(self.module.tree)
        sites: list[Site] = []
        for call in kernel.ranges:
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            if "num_stages" in keywords:
                self._option(keywords["num_stages"], "loop_stages", Role.LOOP_STAGES)
            elif not kernel.dots and call.args and language:
                sites.append(self.offsets.keyword(call, "num_stages"))
                if isinstance(call.func, ast.Name):
                    span = self.offsets.span(call.func)
                    sites.append(Site(*span, f"{language}.range", fixed=True))
        if sites:
            draft = _Draft("loop_stages", Role.LOOP_STAGES, inserts=sites, value=1)
            draft.aliases.add(f"{kernel.node.name}.loop_stages")
            self.inserted.append(draft)

    # What changes together

    def _ties(self, launch: Launch) -> None:
        sizes = {}
        for name, argument in launch.arguments.items():
            nodes = [
                literal for literal in self.module.literals(argument) if literal in self.by_node
            ]
            if len(nodes) == 1 and self.by_node[nodes[0]].role is Role.TILE:
                sizes[name] = nodes[0]
        for draft in dict.fromkeys(self.by_node.values()):
            if launch.kernel is not None and draft.name.startswith(f"{launch.kernel.node.name}_"):
                sizes[draft.name] = next(iter(draft.nodes))
        in_grid = ties.grid_repeats(self.module, launch)
        grid_nodes = {repeat.node for repeat in in_grid}
        around = launch.function
        elsewhere = (
            [] if around is None else [r for r in ties.repeats(around) if r.node not in grid_nodes]
        )
        for alone, repeats in ((True, in_grid), (False, elsewhere)):
            for repeat in repeats:
                for node in ties.tied_literals(launch, sizes, repeat, alone=alone):
                    draft = self._merge(node, repeat.node)
                    if repeat.added is not None:
                        draft.nodes[repeat.added] = repeat.plus

    def _merge(self, node: ast.Constant, other: ast.Constant) -> _Draft:
        draft = self.by_node[node]
        other_draft = self.by_node.get(other)
        if other_draft is None:
            draft.nodes[other] = 0
            self.by_node[other] = draft
        elif other_draft is not draft:
            draft.nodes |= other_draft.nodes
            draft.aliases |= other_draft.aliases
            draft.least = max(draft.least, other_draft.least)
            for literal in other_draft.nodes:
                self.by_node[literal] = draft
        return draft

    def _draft(self, node: ast.Constant, name: str, role: Role) -> _Draft:
        draft = self.by_node.get(node)
        if draft is None:
            draft = self.by_node[node] = _Draft(name, role, {node: 0}, value=number(node))
        return draft

    # The corpus's own declaration

    def _tunables(self) -> None:
        """`TUNABLES = {parameter of kernel_function: values}`."""
        declared = declared_tunables(self.module.tree)
        functions = [
            statement
            for statement in self.module.tree.body
            if isinstance(statement, ast.FunctionDef) and statement.name == "kernel_function"
        ]
        if not declared or "tune" in declared or len(functions) != 1:
            return  # a kernel with `tune` searches by itself
        for name, default in defaults(functions[0]):
            choices = declared.get(name)
            if not choices or not isinstance(default, ast.Constant):
                continue
            if not isinstance(default.value, int | float | str):
                continue
            draft = self.by_node.setdefault(default, _Draft(name, Role.CHOICE, {default: 0}))
            draft.name = name
            draft.value = default.value
            draft.choices = tuple(choices)
        # What is left out of the list is left alone: it depends on what is in it.
        self.by_node = {n: draft for n, draft in self.by_node.items() if draft.choices is not None}
        self.inserted = []

    def _parameters(self, drafts: Sequence[_Draft]) -> tuple[Parameter, ...]:
        """Parameters with names that are all different, in the order of their first places."""
        entries = []
        for draft in drafts:
            sites = [self.offsets.site(node, plus=plus) for node, plus in draft.nodes.items()]
            entries.append((sorted([*sites, *draft.inserts]), draft))
        entries.sort(key=lambda entry: (entry[0][0].start, entry[1].role))
        counts: dict[str, int] = {}
        parameters = []
        for sites, draft in entries:
            counts[draft.name] = counts.get(draft.name, 0) + 1
            count = counts[draft.name]
            parameters.append(
                Parameter(
                    name=draft.name if count == 1 else f"{draft.name}#{count}",
                    role=draft.role,
                    value=draft.value,
                    sites=tuple(sites),
                    least=draft.least,
                    choices=draft.choices,
                    aliases=frozenset(draft.aliases),
                )
            )
        return tuple(parameters)


def _role(node: ast.Constant, name: str, kernel: KernelFacts) -> Role | None:
    """What a literal that reaches a constexpr is; None where it is to be left alone."""
    value = number(node)
    power = value > 0 and value & (value - 1) == 0
    if name in kernel.extents:
        return Role.TILE if power else None
    if name in kernel.steps and not _COUNT.search(name):
        return Role.TILE if power and value > 1 else None
    if _MEANING.search(name):
        return None
    return Role.COUNT if (power and value > 1) or (value > 0 and _COUNT.search(name)) else None


def _shapes(
    kernels: dict[str, KernelFacts], parameters: Sequence[Parameter]
) -> Iterable[TileShape]:
    names = {alias: parameter.name for parameter in parameters for alias in parameter.aliases}
    for kernel, facts in kernels.items():
        for tile in sorted(facts.tiles, key=lambda tile: sorted(tile.names)):
            sides = frozenset(
                names[f"{kernel}.{name}"] for name in tile.names if f"{kernel}.{name}" in names
            )
            if sides:
                yield TileShape(
                    sides, tile.in_loop, tile.loaded, hidden=len(sides) < len(tile.names)
                )
