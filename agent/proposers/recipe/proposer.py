"""The `recipe` proposer: kernels that the knowledge base has for the problem's operator."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from agent.optimize.candidate import Hypothesis, Proposal, SearchState
from agent.optimize.dedupe import digest
from agent.optimize.proposers import Proposer, Spending
from agent.proposers.recipe.adapt import Adapted, CannotAdaptError, adapt, fits
from agent.proposers.recipe.carry import Stock
from agent.proposers.recipe.core import FLOATS, Core
from agent.proposers.recipe.operators import Recognised, recognise
from agent.proposers.recipe.rewrites import rewritten
from agent.proposers.recipe.stock import Shelf
from judge.graph import Graph, export_graph
from kb.errors import KbError
from kb.problems.reading import read_problem
from kb.problems.useful import triangle_of

# The family of a kernel that shows no technique.
FAMILY = "recipe"

# Files for one problem: what is tried at all, the most promising first.
_MOST = 10
# Of these, of a graph with exact rewrites.
_MOST_REWRITTEN = 5
# In which a graph is taken apart: as fused kernels do it, as others do.
_MOST_WAYS = 3
# Of the knowledge base: kernels that stream through memory, and the technique of a fused chain.
_STREAMING = "scale"
_FUSION = "kernel-fusion"

Export = Callable[[str, str, str | None], Graph]


class Screen(Protocol):
    """Tries proposals quickly before they are made."""

    notes: tuple[str, ...]
    """Notes of the last screening."""
    spent: Spending
    """So far."""

    def screen(self, state: SearchState, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Those that are worth judging, the best first, in their best configurations."""
        ...


class RecipeProposer(Proposer):
    """Adapts kernels of the problem's operator family, the most promising first.

    Parameters
    ----------
    shelf
        Where kernels come from.
    export
        Makes the graph of a problem file: text, name, dtype. By default in a sandboxed worker.
    screen
        Tries what was adapted; None proposes it as it is, as the shelf orders it.
    """

    name = "recipe"

    def __init__(
        self, shelf: Shelf, export: Export = export_graph, screen: Screen | None = None
    ) -> None:
        self._shelf = shelf
        self._export = export
        self._screen = screen
        self._proposals: dict[tuple[str, str | None, str | None, str | None], list[Proposal]] = {}

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """Files that were not tried yet; the loop takes as many as it has room for.

        Raises
        ------
        KbError
            The operator is not recognised, or the knowledge base has no kernel that fits; the
            message says which.
        """
        problem = state.problem
        key = (problem.sha256, state.dtype, state.architecture, state.gpu)
        if key in self._proposals:
            self.notes = ()  # they were told
        else:
            self._proposals[key] = []  # what fails is told once, not in every round
            self._proposals[key] = self._screened(state, self._made(state))
        return [
            proposal
            for proposal in self._proposals[key]
            if proposal.family not in state.retired
            # To digest a program takes as long as to write it.
            and not (state.tried and digest(proposal.source, proposal.suffix) in state.tried)
        ]

    @property
    def spent(self) -> Spending:
        """GPU time of screening."""
        return Spending() if self._screen is None else self._screen.spent

    def _screened(self, state: SearchState, made: list[Proposal]) -> list[Proposal]:
        if self._screen is None:
            return made
        found = self._screen.screen(state, made)
        self.notes = (*self.notes, *self._screen.notes)
        return found

    def _made(self, state: SearchState) -> list[Proposal]:
        graph = self._export(state.problem.source, state.problem.name, state.dtype)
        graph = replace(graph, triangles=_triangles(graph, state.problem.source))
        if not graph.computed:
            raise CannotAdaptError("the model computes nothing")
        changed = rewritten(graph)
        if changed is None:
            return self._adapted(graph, state)
        other, rules = changed
        made: list[Proposal] = []
        notes: list[str] = []
        for form, most in ((other, _MOST_REWRITTEN), (graph, _MOST)):
            try:
                made += self._adapted(form, state)[:most]
            except CannotAdaptError as error:
                if form is graph and not made:
                    raise
                notes.append(str(error))
            else:
                notes += self.notes
            if form is other:
                told = f"; rewritten: {', '.join(rules)}"
                made = [
                    proposal.model_copy(update={"note": proposal.note + told}) for proposal in made
                ]
        self.notes = tuple(dict.fromkeys(notes))
        return made[:_MOST]

    def _adapted(self, graph: Graph, state: SearchState) -> list[Proposal]:
        """Proposals for one form of the graph."""
        kernels = _Kernels(self._shelf, graph, state)
        everything = recognise(graph)
        if not everything.cores and (whole := self._elementwise(graph, state)) is not None:
            return [whole]
        if not everything.cores:
            raise CannotAdaptError(f"no proposals: {everything.reason}")
        ways = _ways(graph, kernels)
        if not ways:
            families = ", ".join(dict.fromkeys(core.op for core in everything.cores))
            raise CannotAdaptError(
                f"no proposals: the knowledge base has no kernel of {families} that fits"
                f" ({kernels.why or 'it has none at all'})"
            )
        made: dict[str, Proposal] = {}
        notes: list[str] = []
        for found in ways:
            for chosen in choices([kernels.of(core) for core in found.cores]):
                pairs = list(zip(found.cores, chosen, strict=True))
                try:
                    adapted = adapt(graph, pairs, state.problem.stem)
                except KbError as error:
                    notes.append(str(error))
                else:
                    made.setdefault(adapted.source, _proposal(found, chosen, adapted))
        self.notes = tuple(dict.fromkeys(notes))
        if not made:
            raise CannotAdaptError(f"no proposals: {self.notes[0] if self.notes else 'none fits'}")
        return list(made.values())[:_MOST]

    def _elementwise(self, graph: Graph, state: SearchState) -> Proposal | None:
        """A model of elementwise operators alone as one kernel, in the form of the knowledge
        base's best kernel that streams through memory; None without one, or where it cannot be."""
        stock = self._shelf.kernels(_STREAMING, state.architecture, state.gpu)
        model = next((each for each in stock if not each.cuda), None)
        if model is None:
            return None
        try:
            adapted = adapt(graph, [], state.problem.stem)
        except KbError:
            return None
        if adapted.beside or not adapted.fused:
            return None
        chain = ", ".join(adapted.fused)
        return Proposal(
            source=adapted.source,
            proposer=self.name,
            family=_FUSION,
            hypothesis=Hypothesis(claim=f"one pass over memory for {chain} is the least possible"),
            chunks=(model.chunk,) if model.chunk else (),
            note=f"elementwise: {chain} in one kernel, after {model.slug}",
        )


def _triangles(graph: Graph, source: str) -> dict[str, int]:
    """Inputs of the graph that the problem's text makes as triangles, and which."""
    inputs = [node for node in graph.nodes.values() if node.op == "input"]
    try:
        parts = [triangle_of(input_) for input_ in read_problem(source).inputs]
    except KbError:
        return {}
    if len(parts) != len(inputs):
        return {}
    return {
        node.name: parts[node.input]
        for node in inputs
        if node.input is not None and parts[node.input]
    }


class _Kernels:
    """Kernels of the shelf for each core, looked up once."""

    def __init__(self, shelf: Shelf, graph: Graph, state: SearchState) -> None:
        self._shelf = shelf
        self._graph = graph
        self._state = state
        self._found: dict[str, Sequence[Stock]] = {}
        self.why = ""
        """Why the last kernel did not fit."""

    def of(self, core: Core) -> list[Stock]:
        """Kernels of the core's family that take its operands, best first."""
        if core.op not in self._found:
            state = self._state
            self._found[core.op] = self._shelf.kernels(core.op, state.architecture, state.gpu)
        # Tensors of both kinds, the model's and the problem's, have the operands' dtype.
        dtypes = {self._graph.dtype(name) for name in core.results} & FLOATS
        fitting = []
        for stock in self._found[core.op]:
            why = fits(core, stock)
            if why is None and not dtypes <= set(stock.dtypes):
                why = f"it takes no {', '.join(sorted(dtypes - set(stock.dtypes)))}"
            if why is None:
                fitting.append(stock)
            else:
                self.why = f"{stock.slug}: {why}"
        return fitting


def _ways(graph: Graph, kernels: _Kernels) -> list[Recognised]:
    """Ways to take the graph apart: the one with the largest patterns that there are kernels for,
    then without what that found, as long as something is found."""
    ways: list[Recognised] = []
    passed: list[Core] = []

    def usable(core: Core) -> bool:
        return core not in passed and bool(kernels.of(core))

    while len(ways) < _MOST_WAYS:
        found = recognise(graph, usable)
        if not found.cores:
            break
        ways.append(found)
        passed += found.cores
    return ways


def choices(kernels: Sequence[Sequence[Stock]]) -> list[list[Stock]]:
    """Which kernel does each core's work in a file: all their best, and in turn another for one of
    them. CUDA kernels may be for some sizes only, so one of the first files has none."""
    best = [kernel[0] for kernel in kernels]
    found = [best]
    triton = [next((stock for stock in kernel if not stock.cuda), None) for kernel in kernels]
    without = [stock for stock in triton if stock is not None]
    if len(without) == len(best) and without != best:
        found.append(without)
    for place, kernel in enumerate(kernels):
        found += [[*best[:place], other, *best[place + 1 :]] for other in kernel[1:]]
    return [one for place, one in enumerate(found) if one not in found[:place]]


def _counted(names: Sequence[str]) -> str:
    """Names in the order of their first appearance; a network has dozens of one kind."""
    counts = Counter(names)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())


def _proposal(found: Recognised, chosen: Sequence[Stock], adapted: Adapted) -> Proposal:
    names = _counted([stock.slug for stock in chosen])
    families = _counted([core.op for core in found.cores])
    # What sets this file apart from the others is the technique of its first kernel that has one.
    family = next((stock.techniques[0] for stock in chosen if stock.techniques), FAMILY)
    note = f"{families}: {names}"
    if adapted.fused:
        note += f"; fused after: {', '.join(adapted.fused)}"
    if adapted.beside:
        note += "; beside: " + ", ".join(f"{each} by PyTorch" for each in adapted.beside)
    return Proposal(
        source=adapted.source,
        proposer=RecipeProposer.name,
        family=family,
        hypothesis=Hypothesis(
            claim=f"{names} of the knowledge base is a good start for {families}"
        ),
        chunks=tuple(dict.fromkeys(stock.chunk for stock in chosen if stock.chunk)),
        note=note,
    )
