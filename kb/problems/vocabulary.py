"""PyTorch's operators as `kb/data/pytorch.yaml` lists them."""

import re
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kb.vocabulary import read_data

# Kinds of operators that multiply matrices.
PRODUCTS: Final = frozenset({"matmul", "conv", "conv_transpose", "attention", "recurrent"})
# Arguments that say what an operator does.
SETTING: Final = frozenset(
    {"reduction", "p", "approximate", "causal", "diagonal", "training", "alpha", "value"}
)
_RANK = re.compile(r"(?<=[a-z])[123](?=d$)")
# `torch.Tensor.add_` is `add` done in place.
_KEEP_UNDERSCORE = frozenset({"copy_", "requires_grad_", "uniform_", "normal_", "fill_", "zero_"})


HostArguments = dict[str, str | int | None]
"""Arguments of a kernel's host function that a problem settles."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A class of `torch.nn`: the operator it applies and its constructor's arguments in order."""

    op: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """An operator family: what it is called, and which kernels of a corpus are of it."""

    name: str
    ops: tuple[str, ...]
    """Values of a kernel's `op`, the best first."""
    techniques: tuple[str, ...] = ()
    """Slugs of what makes such a kernel fast, the chief one first."""
    unlike: str = ""
    """Set where those kernels do another operation: the sentence that says so."""
    unlike_for: dict[str, str] = field(default_factory=dict)
    """Attribute → the sentence that says so where a step has it."""
    training: dict[str, str] = field(default_factory=dict)
    """A kernel's `op` → what it lacks of a module in training mode."""
    prefer: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Attribute of a step → kernel slugs made for it."""
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Attribute → slugs of the kernels that alone do the operation with it."""
    fused: str = ""
    """The call of PyTorch that the kernels were measured beside, if a module may spell it out."""
    settles: dict[str, HostArguments] = field(default_factory=dict)
    """Attribute → arguments that it settles."""
    options: dict[str, HostArguments] = field(default_factory=dict)
    """Operator → arguments that make the kernels do it; `other` for one that they lack."""
    alone: HostArguments = field(default_factory=dict)
    """Arguments where the module does nothing but this operator."""
    usual: tuple[str, ...] = ()
    """Arguments that are settled where the module has 1 for them."""
    epilogue: dict[str, HostArguments] = field(default_factory=dict)
    """Operator that follows → arguments that make the kernels do it as well."""


@cache
def _table() -> Any:
    return read_data("pytorch.yaml")


@cache
def _kinds() -> dict[str, str]:
    return {name: kind for kind, names in _table()["kinds"].items() for name in names}


def canonical(name: str) -> str:
    """Return the one name of an operator, its in-place and other spellings resolved."""
    if name.endswith("_") and not name.startswith("_") and name not in _KEEP_UNDERSCORE:
        name = name[:-1]
    return str(_table()["aliases"].get(name, name))


def kind_of(name: str) -> str | None:
    """Return the kind of a canonical operator, such as `reduce`; None for an unknown one."""
    return _kinds().get(name)


def simpler(name: str) -> tuple[str, ...]:
    """Return the operators that an operator is made of, in order: itself if it is simple."""
    return tuple(_table()["simpler"].get(name, (name,)))


def arguments_of(name: str) -> tuple[str, ...]:
    """Return the names of an operator's arguments after its first tensor, in order."""
    return tuple(_table()["arguments"].get(name, ()))


@cache
def layer_kind(name: str) -> LayerKind | None:
    """Return what a class of `torch.nn` does, by its name; None for an unknown one."""
    rank = _RANK.search(name)
    layers = _table()["layers"]
    entry = layers.get(name) or (layers.get(_RANK.sub("{}", name)) if rank else None)
    if entry is None:
        return None
    return LayerKind(str(entry["op"]).format(rank[0] if rank else ""), tuple(entry["arguments"]))


@cache
def _families() -> dict[str, Family]:
    families: dict[str, Family] = {}
    for name, entry in _table()["families"].items():
        fields = {key: _freeze(value) for key, value in entry.items() if key != "names"}
        families.update(dict.fromkeys(entry["names"], Family(name, **fields)))
    return families


def _freeze(value: Any) -> Any:
    """A value of the table with tuples in place of its lists."""
    if isinstance(value, dict):
        return {key: _freeze(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def family_of(name: str) -> Family | None:
    """Return the family of a canonical operator; None where the vocabulary has none."""
    return _families().get(name)


@cache
def has_family(op: str) -> bool:
    """Whether kernels of this `op` belong to a family."""
    return any(op in family.ops for family in _families().values())


def suits(slug: str, special: Set[str]) -> bool:
    """Whether a kernel or technique is one for a problem with these attributes."""
    table = _table()
    needed = table["only"].get(slug)
    return special.isdisjoint(table["unless"].get(slug, ())) and (
        needed is None or not special.isdisjoint(needed)
    )
