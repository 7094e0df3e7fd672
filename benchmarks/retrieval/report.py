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
    lines = [f"## {title}", ""]
    lines.append(
        f"{counts['all']} queries ({counts['dev']} dev, {counts['test']} test) over "
        f"{figures['chunks']:,} chunks."
    )
    lines += ["", _contenders(figures)]
    if "context" in figures:
        held = figures["context"]["all"]
        shares = ", ".join(
            f"{name.removeprefix('recall@')} {_value(v)}" for name, v in held.items()
        )
        lines += ["", f"Through `kb context` of that many tokens: {shares}."]
    if figures.get("product minus"):
        differences = [
            f"{_signed(each['all'])} against {figures['contenders'][name]['title']}"
            for name, each in figures["product minus"].items()
        ]
        lines += ["", f"nDCG@10 of the whole search, query by query: {'; '.join(differences)}."]
    if "by category (dev)" in figures:
        lines += ["", "Where it fails: nDCG@10 on the development half.", "", _categories(figures)]
    if figures.get("product by category"):
        lines += ["", "The whole search by category.", "", _product(figures)]
    return "\n".join(lines)


def abstention_page(title: str, figures: Figures) -> str:
    """Abstention over answerable and unanswerable questions, as Markdown."""
    rows = [
        [
            half,
            _value(each["recall"]),
            "-" if each["precision"] is None else f"{each['precision']:.3f}",
            _value(each["answerable refused"]),
        ]
        for half, each in figures.items()
    ]
    head = ["half", "unanswerable refused (recall)", "precision", "answerable refused"]
    return f"## {title}\n\n{table(head, rows)}"


def _contenders(figures: Figures) -> str:
    head = ["contender", "nDCG@10", "dev", "test", *_COLUMNS, "p50 ms", "abstained"]
    rows = []
    for each in figures["contenders"].values():
        cells = ["-"] * (len(head) - 3)
        if "all" in each:
            cells = [
                _value(each["all"]["nDCG@10"]),
                *(_mean(each[half]["nDCG@10"]) for half in ("dev", "test")),
                *(_mean(each["all"][name]) for name in _COLUMNS),
            ]
        abstained = str(each["abstained"]["all"])
        rows.append([each["title"], *cells, f"{each['p50 ms']:.1f}", abstained])
    return table(head, rows)


def _categories(figures: Figures) -> str:
    titles = [each["title"] for each in figures["contenders"].values()]
    rows = []
    for label, values in figures["by category (dev)"].items():
        for value, contenders in values.items():
            count = next(iter(contenders.values()))["count"]
            cells = [_mean(each) for each in contenders.values()]
            rows.append([f"{label}: {value}", str(count), *cells])
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
    head = ["category", "queries", "nDCG@10", "dev", "test", *CATEGORY_METRICS[1:]]
    return table(head, rows)


def _mean(each: dict[str, float]) -> str:
    return "-" if not each["count"] else f"{each['mean']:.3f}"


def _value(each: dict[str, float]) -> str:
    if not each["count"]:
        return "-"
    return f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"


def _signed(each: dict[str, float]) -> str:
    return f"{each['mean']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]"
