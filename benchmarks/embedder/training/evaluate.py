"""Exported models and trials in one table: ``python -m benchmarks.embedder.training.evaluate``.

Each `--model NAME=FOLDER` (an ONNX folder as `benchmarks.embedder.export` writes it) answers the
parts of KernelRetrieve over the chosen indexes, both halves, alone (dense), fused by plain ranks,
and in the product's search as it stands. Scores of trials, which a GPU gave on the development half
(`training/launch.py`), are read from `results/trials.json` and `results/trials_later.json`. Writes
`results/models.json` and `.md`; without `--model` the tables are written anew from what is there.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embedder import report
from benchmarks.embedder.timing import interleaved, median
from benchmarks.retrieval.__main__ import PARTS
from benchmarks.retrieval.cases import Part
from benchmarks.retrieval.evaluate import Outcome, evaluate
from benchmarks.retrieval.indexes import build_index, opened
from benchmarks.retrieval.work import default_work
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE

COMMAND = "python -m benchmarks.embedder.training.evaluate"
MEASURED_FILE = report.RESULTS / "models.json"
TRIALS_FILES = {
    "trials.json": "Trials of plans 1 to 3",
    "trials_later.json": "Trials of plan-shipped, 4 and 5, over a later corpus",
}
"""Scores compare within one file: the corpus grew between them, and its questions with it."""
CONTENDERS = ("dense", "rrf", "product")
TIMED = 20
REPEATS = 5
METRIC = "nDCG@10"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--indexes", nargs="+", default=["small", "corpus"])
    parser.add_argument("--work", type=Path, default=default_work())
    arguments = parser.parse_args()
    if not arguments.model:
        record = json.loads(MEASURED_FILE.read_text())
        report.write("models", COMMAND, _tables(record["models"]), record)
        return
    machine = report.machine()
    models = {
        name: Path(folder) for name, _, folder in (each.partition("=") for each in arguments.model)
    }
    found = {
        name: {"bytes": (folder / MODEL_FILE).stat().st_size}
        | _scores(OnnxEmbedder(folder), arguments.indexes, arguments.work)
        for name, folder in models.items()
    }
    seconds = _query_seconds(models)
    for name, took in seconds.items():
        found[name]["query_ms"] = 1e3 * took
    report.write("models", COMMAND, _tables(found), {"machine": machine, "models": found})


def _tables(found: dict[str, Any]) -> str:
    tables = [_models_table(found)]
    for name, title in TRIALS_FILES.items():
        trials = json.loads((report.RESULTS / name).read_text())
        tables.append(
            f"{title}, dense alone, nDCG@10 on the development half:\n\n{_trials_table(trials)}"
        )
    return "\n\n".join(tables)


def _scores(embedder: OnnxEmbedder, indexes: Sequence[str], work: Path) -> dict[str, Any]:
    scores: dict[str, Any] = {"embedder": embedder.name, "parts": {}}
    for index in indexes:
        built = build_index(index, work, embedder)
        with opened(built.folder) as corpus:
            for plan in PARTS:
                if plan.index != index or plan.name.startswith("unanswerable"):
                    continue
                part = Part(plan.name, plan.title, tuple(plan.cases(built, corpus)), plan.kinds)
                runs = evaluate(part, corpus, embedder, CONTENDERS)
                scores["parts"][plan.name] = {
                    run.contender: _by_style(run.outcomes) for run in runs
                }
    return scores


def _by_style(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Mean nDCG@10 without abstention, which is calibrated for one model, of all and by style."""
    values: dict[str, list[float]] = {"": []}
    for outcome in outcomes:
        measured = outcome.unjudged or outcome.metrics
        if measured:
            values[""].append(measured[METRIC])
            style = outcome.case.labels.get("style")
            if style:
                values.setdefault(style, []).append(measured[METRIC])
    return {name: {"mean": float(np.mean(v)), "queries": len(v)} for name, v in values.items()}


def _query_seconds(models: dict[str, Path]) -> dict[str, float]:
    """Median seconds of `TIMED` queries one after another, the models in turn."""
    from benchmarks.embedder.mining import functions

    queries = [function.summary for function in functions()[:TIMED]]
    embedders = {name: OnnxEmbedder(folder) for name, folder in models.items()}

    def ask(embedder: OnnxEmbedder) -> None:
        for query in queries:
            embedder.embed_query(query)

    contenders = {name: (lambda each=each: ask(each)) for name, each in embedders.items()}
    return {name: median(took) / TIMED for name, took in interleaved(contenders, REPEATS).items()}


def _models_table(found: dict[str, Any]) -> str:
    parts = list(next(iter(found.values()))["parts"])
    rows = []
    for name, each in found.items():
        for contender in CONTENDERS:
            cells = [f"{each['parts'][part][contender]['']['mean']:.3f}" for part in parts]
            rows.append(
                [name, contender, *cells, f"{each['bytes'] / 1e6:.1f}", f"{each['query_ms']:.1f}"]
            )
    header = ["model", "search", *parts, "MB", "ms of a query"]
    text = "nDCG@10, both halves, without abstention:\n\n" + report.table(header, rows)
    styled = [part for part in parts if part.startswith("techniques")]
    for part in styled:
        styles = [style for style in next(iter(found.values()))["parts"][part]["dense"] if style]
        rows = [
            [name, contender]
            + [f"{each['parts'][part][contender][style]['mean']:.3f}" for style in styles]
            for name, each in found.items()
            for contender in ("dense", "product")
        ]
        text += f"\n\n`{part}` by style:\n\n" + report.table(["model", "search", *styles], rows)
    return text


def _trials_table(trials: dict[str, Any]) -> str:
    """Every trial, dense, on the development half, best first by functions and techniques."""
    names = ("functions-small", "functions", "kernels", "techniques", "techniques-corpus")
    rows = []
    for name, each in trials.items():
        scores = each["scores"]
        trial = each["trial"]
        mix = trial.get("mix")
        made = (
            " + ".join(f"{share:g} {of}" for share, of in mix)
            if mix
            else "as published"
            if name == "start"
            else "as released"
            if not each.get("seconds")
            else f"{trial['steps']} steps of {trial['batch']}, rate {trial['learning_rate']:g}"
            + _peculiar(trial)
        )
        rows.append([name, made, *(f"{scores[part][''][0]:.3f}" for part in names)])
    header = ["trial", "made", *names]
    return report.table(header, rows)


def _peculiar(trial: dict[str, Any]) -> str:
    """What sets a trial apart from the plainest one."""
    parts = [
        ", words alone" if trial.get("reads") == "words" else "",
        f", temperature {trial['temperature']:g}" if trial["temperature"] != 0.05 else "",
        ", mined negatives" if trial["mine_at"] else "",
        ", batches of like pairs" if trial.get("cluster_at") else "",
        f", {trial['encoder']}" if trial.get("encoder", "minilm") != "minilm" else "",
        f", from {trial['start']}" if trial.get("start") else "",
        f", taught by {' and '.join(trial['teachers'])}" if trial.get("teachers") else "",
    ]
    return "".join(parts)


if __name__ == "__main__":
    main()
