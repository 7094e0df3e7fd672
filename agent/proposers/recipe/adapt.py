"""Writes a self-contained kernel file for a problem from kernels of the knowledge base."""

import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.proposers.recipe import beside, fuse
from agent.proposers.recipe.carry import Signature, Stock, carried, identifier, signature
from agent.proposers.recipe.core import NAMED, Core, plain_name
from agent.proposers.recipe.operands import argument
from judge.graph import Graph, operands, reference
from judge.worker import messages as m
from kb.errors import KbError

_RESERVED: Final = frozenset({"torch", "triton", "tl", "kernel_function"})


class CannotAdaptError(KbError):
    """A graph cannot be written out as a kernel file. The message says why."""

    status = 422


@dataclass(frozen=True)
class Adapted:
    """A kernel file."""

    source: str
    beside: tuple[str, ...]
    """Operators that PyTorch runs beside the kernels."""
    fused: tuple[str, ...] = ()
    """Elementwise operators that a kernel written for them computes."""


def fits(core: Core, stock: Stock) -> str | None:
    """Why a kernel cannot take a core's place by its signature; None where it can."""
    takes = signature(stock)
    if takes is None:
        return "it has no kernel_function of the corpus's form"
    if missing := set(takes.required) - set(core.arguments):
        return f"it needs {', '.join(sorted(missing))}"
    known = {*takes.required, *takes.optional}
    if unknown := set(core.arguments) - known - core.optional:
        return f"it takes no {', '.join(sorted(unknown))}"
    words = set(re.findall(r"\w+", takes.reference))
    if absent := core.words - words:
        return f"it computes no {', '.join(sorted(absent))}"
    # A kernel with an activation of its own computes something else than one without.
    if core.op == "matmul" and (extra := (words & fuse.ELEMENTWISE) - core.words):
        return f"it computes {', '.join(sorted(extra))} as well"
    return None


def adapt(graph: Graph, chosen: Sequence[tuple[Core, Stock]], title: str) -> Adapted:
    """Write the kernel file in which each core's work is done by its kernel.

    `kernel_function` takes the problem's inputs in their order, then the model's tensors by their
    state-dict names, then the kernels' tunable parameters with their defaults.

    Raises
    ------
    CannotAdaptError
        Something beside the cores is no elementwise operator or view, or a kernel does not fit.
    """
    return _Writer(graph, chosen, title).written()


class _Writer:
    def __init__(self, graph: Graph, chosen: Sequence[tuple[Core, Stock]], title: str) -> None:
        self.graph = graph
        self.chosen = chosen
        self.title = title
        self.alone = len({stock.slug for _, stock in chosen}) == 1
        self.told: dict[str, Signature] = {}
        for core, stock in chosen:
            told, why = signature(stock), fits(core, stock)
            if told is None or why is not None:
                raise CannotAdaptError(f"{stock.slug} does not fit: {why}")
            self.told[stock.slug] = told
        self.tunables, self.choices = self._tunables()
        self.names = self._names()
        self.core_of = {
            name: place for place, (core, _) in enumerate(chosen) for name in core.results
        }
        self.done: set[str] = set()
        self.cores_done: set[int] = set()
        self.body: list[str] = []
        self.beside: list[str] = []
        self.biases = {name: core.bias for core, _ in chosen if core.bias for name in core.results}
        """Results that still lack their bias, and what it is."""
        self.fixed = graph.sized
        """Whether sizes of the problem's inputs are in the file."""
        self.inside = frozenset(name for core, _ in chosen for name in core.nodes)
        self.fused: list[str] = []
        self.fused_names: list[str] = []

    def written(self) -> Adapted:
        drawn = [name for name in self.graph.computed if self._base(name) in beside.DRAWN]
        for name in (*drawn, *self.graph.outputs):
            self._value(name)
        results = ", ".join(self.names[name] for name in self.graph.outputs)
        texts = []
        for stock in {stock.slug: stock for _, stock in self.chosen}.values():
            cited = textwrap.fill(
                f"From the knowledge base: {stock.slug}. {stock.citation}", 96,
                initial_indent="# ", subsequent_indent="# ",
            )  # fmt: skip
            texts.append(f"{cited}\n\n{carried(stock, alone=self.alone)}")
        texts += [text for core, _ in self.chosen for text in core.functions]
        texts += self.fused
        texts += fuse.helpers("\n".join(texts))
        if not any("import triton.language as tl" in each for each in texts):
            texts.insert(0, "import triton\nimport triton.language as tl")
        within = [name for core, _ in self.chosen for name in core.fused]
        parts = [f'"""{self._summary(within)}"""', "import torch", *texts]
        if not self.alone and self.choices:
            listed = "".join(
                f"    {name!r}: {choice!r},\n" for name, choice in self.choices.items()
            )
            parts.append(f"TUNABLES = {{\n{listed}}}")
        signature_ = "".join(f"    {parameter},\n" for parameter in self._parameters())
        guards = beside.one_shape(self.graph, self.names) if self.fixed else []
        body = "".join(f"    {line}\n" for line in [*guards, *self.body])
        parts.append(f"def kernel_function(\n{signature_}):\n{body}    return {results}")
        text = "\n\n\n".join(parts) + "\n"
        fused = tuple(dict.fromkeys([*self.fused_names, *within]))
        return Adapted(text, tuple(dict.fromkeys(self.beside)), fused)

    def _summary(self, within: Sequence[str]) -> str:
        """The file's docstring; `within` is what kernels of the knowledge base compute as well."""
        slugs = ", ".join(dict.fromkeys(stock.slug for _, stock in self.chosen))
        paragraphs = [f"{self.title} with {slugs}." if slugs else f"{self.title}, elementwise."]
        triangles = [self.names[triangle] for core, _ in self.chosen for triangle in core.triangles]
        for what, names in (
            ("The kernels compute as well", within),
            ("A kernel written for them computes", self.fused_names),
            ("PyTorch computes", self.beside),
            ("Not updated", self.graph.updates),
            ("Zero outside a triangle, as the problem makes them", triangles),
        ):
            if names:
                paragraphs.append(f"{what}: {', '.join(dict.fromkeys(names))}.")
        text = "\n\n".join(textwrap.fill(paragraph, 96) for paragraph in paragraphs)
        return text.replace("\\", "/").replace('"', "'")

    # The signature

    def _tunables(self) -> tuple[dict[str, dict[str, tuple[str, str]]], dict[str, list[Any]]]:
        """By slug: the kernel's parameter → its name here and its default; and all choices."""
        found: dict[str, dict[str, tuple[str, str]]] = {}
        choices: dict[str, list[Any]] = {}
        for slug, told in self.told.items():
            suffix = "" if self.alone else f"_{identifier(slug)}"
            found[slug] = {name: (f"{name}{suffix}", text) for name, text in told.tunables.items()}
            choices |= {f"{name}{suffix}": told.choices[name] for name in told.tunables}
        return found, choices

    def _names(self) -> dict[str, str]:
        """Value of the graph → its Python name; inputs and tensors first."""
        taken = _RESERVED | set(self.choices)
        names: dict[str, str] = {}
        for node in self.graph.nodes.values():
            if node.tensor is not None:
                flat = node.tensor.replace(".", "_")
                if not flat.isidentifier() or keyword.iskeyword(flat) or flat in taken:
                    raise CannotAdaptError(f"the model's tensor '{node.tensor}' has no usable name")
                names[node.name] = flat
                taken = taken | {flat}
        for node in self.graph.nodes.values():
            if node.input is not None:
                clean = node.name.isidentifier() and not keyword.iskeyword(node.name)
                name = node.name if clean and node.name not in taken else f"given_{node.input}"
                names[node.name] = name
                taken = taken | {name}
        for name in self.graph.nodes:
            names.setdefault(name, f"v_{name}")
        return names

    def _parameters(self) -> list[str]:
        nodes = self.graph.nodes.values()
        needed = {operand for name in self.graph.computed for operand in operands(self.graph[name])}
        for core, _ in self.chosen:
            needed |= core.reads
        inputs = sorted((n for n in nodes if n.input is not None), key=lambda n: n.input or 0)
        # A tensor of the model that nothing needs would only be one more name to bind.
        tensors = [n for n in nodes if n.tensor is not None and n.name in needed]
        given = [self.names[input_.name] for input_ in (*inputs, *tensors)]
        tuned = dict(pair for tunable in self.tunables.values() for pair in tunable.values())
        return [*given, *(f"{name}={default}" for name, default in tuned.items())]

    # The body

    def _value(self, name: str) -> None:
        """Write what computes a value, after what it needs."""
        node = self.graph[name]
        if name in self.done or node.op in ("input", "tensor"):
            return
        self.done.add(name)
        if name in self.core_of:
            self._core(self.core_of[name])
            return
        if fuse.expressible(self.graph, name) and self._chained(name):
            return
        for operand in operands(node):
            self._value(operand)
        self.body.append(f"{self.names[name]} = {self._replayed(name)}")

    def _chained(self, root: str) -> bool:
        """Write a chain of elementwise operators as one kernel, if it can be."""
        steps = fuse.chain(self.graph, root, self.inside)
        given = fuse.operands_of(self.graph, steps)
        shape = self.graph.shape(root)
        shapes = [self.graph.shape(each) for each in given]
        if shape not in shapes or any(fuse.trailing(each, shape) is None for each in shapes):
            return False
        # A product that only this chain reads gets its bias here.
        biases = {
            name: bias
            for name, bias in self.biases.items()
            if name in given
            and set(self.graph.users[name]) <= set(steps)
            and name not in self.graph.outputs
            and self.graph.shape(name) == shape
        }
        for name in biases:
            del self.biases[name]
        number = len(self.fused)
        text, given = fuse.kernel_text(self.graph, steps, number, biases)
        # Before the operands, which may be chains of their own.
        self.fused.append(text)
        for each in given:
            self._value(each)
        call = f"fused_{number}({', '.join(self.names[each] for each in given)})"
        self.body.append(f"{self.names[root]} = {call}")
        self.fused_names += ["bias"] * bool(biases)
        self.fused_names += [plain_name(self.graph[step].op) for step in steps]
        self.done |= set(steps)
        return True

    def _core(self, place: int) -> None:
        if place in self.cores_done:
            return
        self.cores_done.add(place)
        core, stock = self.chosen[place]
        for read in sorted(core.reads):
            self._value(read)
        told = self.told[stock.slug]
        given = [
            f"{name}={self._filled(text)}"
            for name, text in core.arguments.items()
            if name in told.required or name in told.optional
        ]
        given += [f"{name}={here}" for name, (here, _) in self.tunables[stock.slug].items()]
        returned = [f"r{place}_{i}" for i in range(core.returns)]
        self.body.append(f"{', '.join(returned)} = {identifier(stock.slug)}({', '.join(given)})")
        marks = {"r": returned[0]} | {f"r{i}": name for i, name in enumerate(returned)}
        for name, text in core.results.items():
            if name in self.graph.outputs or set(self.graph.users[name]) - core.nodes:
                self.body.append(f"{self.names[name]} = {self._filled(text, marks)}")
                self.done.add(name)
                if name in self.biases:
                    bias = self.names[self.biases[name]]
                    self.body.append(f"{self.names[name]} = {self.names[name]} + {bias}")
                    self.beside.append("add")

    def _filled(self, text: str, marks: Mapping[str, str] | None = None) -> str:
        """An expression with the names of this file. Values of the graph come first."""
        known = {**self.names, **(marks or {})}
        return NAMED.sub(lambda found: known[found[1]], text)

    def _replayed(self, name: str) -> str:
        """An operator beside the cores, as a call of PyTorch's."""
        node = self.graph[name]
        if node.op == "getitem":
            return f"{self._literal(node.args[0])}[{self._literal(node.args[1])}]"
        base = self._base(name)
        if base in ("split", "chunk") and reference(node.args[0]) is not None:
            return self._chunked(node)
        sized = base in beside.SIZED
        sizes = beside.view_sizes(self.graph, name, self.names) if sized else None
        if base in beside.RANDOM or not node.op.startswith("aten.") or (sized and sizes is None):
            raise CannotAdaptError(f"there is {node.op.removeprefix('aten.')} beside the kernel")
        if base not in beside.VIEWS and not sized:
            self.beside.append(plain_name(node.op))
        args = [self._literal(arg) for arg in node.args]
        if sizes is not None:
            args[1], fixed = sizes
            self.fixed = self.fixed or fixed
            if not node.op.startswith("aten.expand."):
                # A kernel's result may lie in memory in another way than PyTorch's.
                return f"{args[0]}.reshape({args[1]})"
        elif base == "slice":
            self.fixed = self.fixed or beside.bounded(self.graph, name)
        elif base in beside.MADE | beside.DRAWN:
            fixed = True
            if base in beside.DRAWN:
                args[0], fixed = beside.drawn_sizes(self.graph, name, self.names)
            self.fixed = self.fixed or fixed
            args += [f"device={self._device()}"]
        # Where tensors live is the caller's choice.
        given = {key: value for key, value in node.kwargs.items() if key != "device"}
        if base in beside.DRAWN:
            given = {"dtype": {"torch": self.graph.dtype(name)}}
        args += [f"{key}={self._literal(value)}" for key, value in given.items()]
        return f"torch.ops.{node.op}({', '.join(args)})"

    def _base(self, name: str) -> str:
        """An operator's name, without its namespace and its overload."""
        return self.graph[name].op.removeprefix("aten.").partition(".")[0]

    def _device(self) -> str:
        nodes = self.graph.nodes.values()
        given = next((n.name for n in nodes if n.input is not None and n.tensors), None)
        if given is None:
            raise CannotAdaptError("the problem has no tensor among its inputs")
        return f"{self.names[given]}.device"

    def _chunked(self, node: m.GraphNode) -> str:
        shapes = {tuple(tensor.shape) for tensor in node.tensors}
        if len(shapes) != 1:
            raise CannotAdaptError("there is a split into unequal parts beside the kernel")
        return f"{self._literal(node.args[0])}.chunk({len(node.tensors)}, {argument(node, 2, 0)})"

    def _literal(self, value: Any) -> str:
        name = reference(value)
        if name is not None:
            return self.names[name]
        if isinstance(value, list):
            return f"[{', '.join(map(self._literal, value))}]"
        if isinstance(value, dict):
            if "torch" in value:
                return f"torch.{value['torch']}"
            if "float" in value:
                return f"float({value['float']!r})"
            raise CannotAdaptError(f"an operator has the argument {value}")
        return repr(value)
