"""Beyond one machine's memory: `python -m benchmarks.index.scale [--sizes N ...]`.

For indexes of 10⁴, 10⁵ and 10⁶ chunks: seconds and memory of writing, size on disk, time to open,
time of a search and of filtered ones, memory of a process that searches; beside one that embeds the
query and asks Chroma for the nearest chunks of the same collection. Whoever searches does so in a
process of its own; the two take turns, query by query, so that both meet the same load.

An index is written once and kept; `--again` writes it anew. 10⁶ chunks take about an hour on
two idle cores, and 30 GB of disk while they are written.
"""

import argparse
import multiprocessing
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.index.contenders import CONTENDERS, FILTERS, UNFILTERED, memory_bytes, serve
from benchmarks.index.material import index_folder, prepared, questions
from benchmarks.results import Figure, load, machine, publish, save, table
from kb.embedders.onnx import OnnxEmbedder
from kb.index import build, writer
from kb.index.layout import IndexLayout

RESULTS = Path(__file__).with_name("results")
SIZES = (10_000, 100_000, 1_000_000)
QUERIES = 100
ROUNDS = 2
TIME_TARGET = 4.0
MEMORY_TARGET_GIB = 4.0
WRITTEN = "written.json"
_STAGES = (
    (build, "write_chunks", "chunks"),
    (build, "write_columns", "columns"),
    (build, "write_vectors", "vectors"),
    (build, "write_lexical", "words"),
    (build, "write_collection", "Chroma"),
    (build, "digests_of", "digests"),
    (writer, "check_in_child", "check"),
    (writer, "_sync_tree", "sync"),
)


def write(count: int) -> None:
    """Write the index of `count` chunks, and beside it what its stages took."""
    index = index_folder(count)
    shutil.rmtree(index, ignore_errors=True)
    state = prepared(count, index)
    stages: dict[str, dict[str, float]] = {}

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Any:
            Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
            start, spent = time.perf_counter(), time.process_time()
            found = work(*arguments, **named)
            stages[name] = {
                "seconds": time.perf_counter() - start,
                "processor_seconds": time.process_time() - spent,
                "peak_mb": memory_bytes("VmHWM") / 1e6,
            }
            print(f"{count:,} chunks: {name} {stages[name]}", flush=True)
            return found

        return measured

    for module, function, name in _STAGES:
        setattr(module, function, timed(name, getattr(module, function)))
    embedder = OnnxEmbedder()
    with writer.IndexWriter(index) as one:
        embed = timed("vectors from the cache", one.embed)
        vectors, computed = embed(state.chunks, embedder)
        content = timed("content", state.content)(embedder.name)
        one.publish(state, vectors, embedder.name, content=content)
    if computed:
        raise SystemExit(
            f"{computed} vectors were not in the cache: the times are not those of writing"
        )
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    stages["check"]["peak_mb_of_child"] = child
    save(index / WRITTEN, {"machine": machine(), "count": count, "stages": stages})


class _Contender:
    """A process that opens an index and answers queries one at a time."""

    def __init__(self, name: str, index: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection: Connection
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(name, str(index), other))
        self._process.start()
        other.close()
        self.opened: dict[str, float] = self._connection.recv()

    def ask(self, query: str, kept: str) -> dict[str, float]:
        """What one search took."""
        self._connection.send((query, kept))
        answer: dict[str, float] = self._connection.recv()
        return answer

    def close(self) -> dict[str, float]:
        """End it; its memory."""
        self._connection.send(None)
        memory: dict[str, float] = self._connection.recv()
        self._process.join()
        return memory


def measure(index: Path, queries: list[str]) -> dict[str, Any]:
    """Times and memory of each contender, by filter."""
    found: dict[str, Any] = {}
    for kept in (UNFILTERED, *FILTERS):
        contenders = {name: _Contender(name, index) for name in CONTENDERS}
        took: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
        for turn in range(ROUNDS + 1):
            for query in queries if kept == UNFILTERED else queries[::4]:
                for name, contender in contenders.items():
                    answer = contender.ask(query, kept)
                    if turn:  # the first round warms up
                        took[name].append(answer)
        found[kept] = {
            name: {
                **contender.opened,
                **contender.close(),
                **{
                    f"p{share}_ms": float(np.percentile([each["ms"] for each in took[name]], share))
                    for share in (50, 99)
                },
                "p50_processor_ms": float(np.median([each["processor_ms"] for each in took[name]])),
            }
            for name, contender in contenders.items()
        }
    return found


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks")
    parser.add_argument("--again", action="store_true", help="write the indexes anew")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    where = machine()
    queries = questions(QUERIES)
    sizes: dict[str, Any] = {}
    for count in options.sizes:
        index = index_folder(count)
        if options.again or not (index / WRITTEN).is_file():
            # In a process of its own, whose memory is that of writing.
            module = [sys.executable, "-m", "benchmarks.index.scale", "--write", str(count)]
            subprocess.run(module, check=True)
        name = IndexLayout(index).current()
        assert name is not None
        folder = IndexLayout(index).generation(name)
        sizes[str(count)] = {
            "written": load(index / WRITTEN),
            "mb": {path.name: _size_mb(path) for path in sorted(folder.iterdir()) if path.is_dir()}
            | {path.name: path.stat().st_size / 1e6 for path in folder.iterdir() if path.is_file()},
            "searched": measure(index, queries),
        }
    text, figures = report(sizes)
    command = "python -m benchmarks.index.scale"
    publish(RESULTS / "scale", command, text, {"machine": where, "sizes": sizes}, figures)


def report(sizes: dict[str, Any]) -> tuple[str, list[Figure]]:
    """The page and the figures that have targets."""
    figures: list[Figure] = []
    written, stages, searched = [], [], []
    for size, record in sizes.items():
        count, took = int(size), record["written"]["stages"]
        share = 1e5 / count
        whole = sum(each["seconds"] for each in took.values())
        busy = sum(each["processor_seconds"] for each in took.values())
        peak = max(each["peak_mb"] for each in took.values())
        written.append(
            [
                f"{count:,}",
                f"{whole * share:.0f}",
                f"{busy * share:.0f}",
                f"{peak / 1e3:.2f}",
                f"{took['check']['peak_mb_of_child'] / 1e3:.2f}",
                f"{sum(record['mb'].values()) / 1e3:.2f}",
                f"{record['mb']['chroma'] / 1e3:.2f}",
            ]
        )
        stages.append([f"{count:,}", *(f"{each['seconds']:.0f}" for each in took.values())])
        for kept, by in record["searched"].items():
            ours, bare = by["kb"], by["bare"]
            ratio = ours["p50_ms"] / bare["p50_ms"]
            searched.append(
                [
                    f"{count:,}",
                    kept,
                    f"{ours['open_s']:.1f} / {bare['open_s']:.1f}",
                    f"{ratio:.2f}",
                    f"{ours['p50_ms']:.1f} / {bare['p50_ms']:.1f}",
                    f"{ours['p99_ms']:.1f} / {bare['p99_ms']:.1f}",
                    f"{ours['p50_processor_ms']:.1f} / {bare['p50_processor_ms']:.1f}",
                    f"{ours['peak_gib']:.2f} / {bare['peak_gib']:.2f}",
                ]
            )
            label = f"{count:,} chunks, {kept}"
            figures.append(Figure(f"search ÷ bare Chroma, {label}", ratio, TIME_TARGET, False))
            figures.append(
                Figure(f"peak memory, {label}", ours["peak_gib"], MEMORY_TARGET_GIB, False, "GiB")
            )
    first = next(iter(sizes.values()))["written"]["stages"]
    text = "\n\n".join(
        (
            "Real chunks up to 100,000, then chunks joined of two of them; vectors of the model "
            "for the corpus and 600 chunks, and near to those for all others "
            "(`benchmarks/index/material.py`). No text is embedded in these times. `kb` is a whole "
            "`Searcher.search`, `bare` the same embedder and `collection.query` of the same "
            "collection with its documents, at Chroma's own `ef_search` of 100; k = 10.",
            "Writing a generation:\n\n"
            + table(
                [
                    "chunks",
                    "s per 10⁵",
                    "processor s per 10⁵",
                    "peak GB, writer",
                    "peak GB, check",
                    "GB on disk",
                    "of which Chroma's",
                ],
                written,
            ),
            "Seconds by stage:\n\n" + table(["chunks", *first], stages),
            "Searching, kb / bare:\n\n"
            + table(
                [
                    "chunks",
                    "filter",
                    "s to open",
                    "p50 ratio",
                    "p50 ms",
                    "p99 ms",
                    "processor ms, p50",
                    "peak GiB",
                ],
                searched,
            ),
        )
    )
    return text, figures


if __name__ == "__main__":
    main()
