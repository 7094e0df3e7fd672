"""The slice that `make test` runs: few queries, no network, compared query by query with a record.

It searches the shipped corpus and a small package that was written for it
(`tests/benchmarks/retrieval_package`): each function there by its own first sentence, and the
technique queries of the development half. `python -m benchmarks.retrieval.slice` records anew.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.retrieval.cases import Part
from benchmarks.retrieval.evaluate import Run, evaluate
from benchmarks.retrieval.functions import documented_cases
from benchmarks.retrieval.indexes import BuiltIndex, Corpus, open_index
from benchmarks.retrieval.judgements import technique_cases
from benchmarks.retrieval.material import read_tree
from benchmarks.retrieval.metrics import Interval, interval
from ingest.corpus_source import corpus_state
from ingest.tagging import detector_of
from kb.corpus.loader import shipped_corpus
from kb.embedders import Embedder, load_embedder
from kb.index.writer import IndexWriter
from kb.records import Kind

PACKAGE = Path(__file__).parents[2] / "tests" / "benchmarks" / "retrieval_package"
RECORD = Path(__file__).with_name("results") / "slice.json"
CONTENDER = "product"
# The corpus's own kernels compete with the package's functions.
_CODE: frozenset[Kind] = frozenset({"code", "kernel"})


def build_slice(folder: Path, embedder: Embedder) -> BuiltIndex:
    """An index of the corpus and the package in `folder`, which is empty."""
    corpus = corpus_state(shipped_corpus())
    tree = folder / "package"
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in {".py", ".cu"}:
            target = tree / path.relative_to(PACKAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    material = read_tree(tree, "slice", detector_of(corpus), (), ())
    state = corpus.merged(material.state)
    with IndexWriter(folder / "index") as writer:
        vectors, _ = writer.embed(state.chunks, embedder)
        writer.publish(state, vectors, embedder.name)
    return BuiltIndex(folder / "index", {"slice": material})


def run_slice(
    built: BuiltIndex, corpus: Corpus, embedder: Embedder, contender: str = CONTENDER
) -> dict[str, Run]:
    """Part → the contender's run on it."""
    parts = (
        Part("functions", "", tuple(documented_cases(built, corpus)), _CODE),
        Part("techniques", "", tuple(c for c in technique_cases(corpus) if c.half == "dev")),
    )
    return {part.name: evaluate(part, corpus, embedder, [contender])[0] for part in parts}


def scores(run: Run) -> dict[str, float]:
    """nDCG@10 of every query, of the ranking alone: abstention has tests of its own."""
    return {o.case.id: round((o.unjudged or o.metrics)["nDCG@10"], 4) for o in run.outcomes}


def change(now: Mapping[str, float], recorded: Mapping[str, float]) -> Interval:
    """Mean change of the queries that both have, and its bootstrap interval.

    A regression is beyond noise when the whole interval lies below zero.
    """
    return interval([now[name] - recorded[name] for name in sorted(now.keys() & recorded.keys())])


def main() -> None:
    """Record what the product scores now."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    embedder = load_embedder()
    with tempfile.TemporaryDirectory() as folder:
        built = build_slice(Path(folder), embedder)
        with open_index(built.folder) as corpus:
            runs = run_slice(built, corpus, embedder)
    record = {"embedder": embedder.name, "nDCG@10": {n: scores(run) for n, run in runs.items()}}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, run in runs.items():
        print(f"{name}: {interval(list(scores(run).values()))}")


if __name__ == "__main__":
    main()
