"""Runs contenders on the cases of a part, and keeps the scores of each query."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.retrieval.baselines import CONTENDERS
from benchmarks.retrieval.baselines.base import Contender, Scope
from benchmarks.retrieval.cases import Case, Part
from benchmarks.retrieval.indexes import Corpus
from benchmarks.retrieval.metrics import budget_metrics, named_answers, rank_metrics
from kb.embedders import Embedder
from kb.errors import KbError


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one contender for one query."""

    case: Case
    metrics: dict[str, float]
    """Empty for a query that nothing answers."""
    abstained: bool
    milliseconds: float
    top_results: list[str] = field(default_factory=list)
    """The first ten, by source, path and symbol."""
    unjudged: dict[str, float] | None = None
    """Rank metrics without abstention."""


@dataclass(frozen=True, slots=True)
class Run:
    """One contender on one part."""

    contender: str
    title: str
    outcomes: list[Outcome]


def evaluate(
    part: Part, corpus: Corpus, embedder: Embedder, names: Sequence[str] = tuple(CONTENDERS)
) -> list[Run]:
    """All contenders on all cases, one contender after another.

    Raises
    ------
    KbError
        If a case's answer is not in the index.
    """
    units = set(corpus.units)
    for case in part.cases:
        for answer in case.answers:
            if not answer.units & units:
                raise KbError(f"{case.id}: its answer {answer.name} is not in the index")
    base = Scope(corpus.of_kinds(part.kinds), tuple(sorted(part.kinds)))
    runs = []
    for name in names:
        contender = CONTENDERS[name](corpus, embedder)
        if part.cases:
            contender.rank("warm up", base)  # loading on first use is not timed
        outcomes = [_outcome(contender, case, _scope(case, base), corpus) for case in part.cases]
        runs.append(Run(name, contender.title, outcomes))
    return runs


def _scope(case: Case, base: Scope) -> Scope:
    if not case.excluded:
        return base
    allowed = np.ones(len(base.mask), dtype=bool)
    allowed[list(case.excluded)] = False
    return Scope(base.mask & allowed, base.kinds, allowed)


def _outcome(contender: Contender, case: Case, scope: Scope, corpus: Corpus) -> Outcome:
    started = time.perf_counter()
    ranked = contender.rank(case.query, scope)
    milliseconds = (time.perf_counter() - started) * 1e3
    ranked = contender.deepen(case.query, scope, ranked)
    shown = ranked.rows if ranked.top is None else ranked.top

    def metrics_of(rows: Sequence[int]) -> dict[str, float]:
        ranking = named_answers([corpus.units[row] for row in rows], case.answers)
        return rank_metrics(ranking, case.answers)

    metrics: dict[str, float] = {}
    unjudged = None
    if case.answers:
        units = [corpus.units[row] for row in ranked.rows]
        tokens = [corpus.tokens(row) for row in ranked.rows]
        metrics = metrics_of(shown) | budget_metrics(units, tokens, case.answers)
        unjudged = None if ranked.unjudged is None else metrics_of(ranked.unjudged)
    abstained = ranked.abstained or not ranked.rows
    chunks = (corpus.chunks[row] for row in shown[:10])
    results = [f"{chunk.source}:{chunk.path}:{chunk.symbol or chunk.title}" for chunk in chunks]
    return Outcome(case, metrics, abstained, milliseconds, results, unjudged)
