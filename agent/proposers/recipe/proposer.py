"""The `recipe` proposer: kernels that the knowledge base has for the problem's operator."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from agent.optimize.candidate import Hypothesis, Proposal, SearchState
from agent.optimize.dedupe import digest
from agent.optimize.proposers import Proposer, Spending
from agent.proposers.recipe.adapt import AdaptedFile, CannotAdaptError, adapt, fits
from agent.proposers.recipe.carry import Recipe
from agent.proposers.recipe.catalog import Catalog
from agent.proposers.recipe.core import FLOATS, Core
from agent.proposers.recipe.lanes.region import region_of
from agent.proposers.recipe.operators import Recognition, recognise
from agent.proposers.recipe.rewrites import rewrite_graph
from agent.proposers.recipe.rows.region import regions_of
from agent.proposers.recipe.scores.find import attentions
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

# Beyond these a graph is a loop over time steps, for which the knowledge base's kernels are not.
_MOST_OPERATORS = 2000

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
    catalog
        Where kernels come from.
    export
        Makes the graph of a problem file: text, name, dtype. By default in a sandboxed worker.
    screen
        Tries what was adapted; None proposes it as it is, as the catalog orders it.
    """

    name = "recipe"

    def __init__(
        self, catalog: Catalog, export: Export = export_graph, screen: Screen | None = None
    ) -> None:
        self._catalog = catalog
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
            self._proposals[key] = self._screen_proposals(state, self._make_proposals(state))
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

    def _screen_proposals(self, state: SearchState, proposals: list[Proposal]) -> list[Proposal]:
        if self._screen is None:
            return proposals
        screened = self._screen.screen(state, proposals)
        self.notes = (*self.notes, *self._screen.notes)
        return screened

    def _make_proposals(self, state: SearchState) -> list[Proposal]:
        graph = self._export(state.problem.source, state.problem.name, state.dtype)
        graph = replace(graph, triangles=_triangles(graph, state.problem.source))
        if not graph.computed:
            raise CannotAdaptError("the model computes nothing")
        written = self._written(graph, state)
        try:
            return [*written, *self._from_catalog(graph, state)][:_MOST]
        except CannotAdaptError as error:
            if not written:
                raise
            self.notes = (str(error),)
            return written

    def _from_catalog(self, graph: Graph, state: SearchState) -> list[Proposal]:
        """Proposals with kernels of the catalog, for the graph and its rewritten form."""
        if len(graph.computed) > _MOST_OPERATORS:
            raise CannotAdaptError(f"the graph has more than {_MOST_OPERATORS} operators")
        changed = rewrite_graph(graph)
        if changed is None:
            return self._adapt_graph(graph, state)
        other, rules = changed
        pool: list[Proposal] = []
        notes: list[str] = []
        for form, most in ((other, _MOST_REWRITTEN), (graph, _MOST)):
            try:
                pool += self._adapt_graph(form, state)[:most]
            except CannotAdaptError as error:
                if form is graph and not pool:
                    raise
                notes.append(str(error))
            else:
                notes += self.notes
            if form is other:
                note = f"; rewritten: {', '.join(rules)}"
                pool = [
                    proposal.model_copy(update={"note": proposal.note + note}) for proposal in pool
                ]
        self.notes = tuple(dict.fromkeys(notes))
        return pool[:_MOST]

    def _adapt_graph(self, graph: Graph, state: SearchState) -> list[Proposal]:
        """Proposals for one form of the graph."""
        kernels = _Kernels(self._catalog, graph, state)
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
                f" ({kernels.misfit or 'it has none at all'})"
            )
        by_source: dict[str, Proposal] = {}
        notes: list[str] = []
        for way in ways:
            for kernel_choice in choices([kernels.of(core) for core in way.cores]):
                pairs = list(zip(way.cores, kernel_choice, strict=True))
                try:
                    adapted = adapt(graph, pairs, state.problem.stem)
                except KbError as error:
                    notes.append(str(error))
                else:
                    by_source.setdefault(adapted.source, _proposal(way, kernel_choice, adapted))
        self.notes = tuple(dict.fromkeys(notes))
        if not by_source:
            raise CannotAdaptError(f"no proposals: {self.notes[0] if self.notes else 'none fits'}")
        return list(by_source.values())[:_MOST]

    def _written(self, graph: Graph, state: SearchState) -> list[Proposal]:
        """Files with kernels that are written for the problem: attention with scores of its own,
        kernels for all that is done to rows, and one for all that a lane can compute by itself
        (loops over time steps, small vectors and matrices). What is left is PyTorch's, or the
        catalog's."""
        proposals: list[Proposal] = []
        if len(graph.computed) <= _MOST_OPERATORS:
            pairs = attentions(graph)
            rows = regions_of(graph, {name for core, _ in pairs for name in core.nodes})
            slugs = _with_counts([recipe.slug for _, recipe in pairs])
            note = f"attention with scores of its own: {slugs}" * bool(pairs)
            if pairs:
                claim = (
                    "scores that are never stored, with all that is done to them, cost no memory"
                )
                proposals += self._with_own(graph, state, pairs, note, claim)
            if rows:
                count = sum(len(part.core.nodes) for part in rows)
                note += "; " * bool(pairs)
                note += f"row by row: {count} of {len(graph.computed)} operators"
                claim = "a row in registers is read and written once, whatever is done to it"
                own = [*pairs, *((part.core, part.recipe) for part in rows)]
                proposals += self._with_own(graph, state, own, note, claim)
        region = region_of(graph)
        if region is not None:
            note = f"one lane a thread: {len(region.core.nodes)} of {len(graph.computed)} operators"
            note += f", {region.loops} loops" * bool(region.loops)
            claim = "what is small for each lane fits its registers: one launch does all"
            proposals += self._with_own(graph, state, [(region.core, region.recipe)], note, claim)
        return proposals

    def _with_own(
        self,
        graph: Graph,
        state: SearchState,
        own: list[tuple[Core, Recipe]],
        note: str,
        claim: str,
    ) -> list[Proposal]:
        """Files with these kernels: with kernels of the catalog for the rest, and without."""
        nodes = frozenset(name for core, _ in own for name in core.nodes)
        kernels = _Kernels(self._catalog, graph, state)
        rest: Sequence[Core] = ()
        if len(graph.computed) - len(nodes) <= _MOST_OPERATORS:
            rest = recognise(
                graph, lambda core: core.nodes.isdisjoint(nodes) and bool(kernels.of(core))
            ).cores
        proposals = []
        with_rest = [(core, kernels.of(core)[0]) for core in rest]
        for more in [with_rest, []] if with_rest else [[]]:
            try:
                adapted = adapt(graph, [*own, *more], state.problem.stem)
            except KbError:
                continue
            slugs = _with_counts([recipe.slug for _, recipe in more])
            proposals.append(
                Proposal(
                    source=adapted.source,
                    proposer=self.name,
                    family=_FUSION,
                    hypothesis=Hypothesis(claim=claim),
                    note=note + f"; {slugs}" * bool(slugs) + _beside(adapted),
                )
            )
        return proposals

    def _elementwise(self, graph: Graph, state: SearchState) -> Proposal | None:
        """A model of elementwise operators alone as one kernel, in the form of the knowledge
        base's best kernel that streams through memory; None without one, or where it cannot be."""
        recipes = self._catalog.kernels(_STREAMING, state.architecture, state.gpu)
        model = next((kernel for kernel in recipes if not kernel.cuda), None)
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
    """Kernels of the catalog for each core, looked up once."""

    def __init__(self, catalog: Catalog, graph: Graph, state: SearchState) -> None:
        self._catalog = catalog
        self._graph = graph
        self._state = state
        self._by_family: dict[str, Sequence[Recipe]] = {}
        self.misfit = ""
        """Why the last kernel did not fit."""

    def of(self, core: Core) -> list[Recipe]:
        """Kernels of the core's family that take its operands, best first."""
        if core.op not in self._by_family:
            state = self._state
            self._by_family[core.op] = self._catalog.kernels(core.op, state.architecture, state.gpu)
        # Tensors of both kinds, the model's and the problem's, have the operands' dtype.
        dtypes = {self._graph.dtype(name) for name in core.results} & FLOATS
        fitting = []
        for recipe in self._by_family[core.op]:
            why = fits(core, recipe)
            if why is None and not dtypes <= set(recipe.dtypes):
                why = f"it does not take {', '.join(sorted(dtypes - set(recipe.dtypes)))}"
            if why is None:
                fitting.append(recipe)
            else:
                self.misfit = f"{recipe.slug}: {why}"
        return fitting


def _ways(graph: Graph, kernels: _Kernels) -> list[Recognition]:
    """Ways to take the graph apart: the one with the largest patterns that there are kernels for,
    then without what that found, as long as something is found."""
    ways: list[Recognition] = []
    tried: list[Core] = []

    def usable(core: Core) -> bool:
        return core not in tried and bool(kernels.of(core))

    while len(ways) < _MOST_WAYS:
        way = recognise(graph, usable)
        if not way.cores:
            break
        ways.append(way)
        tried += way.cores
    return ways


def choices(kernels: Sequence[Sequence[Recipe]]) -> list[list[Recipe]]:
    """Which kernel does each core's work in a file: all their best, and in turn another for one of
    them. CUDA kernels may be for some sizes only, so one of the first files has none."""
    best = [ranked[0] for ranked in kernels]
    picks = [best]
    triton = [next((recipe for recipe in ranked if not recipe.cuda), None) for ranked in kernels]
    without = [recipe for recipe in triton if recipe is not None]
    if len(without) == len(best) and without != best:
        picks.append(without)
    for place, ranked in enumerate(kernels):
        picks += [[*best[:place], other, *best[place + 1 :]] for other in ranked[1:]]
    return [pick for place, pick in enumerate(picks) if pick not in picks[:place]]


def _with_counts(names: Sequence[str]) -> str:
    """Names in the order of their first appearance; a network has dozens of one kind."""
    counts = Counter(names)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())


def _beside(adapted: AdaptedFile) -> str:
    """What PyTorch computes in a file, as the end of a note."""
    if not adapted.beside:
        return ""
    return "; beside: " + ", ".join(f"{name} by PyTorch" for name in adapted.beside)


def _proposal(way: Recognition, kernels: Sequence[Recipe], adapted: AdaptedFile) -> Proposal:
    names = _with_counts([recipe.slug for recipe in kernels])
    families = _with_counts([core.op for core in way.cores])
    # What sets this file apart from the others is the technique of its first kernel that has one.
    family = next((recipe.techniques[0] for recipe in kernels if recipe.techniques), FAMILY)
    note = f"{families}: {names}"
    if adapted.fused:
        note += f"; fused after: {', '.join(adapted.fused)}"
    note += _beside(adapted)
    return Proposal(
        source=adapted.source,
        proposer=RecipeProposer.name,
        family=family,
        hypothesis=Hypothesis(
            claim=f"{names} of the knowledge base is a good start for {families}"
        ),
        chunks=tuple(dict.fromkeys(recipe.chunk for recipe in kernels if recipe.chunk)),
        note=note,
    )
