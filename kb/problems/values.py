"""What a module's expressions stand for while it is read: tensors by shape, layers, numbers."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

Shape = tuple[int | None, ...]
"""Lengths; None for one that the file does not state."""

DTYPE_BYTES: Final = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4, "double": 8,
    "int64": 8, "long": 8, "int32": 4, "int": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "complex64": 8,
}  # fmt: skip
_ALIASES: Final = {"half": "float16", "float": "float32", "double": "float64", "long": "int64",
            "int": "int32"}  # fmt: skip
# Elements and operations that are still numbers to count with; more is no problem's.
_MAX_COUNT: Final = 10**30


def dtype_name(value: Any) -> str | None:
    """Return the name of a dtype value such as `torch.half`, in PyTorch's long form."""
    if isinstance(value, Library):
        name = value.path.rpartition(".")[2]
        return _ALIASES.get(name, name) if name in DTYPE_BYTES else None
    return {bool: "bool", int: "int64", float: "float32"}.get(value) if isinstance(value, type) \
        else None  # fmt: skip


def product(lengths: Iterable[int | None]) -> int | None:
    """Return the product of lengths; None if one is unknown, or if no machine could hold it."""
    total = 1
    for length in lengths:
        if length is None:
            return None
        total *= length
        if total > _MAX_COUNT:
            return None
    return total


class Unknown:
    """A value that the file does not settle."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN: Final = Unknown()


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor: what is known of it, and which operator made it."""

    shape: Shape | None
    """None where not even the rank is known."""
    dtype: str = "float32"
    origin: str = "op"
    """`input`, `parameter`, `constant`, or `op`."""
    made_by: "Operator | None" = None
    number: int = field(default_factory=count().__next__)
    """Of the memory: a view has the number of what it is a view of."""
    memory: int | None = None
    """Elements of all of that memory: fewer than those of an expanded view."""
    part: tuple[str, ...] = ()
    """What was taken of the memory, step by step; a view of the same part holds the same."""
    stored: "list[Tensor]" = field(default_factory=list, repr=False)
    """What was assigned to parts of that memory; its views share the list."""

    def __post_init__(self) -> None:
        self.memory = self.elements if self.memory is None else self.memory

    @property
    def elements(self) -> int | None:
        """Number of elements; None if a length is unknown."""
        return None if self.shape is None else product(self.shape)

    @property
    def bytes(self) -> int | None:
        """Size in bytes; None if unknown."""
        elements = self.elements
        return None if elements is None else elements * DTYPE_BYTES.get(self.dtype, 4)

    def subview(self, shape: Shape | None, how: str) -> "Tensor":
        """Return a view of some of the elements; of all of them where there are as many."""
        view = replace(self, shape=shape)
        if view.elements is None or view.elements != self.elements:
            view.part = (*self.part, how)
        return view


@dataclass(eq=False, slots=True)
class Operator:
    """One operation of the module, in the order in which it is done."""

    name: str
    """Canonical name in PyTorch, such as `conv2d`."""
    kind: str
    """As in `kb/data/pytorch.yaml`, or `unknown`."""
    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """What the shape rules found: `dim`, `window`, `groups`, `flops`, …"""

    @property
    def flops(self) -> int | None:
        """Floating-point operations; None if a length is unknown."""
        flops_: int | None = self.facts.get("flops")
        return flops_

    def add_output(self, shape: Shape | None, dtype: str) -> None:
        """Add a result of this operator."""
        self.outputs.append(Tensor(shape, dtype, "op", self))


class Several(list[Any]):
    """Items of a number that is not known, as one that stands for each."""


@dataclass(eq=False, slots=True)
class Library:
    """Something of a library, by its dotted path: `torch.nn.functional.relu`."""

    path: str


@dataclass(eq=False, slots=True)
class Layer:
    """An instance of a class of `torch.nn`."""

    name: str
    arguments: dict[str, Any]
    parameters: list[Tensor] = field(default_factory=list)

    def share(self, name: str, tensor: Tensor) -> None:
        """Take another layer's weight or bias for its own."""
        place = {"weight": 0, "bias": 1}.get(name, len(self.parameters))
        self.parameters[place : place + 1] = [tensor][: len(self.parameters) - place]


@dataclass(eq=False, slots=True)
class Container:
    """`nn.Sequential`, `nn.ModuleList` or `nn.ModuleDict`."""

    name: str
    items: list[Any]
    keys: list[Any] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Function:
    """A function of the file, with the names it sees and what it is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: "Scope"
    bound: Any = None


@dataclass(eq=False, slots=True)
class Class:
    """A class of the file."""

    node: ast.ClassDef
    bases: list[Any]
    names: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a class of the file."""

    cls: Class
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Method:
    """A method of a tensor or of a plain value."""

    owner: Any
    name: str


@dataclass(eq=False, slots=True)
class Scope:
    """Names and what they stand for."""

    names: dict[str, Any]
    outer: "Scope | None" = None

    def get(self, name: str) -> Any:
        """Return what a name stands for; `UNKNOWN` if nothing is bound to it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return UNKNOWN


def tensors_in(values: Any, depth: int = 3) -> list[Tensor]:
    """Return the tensors among values, those within lists, tuples and dictionaries included."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if depth and isinstance(values, list | tuple):
        return [tensor for value in values for tensor in tensors_in(value, depth - 1)]
    return []
