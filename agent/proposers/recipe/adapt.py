"""Writes a self-contained kernel file for a problem from kernels of the knowledge base."""

import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.proposers.recipe import beside, fuse
from agent.proposers.recipe.carry import Recipe, Signature, identifier, inlined_source, signature
from agent.proposers.recipe.core import PLACEHOLDER, Core, plain_name
from agent.proposers.recipe.operands import argument, base_of
from judge.graph import Graph, operands, reference
from kb.errors import KbError

_RESERVED: Final = frozenset({"torch", "triton", "tl", "kernel_function"})


class CannotAdaptError(KbError):
    """A graph cannot be written out as a kernel file. The message says why."""

    status = 422


@dataclass(frozen=True)
class AdaptedFile:
    """A kernel file."""

    source: str
    beside: tuple[str, ...]
    """Operators that PyTorch runs beside the kernels."""
    fused: tuple[str, ...] = ()
    """Elementwise operators that a kernel written for them computes."""


def fits(core: Core, kernel: Recipe) -> str | None:
    """Why a kernel cannot take a core's place by its signature; None where it can."""
    sig = signature(kernel)
    if sig is None:
        return "it has no kernel_function of the corpus's form"
    if missing := set(sig.required) - set(core.arguments):
        return f"it needs {', '.join(sorted(missing))}"
    accepted = {*sig.required, *sig.optional}
    if unknown := set(core.arguments) - accepted - core.optional:
        return f"it does not take {', '.join(sorted(unknown))}"
    words = set(re.findall(r"\w+", sig.reference))
    if absent := core.words - words:
        return f"it does not compute {', '.join(sorted(absent))}"
    # A kernel with an activation of its own computes something else than one without.
    if core.op == "matmul" and (extra := (words & fuse.ELEMENTWISE) - core.words):
        return f"it computes {', '.join(sorted(extra))} as well"
    return None


def adapt(graph: Graph, pairs: Sequence[tuple[Core, Recipe]], title: str) -> AdaptedFile:
    """Write the kernel file in which each core's work is done by its kernel.

    `kernel_function` takes the problem's inputs in their order, then the model's tensors by their
    state-dict names, then the kernels' tunable parameters with their defaults.

    Raises
    ------
    CannotAdaptError
        Something beside the cores is no elementwise operator or view, or a kernel does not fit.
    """
    return _Writer(graph, pairs, title).write()


class _Writer:
    def __init__(self, graph: Graph, pairs: Sequence[tuple[Core, Recipe]], title: str) -> None:
        self.graph = graph
        self.pairs = pairs
        self.title = title
        self.alone = len({kernel.slug for _, kernel in pairs}) == 1
        self.signatures: dict[str, Signature] = {}
        for core, kernel in pairs:
            sig, why = signature(kernel), fits(core, kernel)
            if sig is None or why is not None:
                raise CannotAdaptError(f"{kernel.slug} does not fit: {why}")
            self.signatures[kernel.slug] = sig
        self.tunables, self.choices = self._tunables()
        self.names = self._names()
        self.core_of = {
            name: index for index, (core, _) in enumerate(pairs) for name in core.results
        }
        self.written_values: set[str] = set()
        self.written_cores: set[int] = set()
        self.body: list[str] = []
        self.beside: list[str] = []
        self.biases = {name: core.bias for core, _ in pairs if core.bias for name in core.results}
        """Results that still lack their bias, and what it is."""
        self.fixed_shape = graph.sized or beside.names_a_size(graph)
        """Whether sizes of the problem's inputs are in the file."""
        self.core_nodes = frozenset(name for core, _ in pairs for name in core.nodes)
        self.fused: list[str] = []
        self.fused_names: list[str] = []

    def write(self) -> AdaptedFile:
        sampled = [name for name in self.graph.computed if self._base(name) in beside.SAMPLED]
        for name in (*sampled, *self.graph.outputs):
            self._write_value(name)
        results = ", ".join(self.names[name] for name in self.graph.outputs)
        texts = []
        for kernel in {kernel.slug: kernel for _, kernel in self.pairs}.values():
            source = "" if kernel.own else f"From the knowledge base: {kernel.slug}. "
            citation = textwrap.fill(
                source + kernel.citation, 96,
                initial_indent="# ", subsequent_indent="# ",
            )  # fmt: skip
            texts.append(f"{citation}\n\n{inlined_source(kernel, alone=self.alone)}")
        texts += [text for core, _ in self.pairs for text in core.functions]
        texts += self.fused
        texts += fuse.helpers("\n".join(texts))
        if not any("import triton.language as tl" in text for text in texts):
            texts.insert(0, "import triton\nimport triton.language as tl")
        within = [name for core, _ in self.pairs for name in core.fused]
        parts = [f'"""{self._summary(within)}"""', "import torch", *texts]
        if not self.alone and self.choices:
            listed = "".join(
                f"    {name!r}: {choice!r},\n" for name, choice in self.choices.items()
            )
            parts.append(f"TUNABLES = {{\n{listed}}}")
        parameter_lines = "".join(f"    {parameter},\n" for parameter in self._parameters())
        guards = beside.one_shape(self.graph, self.names) if self.fixed_shape else []
        body = "".join(f"    {line}\n" for line in [*guards, *self.body])
        parts.append(f"def kernel_function(\n{parameter_lines}):\n{body}    return {results}")
        text = "\n\n\n".join(parts) + "\n"
        fused = tuple(dict.fromkeys([*self.fused_names, *within]))
        return AdaptedFile(text, tuple(dict.fromkeys(self.beside)), fused)

    def _summary(self, within: Sequence[str]) -> str:
        """The file's docstring; `within` is what kernels of the knowledge base compute as well."""
        slugs = ", ".join(dict.fromkeys(kernel.slug for _, kernel in self.pairs))
        paragraphs = [f"{self.title} with {slugs}." if slugs else f"{self.title}, elementwise."]
        triangles = [self.names[triangle] for core, _ in self.pairs for triangle in core.triangles]
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
        names: dict[str, dict[str, tuple[str, str]]] = {}
        choices: dict[str, list[Any]] = {}
        for slug, sig in self.signatures.items():
            suffix = "" if self.alone else f"_{identifier(slug)}"
            names[slug] = {name: (f"{name}{suffix}", text) for name, text in sig.tunables.items()}
            choices |= {f"{name}{suffix}": sig.choices[name] for name in sig.tunables}
        return names, choices

    def _names(self) -> dict[str, str]:
        """Value of the graph → its Python name; inputs and tensors first."""
        reserved = _RESERVED | set(self.choices)
        names: dict[str, str] = {}
        for node in self.graph.nodes.values():
            if node.tensor is not None:
                flat = node.tensor.replace(".", "_")
                if not flat.isidentifier() or keyword.iskeyword(flat) or flat in reserved:
                    raise CannotAdaptError(f"the model's tensor '{node.tensor}' has no usable name")
                names[node.name] = flat
                reserved = reserved | {flat}
        for node in self.graph.nodes.values():
            if node.input is not None:
                clean = node.name.isidentifier() and not keyword.iskeyword(node.name)
                name = node.name if clean and node.name not in reserved else f"given_{node.input}"
                names[node.name] = name
                reserved = reserved | {name}
        for name in self.graph.nodes:
            names.setdefault(name, f"v_{name}")
        return names

    def _parameters(self) -> list[str]:
        nodes = self.graph.nodes.values()
        reads = {operand for name in self.graph.computed for operand in operands(self.graph[name])}
        for core, _ in self.pairs:
            reads |= core.reads
        inputs = sorted((n for n in nodes if n.input is not None), key=lambda n: n.input or 0)
        # A tensor of the model that nothing needs would only be one more name to bind.
        tensors = [n for n in nodes if n.tensor is not None and n.name in reads]
        arguments = [self.names[input_.name] for input_ in (*inputs, *tensors)]
        tuned = dict(pair for tunable in self.tunables.values() for pair in tunable.values())
        return [*arguments, *(f"{name}={default}" for name, default in tuned.items())]

    # The body

    def _write_value(self, name: str) -> None:
        """Write what computes a value, after what it needs."""
        node = self.graph[name]
        if name in self.written_values or node.op in ("input", "tensor"):
            return
        self.written_values.add(name)
        if name in self.core_of:
            self._write_core(self.core_of[name])
            return
        if fuse.expressible(self.graph, name) and self._write_chain(name):
            return
        for operand in operands(node):
            self._write_value(operand)
        self.body.append(f"{self.names[name]} = {self._pytorch_call(name)}")

    def _write_chain(self, root: str) -> bool:
        """Write a chain of elementwise operators as one kernel, if it can be."""
        steps = fuse.chain(self.graph, root, self.core_nodes)
        inputs = fuse.operands_of(self.graph, steps)
        shape = self.graph.shape(root)
        shapes = [self.graph.shape(name) for name in inputs]
        if shape not in shapes or any(fuse.trailing_dims(own, shape) is None for own in shapes):
            return False
        # A product that only this chain reads gets its bias here.
        biases = {
            name: bias
            for name, bias in self.biases.items()
            if name in inputs
            and set(self.graph.users[name]) <= set(steps)
            and name not in self.graph.outputs
            and self.graph.shape(name) == shape
        }
        for name in biases:
            del self.biases[name]
        number = len(self.fused)
        text, inputs = fuse.kernel_text(self.graph, steps, number, biases)
        # Before the operands, which may be chains of their own.
        self.fused.append(text)
        for name in inputs:
            self._write_value(name)
        call = f"fused_{number}({', '.join(self.names[name] for name in inputs)})"
        self.body.append(f"{self.names[root]} = {call}")
        self.fused_names += ["bias"] * bool(biases)
        self.fused_names += [plain_name(self.graph[step].op) for step in steps]
        self.written_values |= set(steps)
        return True

    def _write_core(self, index: int) -> None:
        if index in self.written_cores:
            return
        self.written_cores.add(index)
        core, kernel = self.pairs[index]
        for name in sorted(core.reads):
            self._write_value(name)
        sig = self.signatures[kernel.slug]
        args = [
            f"{name}={self._substitute(text)}"
            for name, text in core.arguments.items()
            if name in sig.required or name in sig.optional
        ]
        args += [f"{name}={alias}" for name, (alias, _) in self.tunables[kernel.slug].items()]
        returned = [f"r{index}_{i}" for i in range(core.returns)]
        self.body.append(f"{', '.join(returned)} = {identifier(kernel.slug)}({', '.join(args)})")
        marks = {"r": returned[0]} | {f"r{i}": name for i, name in enumerate(returned)}
        for name, text in core.results.items():
            if name in self.graph.outputs or set(self.graph.users[name]) - core.nodes:
                self.body.append(f"{self.names[name]} = {self._substitute(text, marks)}")
                self.written_values.add(name)
                if name in self.biases:
                    bias = self.names[self.biases[name]]
                    self.body.append(f"{self.names[name]} = {self.names[name]} + {bias}")
                    self.beside.append("add")

    def _substitute(self, text: str, marks: Mapping[str, str] | None = None) -> str:
        """An expression with the names of this file. Values of the graph come first."""
        names = {**self.names, **(marks or {})}
        return PLACEHOLDER.sub(lambda match: names[match[1]], text)

    def _pytorch_call(self, name: str) -> str:
        """An operator beside the cores, as a call of PyTorch's."""
        node = self.graph[name]
        if node.op == "getitem":
            return f"{self._literal(node.args[0])}[{self._literal(node.args[1])}]"
        if node.op == "constant" and node.args[0] is not None:
            dtype = f"dtype=torch.{self.graph.dtype(name)}"
            return f"torch.tensor({self._literal(node.args[0])}, {dtype}, device={self._device()})"
        base = self._base(name)
        if base in ("split", "chunk") and reference(node.args[0]) is not None:
            if len({tuple(tensor.shape) for tensor in node.tensors}) == 1:
                dim = argument(node, 2, 0)
                return f"{self._literal(node.args[0])}.chunk({len(node.tensors)}, {dim})"
            self.fixed_shape = True
        sized = base in beside.SIZED
        sizes = beside.view_sizes(self.graph, name, self.names) if sized else None
        if base in beside.RANDOM or not node.op.startswith("aten.") or (sized and sizes is None):
            unsupported = node.op.removeprefix("aten.")
            raise CannotAdaptError(f"{unsupported} cannot be called beside the kernel")
        if base not in beside.VIEWS and not sized:
            self.beside.append(plain_name(node.op))
        args = self._arguments(name)
        if sizes is not None:
            args[1], fixed_shape = sizes
            self.fixed_shape = self.fixed_shape or fixed_shape
            if not node.op.startswith("aten.expand."):
                # A kernel's result may lie in memory in another way than PyTorch's.
                return f"{args[0]}.reshape({args[1]})"
        elif base == "slice":
            self.fixed_shape = self.fixed_shape or beside.bounds_are_fixed(self.graph, name)
        elif base in beside.CREATED | beside.SAMPLED:
            fixed_shape = True
            if base in beside.SAMPLED:
                args[0], fixed_shape = beside.sampled_sizes(self.graph, name, self.names)
            self.fixed_shape = self.fixed_shape or fixed_shape
            args += [f"device={self._device()}"]
        # Where tensors live is the caller's choice.
        kwargs = {key: value for key, value in node.kwargs.items() if key != "device"}
        if base in beside.SAMPLED:
            kwargs = {"dtype": {"torch": self.graph.dtype(name)}}
        args += [f"{key}={self._literal(value)}" for key, value in kwargs.items()]
        return f"torch.ops.{node.op}({', '.join(args)})"

    def _arguments(self, name: str) -> list[str]:
        """An operator's arguments; a number that is put somewhere has to be a tensor."""
        node = self.graph[name]
        args = [self._literal(arg) for arg in node.args]
        if self._base(name) == "index_put" and reference(node.args[2]) is None:
            made = f"dtype=torch.{self.graph.dtype(name)}, device={self._device()}"
            args[2] = f"torch.tensor({args[2]}, {made})"
        return args

    def _base(self, name: str) -> str:
        """An operator's name, without its namespace and its overload."""
        return base_of(self.graph[name].op)

    def _device(self) -> str:
        nodes = self.graph.nodes.values()
        name = next((n.name for n in nodes if n.input is not None and n.tensors), None)
        if name is None:
            raise CannotAdaptError("the problem has no tensor among its inputs")
        return f"{self.names[name]}.device"

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
            raise CannotAdaptError(f"an operator has the unsupported argument {value}")
        return repr(value)
