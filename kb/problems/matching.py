"""Find kernels by what they compute: the operators of a kernel's reference, within a module's.

The vocabulary names families of operators; what it has no family for (an optimizer's step, int4
weights, the gradients of a norm) is found as a graph within the module's graph. Spellings differ,
so most of a reference is enough, and operators are compared as the simpler ones that they are
made of.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from math import log
from typing import Final

from kb.errors import KbError
from kb.problems.reading import read_problem
from kb.problems.values import Operator
from kb.problems.vocabulary import simpler

# Larger references are unrolled loops, such as the rounds of a random generator.
_MAX_REFERENCE = 32
# Fewer operators than these, and fewer kinds of them, come together by chance.
_MIN_OPERATORS, _MIN_KINDS = 4, 3
# Share of a reference's weight; on modules that others wrote, chance reached 0.69.
_MIN_SCORE: Final = 0.7
# One of so many operators may be missing: modules leave out what is 1, or compute it elsewhere.
_PER_MISSING = 6
# What a search may cost: places to begin at for each operator of a reference, of so many where it
# is, and neighbours that are looked at beside each.
_MAX_STARTS, _MAX_PLACES, _MAX_NEIGHBOURS = 3, 256, 16
# Kinds that modules spell in many ways.
_MOVING = frozenset({"view", "create"})


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators in their order, without those that only move data."""

    names: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    """For each operator the places of those whose results it uses."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a reference lies in a module."""

    score: float
    """Share of the reference that was found, by weight: 0 to 1."""
    operators: frozenset[int]
    """Of the module, by `id`, wherever the reference lies in it."""
    found: int
    size: int
    """How many operators of the reference were found once, and how many it has."""


def reference_graph(code: str) -> OperatorGraph | None:
    """Return the graph of the function `reference` in a kernel's file; None where it cannot be read
    or is too small, too large or in too many parts to be found in a module."""
    try:
        problem = read_problem(code)
    except KbError:
        return None
    graph = _Graph(problem.operators).graph
    if problem.name != "reference" or not _MIN_OPERATORS <= len(graph.names) <= _MAX_REFERENCE:
        return None
    if len(set(graph.names)) < _MIN_KINDS:
        return None
    sides = _Sides(graph)
    whole = _grown(sides, sides, (0, 0), frozenset())
    return graph if len(whole) == len(graph.names) else None


def rarities(graphs: Mapping[str, Iterable[OperatorGraph]]) -> dict[str, float]:
    """Return the weight of each operator: of how few kinds of kernels it is (inverse document
    frequency).

    Parameters
    ----------
    graphs
        Kind of kernel → the graphs of its kernels' references.
    """
    kinds: Counter[str] = Counter()
    for same in graphs.values():
        kinds.update({name for graph in same for name in graph.names})
    return {name: log((len(graphs) + 1) / (count + 1)) + 0.1 for name, count in kinds.items()}


class Matcher:
    """A module's graph, in which references are looked for."""

    def __init__(self, operators: Sequence[Operator], weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._module = _Graph(operators)

    def match(self, reference: OperatorGraph) -> Match | None:
        """Return where most of a reference lies in the module; None where it does not."""
        module, pattern = self._module, _Sides(reference)
        total = self._worth(pattern, dict.fromkeys(range(len(pattern.names))))
        shared = Counter(reference.names) & module.counts
        if self._sum(shared.elements()) < _MIN_SCORE * self._sum(reference.names):
            return None
        best, score = dict[int, int](), 0.0
        tried = set[tuple[int, int]]()
        for start in self._starts(pattern):
            if start in tried:
                continue
            found = _grown(pattern, module.sides, start, frozenset())
            tried |= found.items()
            worth = self._worth(pattern, found, module.sides)
            if worth > score:
                best, score = found, worth
        missing = len(pattern.names) - len(best)
        if score < _MIN_SCORE * total or missing > max(1, len(pattern.names) // _PER_MISSING):
            return None
        return Match(
            score / total, self._everywhere(pattern, best, total), len(best), len(pattern.names)
        )

    def _everywhere(self, pattern: "_Sides", best: dict[int, int], total: float) -> frozenset[int]:
        """The operators of all places where the pattern lies, in the steps of a loop say, found
        from the operator that the best place was found from."""
        anchor = next(iter(best))
        used = frozenset(best.values())
        for at in self._module.places[pattern.names[anchor]]:
            if at not in used:
                found = _grown(pattern, self._module.sides, (anchor, at), used)
                if self._worth(pattern, found, self._module.sides) >= _MIN_SCORE * total:
                    used |= frozenset(found.values())
        return frozenset(id(self._module.operators[place]) for place in used)

    def _starts(self, pattern: "_Sides") -> list[tuple[int, int]]:
        """Where to begin: at each operator of the pattern, where its neighbours are alike."""
        return [
            (at, place)
            for at, name in enumerate(pattern.names)
            for place in nlargest(
                _MAX_STARTS,
                self._module.places.get(name, ())[:_MAX_PLACES],
                key=partial(pattern.alike, at, self._module.sides),
            )
        ]

    def _sum(self, names: Iterable[str]) -> float:
        return sum(self._weights.get(name, 0.0) for name in names)

    def _worth(
        self, pattern: "_Sides", found: Mapping[int, int | None], module: "_Sides | None" = None
    ) -> float:
        """The weight of operators of a pattern, and of those of its edges that the module has."""
        names, weight = pattern.names, self._weights
        edges = (
            min(weight[names[source]], weight[names[at]])
            for at in found
            for source in pattern.before[at]
            if source in found
            and (module is None or found[source] in module.before[found[at] or 0])
        )
        return self._sum(names[at] for at in found) + sum(edges)


@dataclass(slots=True)
class _Sides:
    """A graph that can be walked in both directions."""

    graph: OperatorGraph
    names: tuple[str, ...] = ()
    before: tuple[tuple[int, ...], ...] = ()
    after: list[list[int]] = field(default_factory=list)
    around: list[Counter[tuple[bool, str]]] = field(default_factory=list)
    """Names of an operator's neighbours, those that use its result as True."""

    def __post_init__(self) -> None:
        self.names, self.before = self.graph.names, self.graph.inputs
        self.after = [[] for _ in self.names]
        for at, sources in enumerate(self.before):
            for source in sources:
                if len(self.after[source]) < _MAX_NEIGHBOURS:
                    self.after[source].append(at)
        self.around = [
            Counter(
                [(False, self.names[n]) for n in sources] + [(True, self.names[n]) for n in uses]
            )
            for sources, uses in zip(self.before, self.after, strict=True)
        ]

    def alike(self, at: int, other: "_Sides", place: int) -> float:
        """Of an operator's neighbours, those that one of another graph has too."""
        around = self.around[at]
        return (around & other.around[place]).total() / (around.total() or 1)


class _Graph:
    """The graph of a module's operators, with what was read."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators: list[Operator] = []
        names: list[str] = []
        inputs: list[tuple[int, ...]] = []
        # Memory, by its number → the operators that what it holds comes from; results that were
        # computed in place → the memory that they are in.
        holding: dict[int, tuple[int, ...]] = {}
        written: dict[int, int] = {}
        for op in operators:
            memories = [written.get(t.number, t.number) for t in op.inputs]
            before: tuple[int, ...] = ()
            for name, operands in _simpler(op, memories):
                inputs.append(_sources(holding, operands, before))
                before = (len(names),)
                names.append(name)
                self.operators.append(op)
            sources = before or _sources(holding, memories)
            if op.facts.get("in_place") and memories:
                holding[memories[0]] = sources
                written.update(dict.fromkeys((t.number for t in op.outputs), memories[0]))
            else:
                holding.update(dict.fromkeys((t.number for t in op.outputs), sources))
        self.graph = OperatorGraph(tuple(names), tuple(inputs))
        self.sides = _Sides(self.graph)
        self.counts = Counter(names)
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(names):
            self.places[name].append(place)
        self.places.default_factory = None


def _sources(
    holding: Mapping[int, tuple[int, ...]], memories: Iterable[int], before: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The operators that what memories hold comes from, after one that is given."""
    places = dict.fromkeys(place for memory in memories for place in holding.get(memory, ()))
    return (*before, *places)[:_MAX_NEIGHBOURS]


def _simpler(op: Operator, memories: list[int]) -> Iterator[tuple[str, list[int]]]:
    """The operators that an operator is made of, none for one that only moves data; each with the
    operands that it takes beside the result of the one before."""
    if op.kind in _MOVING:
        return
    if op.name == "mul" and len(op.inputs) == 2 and op.inputs[0] is op.inputs[1]:
        yield "square", memories
        return
    names = simpler(op.name)
    if names[-1:] == ("add",) and ("alpha" in op.facts or "value" in op.facts):
        names = ("mul", *names)  # `add(x, y, alpha=a)` is x + a y
    if len(names) > 1 and names[-1] == "add":  # to the first operand
        first, *middle, last = names
        yield first, memories[1:2] if middle else memories[1:]
        yield from ((name, memories[2:]) for name in middle)
        yield last, memories[:1]
        return
    for name in names:
        yield name, memories
        memories = []


def _grown(
    pattern: _Sides, module: _Sides, start: tuple[int, int], used: frozenset[int]
) -> dict[int, int]:
    """Walk both graphs from one pair of operators, the surest next pair first; return places of the
    pattern → of the module."""
    found: dict[int, int] = {}
    taken, waiting = set(used), {start: 0.0}
    while waiting:
        at, place = max(waiting, key=lambda pair: (waiting[pair], pair))
        found[at] = place
        taken.add(place)
        for ours, theirs in ((pattern.before, module.before), (pattern.after, module.after)):
            for wanted in ours[at]:
                for other in theirs[place]:
                    if module.names[other] == pattern.names[wanted]:
                        pair = wanted, other
                        sure = pattern.alike(wanted, module, other)
                        # Each neighbour that was found beside it makes it surer.
                        waiting[pair] = 1 + waiting.get(pair, sure)
        waiting = {
            pair: sure
            for pair, sure in waiting.items()
            if pair[0] not in found and pair[1] not in taken
        }
    return found
