"""Patterns over the operators of a graph: what they match, and which values they use up.

A tuple of patterns is the first of them that matches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from judge.graph import Graph, reference

T = TypeVar("T")

# Operators whose first two operands may change places.
_COMMUTATIVE: Final = frozenset({"aten.add.Tensor", "aten.mul.Tensor"})


@dataclass(frozen=True)
class Var:
    """Any tensor; the same one wherever the name stands."""

    name: str


@dataclass(frozen=True)
class Const:
    """Any number, list of numbers, or None, bound to a name."""

    name: str


@dataclass(frozen=True)
class Op:
    """An operator with these leading arguments; more may follow unless it is `exact`."""

    name: str
    args: tuple[Any, ...]
    exact: bool = False


@dataclass(frozen=True)
class Match:
    """A match of a pattern."""

    tensors: dict[str, str] = field(default_factory=dict)
    """Variable → value of the graph."""
    constants: dict[str, Any] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    """Nodes that the match covers, including the root."""


class NoMatchError(Exception):
    """The graph has something else there than what is looked for."""


def require(condition: bool) -> None:
    """Go on where this holds.

    Raises
    ------
    NoMatchError
        It does not.
    """
    if not condition:
        raise NoMatchError


def unwrap(value: T | None) -> T:
    """A value that has to be there.

    Raises
    ------
    NoMatchError
        It is None.
    """
    if value is None:
        raise NoMatchError
    return value


def attempt(find: Callable[..., T], *args: Any) -> T | None:
    """What a function finds; None where it finds no match."""
    try:
        return find(*args)
    except NoMatchError:
        return None


def op(name: str, *args: Any) -> Op:
    """`op("mul.Tensor", Var("x"), 2)`."""
    return Op(f"aten.{name}", args)


def only(name: str, *args: Any) -> Op:
    """As `op`, without further arguments."""
    return Op(f"aten.{name}", args, exact=True)


def match(graph: Graph, pattern: Any, root: str) -> Match:
    """The first way in which `pattern` matches at the value `root`.

    Conversions between floating-point dtypes are looked through on the way to an operand: kernels
    compute in float32 whatever their inputs are.

    Raises
    ------
    NoMatchError
        It does not match.
    """
    return unwrap(next(_match(graph, pattern, {"node": root}, Match()), None))


def uncast(graph: Graph, name: str) -> tuple[str, frozenset[str]]:
    """The value before conversions between floating-point dtypes, and these conversions."""
    seen: set[str] = set()
    while True:
        node = graph[name]
        source = reference(node.args[0]) if node.args else None
        if node.op != "aten._to_copy.default" or source is None:
            return name, frozenset(seen)
        if not ("float" in graph.dtype(name) and "float" in graph.dtype(source)):
            return name, frozenset(seen)
        if "float8" in graph.dtype(name) or "float8" in graph.dtype(source):
            return name, frozenset(seen)  # quantization is no detail
        seen.add(name)
        name = source


def _match(  # noqa: PLR0912 (one branch for each kind of pattern)
    graph: Graph, pattern: Any, value: Any, so_far: Match
) -> Iterator[Match]:
    name = reference(value)
    if isinstance(pattern, tuple):
        for alternative in pattern:
            yield from _match(graph, alternative, value, so_far)
    elif isinstance(pattern, Const):
        if name is None and so_far.constants.get(pattern.name, value) == value:
            constants = so_far.constants | {pattern.name: value}
            yield Match(so_far.tensors, constants, so_far.nodes)
    elif name is None:
        # 2 and 2.0 are one exponent.
        if not isinstance(pattern, Var | Op) and value == pattern:
            yield so_far
    elif isinstance(pattern, Var):
        bare, casts = uncast(graph, name)
        if graph.is_tensor(bare) and so_far.tensors.get(pattern.name, bare) == bare:
            tensors = so_far.tensors | {pattern.name: bare}
            yield Match(tensors, so_far.constants, so_far.nodes | casts)
    elif isinstance(pattern, Op):
        bare, casts = (name, frozenset[str]()) if not so_far.nodes else uncast(graph, name)
        node = graph[bare]
        if node.op != pattern.name or len(node.args) < len(pattern.args):
            return
        if pattern.exact and len(node.args) > len(pattern.args):
            return
        if node.op in _COMMUTATIVE and node.kwargs:
            return  # x + alpha * y
        start = Match(so_far.tensors, so_far.constants, so_far.nodes | casts | {bare})
        args = list(node.args)
        orders = [args]
        if node.op in _COMMUTATIVE and len(args) > 1:
            orders.append([args[1], args[0], *args[2:]])
        for order in orders:
            yield from _all(graph, pattern.args, order, start)


def _all(
    graph: Graph, patterns: tuple[Any, ...], values: list[Any], so_far: Match
) -> Iterator[Match]:
    if not patterns:
        yield so_far
        return
    for partial in _match(graph, patterns[0], values[0], so_far):
        yield from _all(graph, patterns[1:], values[1:], partial)
