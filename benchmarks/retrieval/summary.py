"""Figures of a run: per contender, half and category, with intervals; no query of the test half."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.retrieval.cases import HALVES
from benchmarks.retrieval.evaluate import Outcome, Run
from benchmarks.retrieval.metrics import METRICS, Interval, interval

Figures = dict[str, Any]
PRODUCT = "product"
CATEGORY_METRICS = ("nDCG@10", "recall@1", "recall@10", "recall@2000t")
"""Of the product, in the table of categories."""


def summarize(runs: Sequence[Run], context: dict[str, dict[str, float]]) -> Figures:
    """Everything that is published of one part, as plain JSON values."""
    answerable = bool(runs) and any(outcome.metrics for outcome in runs[0].outcomes)
    figures: Figures = {
        "queries": {half: _count(runs, half) for half in ("all", *HALVES)},
        "contenders": {run.contender: _contender(run, answerable=answerable) for run in runs},
    }
    if answerable:
        figures["product minus"] = _differences(runs)
        figures["by category (dev)"] = _categories(runs)
        figures["product by category"] = _product_by_category(runs)
    if context:
        figures["context"] = {
            half: {
                name: _plain(interval([context[o.case.id][name] for o in _of(runs[0], half)]))
                for name in next(iter(context.values()))
            }
            for half in ("all", *HALVES)
        }
    return figures


def abstention(answerable: Run, unanswerable: Run) -> Figures:
    """Precision and recall of abstaining, over questions with and without an answer."""

    def share(run: Run, half: str) -> Interval:
        return interval([float(outcome.abstained) for outcome in _of(run, half)])

    figures: Figures = {}
    for half in ("all", *HALVES):
        refused = sum(outcome.abstained for outcome in _of(answerable, half))
        right = sum(outcome.abstained for outcome in _of(unanswerable, half))
        figures[half] = {
            "recall": _plain(share(unanswerable, half)),
            "precision": right / (right + refused) if right + refused else None,
            "answerable refused": _plain(share(answerable, half)),
        }
    return figures


def _of(run: Run, half: str) -> list[Outcome]:
    return [outcome for outcome in run.outcomes if half in ("all", outcome.case.half)]


def _count(runs: Sequence[Run], half: str) -> int:
    return len(_of(runs[0], half)) if runs else 0


def _contender(run: Run, *, answerable: bool) -> Figures:
    figures: Figures = {
        "title": run.title,
        "p50 ms": round(median(o.milliseconds for o in run.outcomes), 2),
        "abstained": {half: sum(o.abstained for o in _of(run, half)) for half in ("all", *HALVES)},
    }
    if answerable:
        for half in ("all", *HALVES):
            figures[half] = {
                name: _plain(interval([o.metrics[name] for o in _of(run, half)]))
                for name in METRICS
            }
        if any(outcome.unjudged for outcome in run.outcomes):
            figures["never abstaining"] = {
                half: _plain(interval([(o.unjudged or {})["nDCG@10"] for o in _of(run, half)]))
                for half in ("all", *HALVES)
            }
    return figures


def _differences(runs: Sequence[Run]) -> Figures:
    """nDCG@10 of the product less that of each other, query by query."""
    by_name = {run.contender: run for run in runs}
    if PRODUCT not in by_name:
        return {}
    return {
        name: {
            half: _plain(
                interval(
                    [
                        mine.metrics["nDCG@10"] - other.metrics["nDCG@10"]
                        for mine, other in zip(
                            _of(by_name[PRODUCT], half), _of(run, half), strict=True
                        )
                    ]
                )
            )
            for half in ("all", *HALVES)
        }
        for name, run in by_name.items()
        if name != PRODUCT
    }


def _categories(runs: Sequence[Run]) -> Figures:
    """Category → value → contender → nDCG@10 on the development half."""
    labels = sorted({label for o in _of(runs[0], "dev") for label in o.case.labels})
    found: Figures = {}
    for label in labels:
        of_label: Callable[[Outcome], str] = lambda o, label=label: o.case.labels.get(label, "")  # type: ignore[misc]  # noqa: E731
        for value in sorted({of_label(o) for o in _of(runs[0], "dev")}):
            found.setdefault(label, {})[value] = {
                run.contender: _plain(
                    interval(
                        [o.metrics["nDCG@10"] for o in _of(run, "dev") if of_label(o) == value]
                    )
                )
                for run in runs
            }
    return found


def _product_by_category(runs: Sequence[Run]) -> Figures:
    """Category → value → half → metric of the product; means alone, as of the whole."""
    run = next((run for run in runs if run.contender == PRODUCT), None)
    if run is None:
        return {}
    found: Figures = {}
    for label in sorted({label for outcome in run.outcomes for label in outcome.case.labels}):
        for value in sorted({outcome.case.labels.get(label, "") for outcome in run.outcomes}):
            found.setdefault(label, {})[value] = {
                half: {
                    name: _plain(
                        interval(
                            [
                                outcome.metrics[name]
                                for outcome in _of(run, half)
                                if outcome.case.labels.get(label, "") == value
                            ]
                        )
                    )
                    for name in CATEGORY_METRICS
                }
                for half in ("all", *HALVES)
            }
    return found


def _plain(each: Interval) -> dict[str, float | int]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(each).items()
    }
