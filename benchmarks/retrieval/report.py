"""The published page of a run: one table per part, and where each part fails."""

from typing import Any

from benchmarks.results import table
from benchmarks.retrieval.metrics import METRICS
from benchmarks.retrieval.summary import CATEGORY_METRICS

_COLUMNS = METRICS[1:]
Figures = dict[str, Any]


def part_page(title: str, figures: Figures) -> str:
    """A part as Markdown."""
    counts = figures["queries"]
    parts = [
        f"## {title}",
        f"{counts['all']} queries ({counts['dev']} dev, {counts['test']} test) over "
        f"{figures['chunks']:,} chunks.",
        _contenders(figures),
    ]
    if "context" in figures:
        recalls = figures["context"]["all"].items()
        shares = ", ".join(f"{k.removeprefix('recall@')} {_value(v)}" for k, v in recalls)
        parts.append(f"Through `kb context` of that many tokens: {shares}.")
    if figures.get("product minus"):
        differences = "; ".join(
            f"{_value(value['all'], '+')} against {figures['contenders'][name]['title']}"
            for name, value in figures["product minus"].items()
        )
        parts.append(f"nDCG@10 of the whole search, query by query: {differences}.")
    if "by category (dev)" in figures:
        parts += ["Where it fails: nDCG@10 on the development half.", _categories(figures)]
    if figures.get("product by category"):
        parts += ["The whole search by category.", _product(figures)]
    return "\n\n".join(parts)


def abstention_page(title: str, figures: Figures) -> str:
    """Abstention over answerable and unanswerable questions, as Markdown."""
    rows = []
    for half, figure in figures.items():
        precision = "-" if figure["precision"] is None else f"{figure['precision']:.3f}"
        rows.append(
            [half, _value(figure["recall"]), precision, _value(figure["answerable refused"])]
        )
    header = ["half", "unanswerable refused (recall)", "precision", "answerable refused"]
    return f"## {title}\n\n{table(header, rows)}"


def _contenders(figures: Figures) -> str:
    header = ["contender", "nDCG@10", "dev", "test", *_COLUMNS, "p50 ms", "abstained"]
    rows = []
    for contender in figures["contenders"].values():
        cells = ["-"] * (len(header) - 3)
        if "all" in contender:
            cells = [
                _value(contender["all"]["nDCG@10"]),
                *(_mean(contender[half]["nDCG@10"]) for half in ("dev", "test")),
                *(_mean(contender["all"][name]) for name in _COLUMNS),
            ]
        abstained = str(contender["abstained"]["all"])
        rows.append([contender["title"], *cells, f"{contender['p50 ms']:.1f}", abstained])
    return table(header, rows)


def _categories(figures: Figures) -> str:
    titles = [contender["title"] for contender in figures["contenders"].values()]
    rows = [
        [f"{label}: {value}", str(next(iter(means.values()))["count"]), *map(_mean, means.values())]
        for label, values in figures["by category (dev)"].items()
        for value, means in values.items()
    ]
    return table(["category", "queries", *titles], rows)


def _product(figures: Figures) -> str:
    rows = [
        [
            f"{label}: {value}",
            str(halves["all"]["nDCG@10"]["count"]),
            *(_mean(halves[half]["nDCG@10"]) for half in ("all", "dev", "test")),
            *(_mean(halves["all"][name]) for name in CATEGORY_METRICS[1:]),
        ]
        for label, values in figures["product by category"].items()
        for value, halves in values.items()
    ]
    header = ["category", "queries", "nDCG@10", "dev", "test", *CATEGORY_METRICS[1:]]
    return table(header, rows)


def _mean(interval: dict[str, float]) -> str:
    return "-" if not interval["count"] else f"{interval['mean']:.3f}"


def _value(interval: dict[str, float], sign: str = "") -> str:
    mean, low, high = (f"{interval[name]:{sign}.3f}" for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]" if interval["count"] else "-"
