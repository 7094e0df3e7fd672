"""Figures of a run: per contender, half and category, with intervals; no query of the test half."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.retrieval.cases import HALVES
from benchmarks.retrieval.evaluate import Outcome, Run
from benchmarks.retrieval.metrics import METRICS, interval

Figures = dict[str, Any]
PRODUCT = "product"
CATEGORY_METRICS = ("nDCG@10", "recall@1", "recall@10", "recall@2000t")
"""Of the product, in the table of categories."""
_PARTS = ("all", *HALVES)


def summarize(runs: Sequence[Run], context: dict[str, dict[str, float]]) -> Figures:
    """Everything that is published of one part, as plain JSON values."""
    first = runs[0].outcomes if runs else []
    answerable = any(outcome.metrics for outcome in first)
    figures: Figures = {
        "queries": {half: len(_in_half(first, half)) for half in _PARTS},
        "contenders": {run.contender: _contender(run, answerable=answerable) for run in runs},
    }
    if answerable:
        product = next((run for run in runs if run.contender == PRODUCT), None)
        others = [run for run in runs if run is not product]
        figures["product minus"] = {
            run.contender: _difference(product, run) for run in others if product is not None
        }
        figures["by category (dev)"] = _categories(runs)
        figures["product by category"] = _product_by_category(product) if product else {}
    if context:
        figures["context"] = {
            half: {
                name: _mean([context[outcome.case.id][name] for outcome in _in_half(first, half)])
                for name in next(iter(context.values()))
            }
            for half in _PARTS
        }
    return figures


def abstention(answerable: Run, unanswerable: Run) -> Figures:
    """Precision and recall of abstaining, over questions with and without an answer."""
    figures: Figures = {}
    for half in _PARTS:
        false_refusals, correct = (
            [float(outcome.abstained) for outcome in _in_half(run.outcomes, half)]
            for run in (answerable, unanswerable)
        )
        count = sum(correct) + sum(false_refusals)
        figures[half] = {
            "recall": _mean(correct),
            "precision": sum(correct) / count if count else None,
            "answerable refused": _mean(false_refusals),
        }
    return figures


def _in_half(outcomes: Sequence[Outcome], half: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if half in ("all", outcome.case.half)]


def _contender(run: Run, *, answerable: bool) -> Figures:
    halves = {half: _in_half(run.outcomes, half) for half in _PARTS}
    figures: Figures = {
        "title": run.title,
        "p50 ms": round(median(o.milliseconds for o in run.outcomes), 2),
        "abstained": {half: sum(o.abstained for o in subset) for half, subset in halves.items()},
    }
    if answerable:
        figures |= {half: _metrics(subset, METRICS) for half, subset in halves.items()}
        if any(o.unjudged for o in run.outcomes):
            figures["never abstaining"] = {
                half: _mean([(o.unjudged or {})["nDCG@10"] for o in subset])
                for half, subset in halves.items()
            }
    return figures


def _difference(product: Run, run: Run) -> Figures:
    """nDCG@10 of the product less that of another, query by query."""
    figures: Figures = {}
    for half in _PARTS:
        pairs = zip(_in_half(product.outcomes, half), _in_half(run.outcomes, half), strict=True)
        figures[half] = _mean([a.metrics["nDCG@10"] - b.metrics["nDCG@10"] for a, b in pairs])
    return figures


def _categories(runs: Sequence[Run]) -> Figures:
    """Category → value → contender → nDCG@10 on the development half."""
    figures: Figures = {}
    dev = {run.contender: _in_half(run.outcomes, "dev") for run in runs}
    for label, value in _labels(dev[runs[0].contender]):
        figures.setdefault(label, {})[value] = {
            contender: _metrics(_in_category(outcomes, label, value), ["nDCG@10"])["nDCG@10"]
            for contender, outcomes in dev.items()
        }
    return figures


def _product_by_category(run: Run) -> Figures:
    """Category → value → half → metric of the product; means alone, as of the whole."""
    figures: Figures = {}
    for label, value in _labels(run.outcomes):
        selected = _in_category(run.outcomes, label, value)
        figures.setdefault(label, {})[value] = {
            half: _metrics(_in_half(selected, half), CATEGORY_METRICS) for half in _PARTS
        }
    return figures


def _labels(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Every category with each of its values."""
    labels = {label for o in outcomes for label in o.case.labels}
    return sorted({(label, o.case.labels.get(label, "")) for o in outcomes for label in labels})


def _in_category(outcomes: Sequence[Outcome], label: str, value: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.case.labels.get(label, "") == value]


def _metrics(outcomes: Sequence[Outcome], names: Sequence[str]) -> Figures:
    return {name: _mean([outcome.metrics[name] for outcome in outcomes]) for name in names}


def _mean(values: Sequence[float]) -> dict[str, float | int]:
    """The mean with its interval and count, as JSON has it."""
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(interval(values)).items()
    }
