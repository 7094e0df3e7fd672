"""Exported models in one table: ``python -m benchmarks.embedder.training.evaluate``.

Each `--model NAME=FOLDER` (an ONNX folder as `benchmarks.embedder.export` writes it) answers the
parts of KernelRetrieve over the chosen indexes, alone (dense), fused by plain ranks, and in the
product's search. Writes `results/models.json` and `.md`; with `--half dev`, on which trials are
compared, it only prints.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.results import machine, publish, table
from benchmarks.retrieval.__main__ import PARTS
from benchmarks.retrieval.evaluate import Outcome, evaluate
from benchmarks.retrieval.fitting import make_parser
from benchmarks.retrieval.indexes import build_index, open_index
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE

RESULTS = Path(__file__).parents[1] / "results"
CONTENDERS = ("dense", "rrf", "product")
TIMED = 20
REPEATS = 5
METRIC = "nDCG@10"


def main() -> None:
    """Measure and write the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--indexes", nargs="+", default=["small", "corpus"])
    parser.add_argument("--half", choices=("dev", "all"), default="all")
    arguments = parser.parse_args()
    host = machine()
    folders = {name: Path(path) for name, _, path in (m.partition("=") for m in arguments.model)}
    embedders = {name: OnnxEmbedder(folder) for name, folder in folders.items()}
    models: dict[str, Any] = {}
    queries: list[str] = []
    for name, embedder in embedders.items():
        parts: dict[str, Any] = {}
        for plan in PARTS:
            if plan.index not in arguments.indexes or plan.name.startswith("unanswerable"):
                continue
            built = build_index(plan.index, arguments.work, embedder)
            with open_index(built.folder) as corpus:
                part = plan.part(built, corpus, arguments.half)
                queries = queries or [case.query for case in part.cases[:TIMED]]
                runs = evaluate(part, corpus, embedder, CONTENDERS)
            parts[plan.name] = {run.contender: _by_style(run.outcomes) for run in runs}
        size = (folders[name] / MODEL_FILE).stat().st_size
        models[name] = {"bytes": size, "embedder": embedder.name, "parts": parts}

    times: dict[str, list[float]] = {name: [] for name in embedders}
    for _ in range(REPEATS):  # in turns, so that other load on the machine hits all models alike
        for name, embedder in embedders.items():
            start = perf_counter()
            for query in queries:
                embedder.embed_query(query)
            times[name].append(perf_counter() - start)
    for name, seconds in times.items():
        models[name]["query_ms"] = 1e3 * median(seconds) / len(queries)
    if arguments.half == "dev":
        print(_tables(models, "development half"))
        return
    record = {"machine": host, "models": models}
    command = "python -m benchmarks.embedder.training.evaluate"
    publish(RESULTS / "models", command, _tables(models, "both halves"), record)


def _by_style(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Mean nDCG@10 without abstention, which is calibrated for one model, of all and by style."""
    values: dict[str, list[float]] = {"": []}
    for outcome in outcomes:
        if metrics := outcome.unjudged or outcome.metrics:
            for style in {"", outcome.case.labels.get("style", "")}:
                values.setdefault(style, []).append(metrics[METRIC])
    return {name: {"mean": float(np.mean(v)), "queries": len(v)} for name, v in values.items()}


def _tables(models: dict[str, Any], halves: str) -> str:
    first = next(iter(models.values()))["parts"]

    def mean(model: str, part: str, contender: str, style: str = "") -> str:
        return f"{models[model]['parts'][part][contender][style]['mean']:.3f}"

    rows = [
        [
            name, contender, *(mean(name, part, contender) for part in first),
            f"{record['bytes'] / 1e6:.1f}", f"{record['query_ms']:.1f}",
        ]
        for name, record in models.items()
        for contender in CONTENDERS
    ]  # fmt: skip
    header = ["model", "search", *first, "MB", "ms of a query"]
    text = f"{METRIC}, {halves}, without abstention:\n\n" + table(header, rows)
    for part in (part for part in first if part.startswith("techniques")):
        styles = [style for style in first[part]["dense"] if style]
        rows = [
            [name, contender, *(mean(name, part, contender, style) for style in styles)]
            for name in models
            for contender in ("dense", "product")
        ]
        text += f"\n\n`{part}` by style:\n\n" + table(["model", "search", *styles], rows)
    return text


if __name__ == "__main__":
    main()
