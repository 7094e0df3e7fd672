"""Where a search's time goes: `python -m benchmarks.index.latency`.

The server's time of `Searcher.search` at `CHUNKS` chunks against the least that a vector database
alone would take: embedding the query and one query of a Chroma collection of the same chunks, in
turns; and the time of each stage of a search.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np

from benchmarks.embedder.report import table
from benchmarks.index.material import questions, sized_index
from benchmarks.index.report import Figure, machine, milliseconds, write
from kb.embedders.onnx import OnnxEmbedder
from kb.index.chroma import open_collection
from kb.index.lexical import LexicalIndex
from kb.index.reader import open_generation
from kb.index.store import ChunkStore
from kb.index.vectors import VectorMatrix
from kb.search import engine
from kb.search.engine import Searcher
from kb.search.entries import Entries
from kb.search.names import NamedRows
from kb.search.query import QueryReader

CHUNKS = 20_000
QUERIES = 40
ROUNDS = 10
K = 10
TARGET = 1.5

# Stage → the callables whose time it is. None of them calls another one of the list.
STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "embed the query": ((OnnxEmbedder, "embed_query"),),
    "lexical scores": ((LexicalIndex, "query_tokens"), (LexicalIndex, "scores")),
    "dense scores": ((VectorMatrix, "similarities"),),
    "best of each order": ((engine, "top"),),
    "understand the query": ((QueryReader, "read"),),
    "score whole entries": ((Entries, "score"),),
    "evidence for abstention": ((Searcher, "_coverage"), (engine, "relevance")),
    "rank: gates and names": ((engine, "Ranker"),),
    "rank: names": ((NamedRows, "definitions"),),
    "rank: adjust": ((Searcher, "_scored"),),
    "fold near-copies": ((Searcher, "_fold"),),
    "read the texts": ((ChunkStore, "rows"),),
    "make the results": ((engine, "to_result"),),
}


@contextmanager
def stopwatches() -> Iterator[dict[str, float]]:
    """Time every stage while the block runs; yields stage → milliseconds of one search."""
    spent = dict.fromkeys(STAGES, 0.0)

    def timed(stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call, updated=())
        def wrapper(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                spent[stage] += (time.perf_counter() - start) * 1e3

        return wrapper

    replaced = [
        (owner, name, getattr(owner, name), stage)
        for stage, calls in STAGES.items()
        for owner, name in calls
    ]
    for owner, name, call, stage in replaced:
        setattr(owner, name, timed(stage, call))
    try:
        yield spent
    finally:
        for owner, name, call, _ in replaced:
            setattr(owner, name, call)


def stages(searcher: Searcher, queries: list[str]) -> dict[str, float]:
    """Median milliseconds of each stage, and of the rest, over all queries and rounds."""
    seen: dict[str, list[float]] = {}
    with stopwatches() as spent:
        for _ in range(ROUNDS):
            for query in queries:
                spent.update(dict.fromkeys(spent, 0.0))
                total = searcher.search(query, K).took_ms
                for stage, value in {**spent, "the rest": total - sum(spent.values())}.items():
                    seen.setdefault(stage, []).append(value)
    return {stage: float(np.median(values)) for stage, values in seen.items()}


def main() -> None:
    where = machine()
    queries = list(questions()[:: max(len(questions()) // QUERIES, 1)][:QUERIES])
    generation = open_generation(sized_index(CHUNKS))
    embedder = OnnxEmbedder()
    searcher = Searcher(generation, embedder)
    took: dict[str, list[float]] = {"search": [], "embed": [], "chroma": []}
    with tempfile.TemporaryDirectory() as scratch:
        copy = copytree(generation.chroma_folder, Path(scratch) / "chroma")
        with open_collection(copy) as collection:
            vectors = {query: embedder.embed_query(query) for query in queries}
            contenders: dict[str, Callable[[str], object]] = {
                "search": lambda query: searcher.search(query, K),
                "embed": embedder.embed_query,
                "chroma": lambda query: collection.query(
                    query_embeddings=vectors[query][None, :], n_results=K
                ),
            }
            names = list(contenders)
            for turn in range(ROUNDS + 1):
                for number, query in enumerate(queries):
                    shift = (turn + number) % len(names)
                    for name in names[shift:] + names[:shift]:
                        spent = milliseconds(lambda name=name, query=query: contenders[name](query))
                        if turn:  # the first round warms up
                            took[name].append(spent)
    middle = {name: float(np.median(values)) for name, values in took.items()}
    least = middle["embed"] + middle["chroma"]
    by_stage = stages(searcher, queries)
    figures = [
        Figure("search ÷ (embed + bare Chroma query)", middle["search"] / least, TARGET, False)
    ]
    rows = [
        ["search, whole", f"{middle['search'] / least:.2f}", f"{middle['search']:.2f}"],
        ["embed the query", f"{middle['embed'] / least:.2f}", f"{middle['embed']:.2f}"],
        ["bare Chroma query", f"{middle['chroma'] / least:.2f}", f"{middle['chroma']:.2f}"],
    ]
    total = sum(by_stage.values())
    shares = [[stage, f"{value / total:.0%}", f"{value:.2f}"] for stage, value in by_stage.items()]
    text = (
        f"{CHUNKS:,} chunks, {len(queries)} questions, {ROUNDS} rounds in turns, k = {K}; p50.\n\n"
        + table(["call", "÷ (embed + Chroma)", "ms"], rows)
        + "\n\nStages of a search, in another run with a stopwatch around each:\n\n"
        + table(["stage", "share", "ms"], shares)
    )
    write("latency", where, figures, text, {"took_ms": took, "stage_ms": by_stage})


if __name__ == "__main__":
    main()
