"""Metrics of rankings: trec_eval's code for ranks, few lines for token budgets and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytrec_eval
from numpy.typing import NDArray

from benchmarks.retrieval.cases import Answer

CUT = 10
BUDGETS = (500, 1000, 2000, 4000)
METRICS = (
    "nDCG@10", "MRR@10", "recall@1", "recall@5", "recall@10",
    *(f"recall@{budget}t" for budget in BUDGETS),
)  # fmt: skip
"""`recall@k` is the share of queries with a best-graded answer among the first k results (success
in trec_eval, which is recall where there is one answer); `recall@nt` the share with one whose text
ends within n tokens when the results' texts are read in order."""
RESAMPLES = 2000
CONFIDENCE = 0.95
_SEED = 6
_MEASURES = {"ndcg_cut.10", "recip_rank"}


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over queries, and its bootstrap interval."""

    mean: float
    low: float
    high: float
    count: int


def named_answers(units: Sequence[str], answers: Sequence[Answer]) -> list[str]:
    """A ranking of units as answers and others, each once, best first.

    Units of one answer say the same, so a later one neither helps nor takes a place.
    """
    name_of = {unit: answer.name for answer in answers for unit in answer.units}
    return list(dict.fromkeys(name_of.get(unit, f"unit {unit}") for unit in units))


def rank_metrics(ranking: Sequence[str], answers: Sequence[Answer]) -> dict[str, float]:
    """nDCG@10 (gain = grade), MRR@10 and recall@{1,5,10} of one ranking of named answers.

    Sources: Järvelin and Kekäläinen 2002 for nDCG, in the form of trec_eval (gain divided by the
    binary logarithm of rank + 1).
    """
    scores = {name: float(CUT - rank) for rank, name in enumerate(ranking[:CUT])}
    if not scores:
        return dict.fromkeys(METRICS[:5], 0.0)
    graded = pytrec_eval.RelevanceEvaluator(
        {"q": {answer.name: answer.grade for answer in answers}}, _MEASURES
    ).evaluate({"q": scores})["q"]
    best = pytrec_eval.RelevanceEvaluator(
        {"q": {answer.name: 1 for answer in best_of(answers)}}, {"success.1,5,10"}
    ).evaluate({"q": scores})["q"]
    return {
        "nDCG@10": graded["ndcg_cut_10"],
        "MRR@10": graded["recip_rank"],
        **{f"recall@{k}": best[f"success_{k}"] for k in (1, 5, 10)},
    }


def best_of(answers: Sequence[Answer]) -> list[Answer]:
    """The answers of the highest grade."""
    highest = max(answer.grade for answer in answers)
    return [answer for answer in answers if answer.grade == highest]


def budget_metrics(
    units: Sequence[str], tokens: Sequence[int], answers: Sequence[Answer]
) -> dict[str, float]:
    """recall@{500,1000,2000,4000}t: texts are read whole and in order until the budget is spent.

    Parameters
    ----------
    units, tokens
        Of each result, best first; a unit that comes again costs its tokens again.
    """
    best_units = frozenset().union(*(answer.units for answer in best_of(answers)))
    totals = np.cumsum(tokens, dtype=np.int64) if tokens else np.zeros(0, dtype=np.int64)
    cost = next((int(totals[i]) for i, unit in enumerate(units) if unit in best_units), None)
    return {f"recall@{budget}t": float(cost is not None and cost <= budget) for budget in BUDGETS}


def interval(values: Sequence[float] | NDArray[np.float64]) -> Interval:
    """Mean with its percentile bootstrap interval (Efron 1979), at 95 %; the seed is fixed."""
    data = np.asarray(values, dtype=np.float64)
    if not len(data):
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    rows = np.random.default_rng(_SEED).integers(len(data), size=(RESAMPLES, len(data)))
    means = data[rows].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(data.mean()), float(low), float(high), len(data))
