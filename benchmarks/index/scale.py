"""Beyond one machine's memory: `python -m benchmarks.index.scale [--sizes N ...]`.

For indexes of 10⁴, 10⁵ and 10⁶ chunks: seconds and memory of writing, size on disk, time to open,
time of a search and of filtered ones, memory of a process that searches; beside one that embeds the
query and asks Chroma for the nearest chunks of the same collection. Each searches in a process of
its own; the two take turns, query by query, so that both meet the same load.

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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.index.material import ARCHITECTURES, index_folder, prepare_state, questions
from benchmarks.results import Figure, load, machine, publish, save, table
from benchmarks.server.bare import K, bare_search
from kb.embedders.onnx import OnnxEmbedder
from kb.index import build, writer
from kb.index.layout import IndexLayout
from kb.index.reader import open_generation
from kb.search.engine import Searcher
from kb.search.models import Filters

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

# Chroma's own default; the collection has a wider one.
EF_SEARCH = 100
UNFILTERED = "none"
# Our filter and Chroma's. Architectures are scattered, sources are contiguous; Chroma does not know
# that a GPU runs code for older ones.
FILTERS: dict[str, tuple[Filters | None, dict[str, Any] | None]] = {
    UNFILTERED: (None, None),
    "1 % (source)": (Filters(sources=["one"]), {"source": "one"}),
    "30 % (source)": (Filters(sources=["thirty"]), {"source": "thirty"}),
    "30 % (architecture)": (
        Filters(architectures=[ARCHITECTURES["thirty"].rstrip("a")]),
        {"source": {"$in": ["one", "thirty"]}},
    ),
}
_Search = Callable[[str, str], Any]


@contextmanager
def _kb_search(index: Path) -> Iterator[_Search]:
    searcher = Searcher(open_generation(index), OnnxEmbedder())
    searcher.nearest.prepare()  # as a server does
    yield lambda query, filter_name: searcher.search(query, K, FILTERS[filter_name][0])
    searcher.close()


@contextmanager
def _bare_search(index: Path) -> Iterator[_Search]:
    with bare_search(index, EF_SEARCH) as search:
        yield lambda query, filter_name: search(query, FILTERS[filter_name][1])


CONTENDERS: dict[str, Callable[[Path], AbstractContextManager[_Search]]] = {
    "kb": _kb_search, "bare": _bare_search,
}  # fmt: skip


def memory_bytes(name: str) -> int:
    """A figure of this process: `VmHWM`, the peak of its memory, or `VmRSS`."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def serve(name: str, index: str, connection: Connection) -> None:
    """Open the index, then search for each query until None comes; reply with the times."""
    start = time.perf_counter()
    with CONTENDERS[name](Path(index)) as search:
        opened = time.perf_counter() - start
        search("warm up the kernel", UNFILTERED)
        connection.send({"open_s": opened, "first_answer_s": time.perf_counter() - start})
        while (request := connection.recv()) is not None:
            start, processor_start = time.perf_counter(), time.process_time()
            search(*request)
            ms = (time.perf_counter() - start) * 1e3
            processor_ms = (time.process_time() - processor_start) * 1e3
            connection.send({"ms": ms, "processor_ms": processor_ms})
        sizes = {"peak_gib": "VmHWM", "resident_gib": "VmRSS"}
        connection.send({key: memory_bytes(name) / 2**30 for key, name in sizes.items()})


def write(count: int) -> None:
    """Write the index of `count` chunks, and the times of its stages beside it."""
    index = index_folder(count)
    shutil.rmtree(index, ignore_errors=True)
    state = prepare_state(count, index)
    stages: dict[str, dict[str, float]] = {}

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **options: Any) -> Any:
            Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
            start, processor_start = time.perf_counter(), time.process_time()
            result = work(*arguments, **options)
            stages[name] = {
                "seconds": time.perf_counter() - start,
                "processor_seconds": time.process_time() - processor_start,
                "peak_mb": memory_bytes("VmHWM") / 1e6,
            }
            print(f"{count:,} chunks: {name} {stages[name]}", flush=True)
            return result

        return measured

    for module, function, name in _STAGES:
        setattr(module, function, timed(name, getattr(module, function)))
    embedder = OnnxEmbedder()
    with writer.IndexWriter(index) as output:
        vectors, computed = timed("vectors from the cache", output.embed)(state.chunks, embedder)
        content = timed("content", state.content)(embedder.name)
        output.publish(state, vectors, embedder.name, content=content)
    if computed:
        raise SystemExit(f"{computed} vectors were not in the cache: the times include theirs")
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    stages["check"]["peak_mb_of_child"] = child.ru_maxrss * 1024 / 1e6
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

    def ask(self, query: str, filter_name: str) -> dict[str, float]:
        """Search once; the times."""
        self._connection.send((query, filter_name))
        answer: dict[str, float] = self._connection.recv()
        return answer

    def close(self) -> dict[str, float]:
        """End the process; the memory that it used."""
        self._connection.send(None)
        memory: dict[str, float] = self._connection.recv()
        self._process.join()
        return memory


def measure(index: Path, queries: list[str]) -> dict[str, Any]:
    """Times and memory of each contender, by filter."""
    results: dict[str, Any] = {}
    for filter_name in FILTERS:
        contenders = {name: _Contender(name, index) for name in CONTENDERS}
        times: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
        for round_ in range(ROUNDS + 1):
            for query in queries if filter_name == UNFILTERED else queries[::4]:
                for name, contender in contenders.items():
                    answer = contender.ask(query, filter_name)
                    if round_:  # the first round warms up
                        times[name].append(answer)
        results[filter_name] = {}
        for name, contender in contenders.items():
            ms, busy_ms = ([reply[key] for reply in times[name]] for key in ("ms", "processor_ms"))
            result = contender.opened | contender.close()
            result |= {f"p{rank}_ms": float(np.percentile(ms, rank)) for rank in (50, 99)}
            result["p50_processor_ms"] = float(np.median(busy_ms))
            results[filter_name][name] = result
    return results


def _size_mb(part: Path) -> float:
    files = (path for path in (part, *part.rglob("*")) if path.is_file())
    return sum(path.stat().st_size for path in files) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks")
    parser.add_argument("--again", action="store_true", help="write the indexes anew")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    host = machine()
    queries = questions(QUERIES)
    sizes: dict[str, Any] = {}
    for count in options.sizes:
        index = index_folder(count)
        if options.again or not (index / WRITTEN).is_file():
            # In a process of its own, whose memory is that of writing.
            subcommand = [sys.executable, "-m", "benchmarks.index.scale", "--write", str(count)]
            subprocess.run(subcommand, check=True)
        name = IndexLayout(index).current()
        assert name is not None
        parts = sorted(IndexLayout(index).generation(name).iterdir())
        sizes[str(count)] = {
            "written": load(index / WRITTEN),
            "mb": {part.name: _size_mb(part) for part in parts},
            "searched": measure(index, queries),
        }
    text, figures = report(sizes)
    command = "python -m benchmarks.index.scale"
    publish(RESULTS / "scale", command, text, {"machine": host, "sizes": sizes}, figures)


_WRITING = (
    "chunks", "s per 10⁵", "processor s per 10⁵", "peak GB, writer", "peak GB, check",
    "GB on disk", "of which Chroma's",
)  # fmt: skip
_SEARCHING = (
    "chunks", "filter", "s to open", "p50 ratio", "p50 ms", "p99 ms", "processor ms, p50",
    "peak GiB",
)  # fmt: skip


def report(sizes: dict[str, Any]) -> tuple[str, list[Figure]]:
    """The page and the figures that have targets."""
    figures: list[Figure] = []
    written, stages, searched = [], [], []
    for size, record in sizes.items():
        count, costs = int(size), record["written"]["stages"]
        share = 1e5 / count
        seconds = sum(stage["seconds"] for stage in costs.values())
        processor = sum(stage["processor_seconds"] for stage in costs.values())
        peak = max(stage["peak_mb"] for stage in costs.values())
        check, disk = costs["check"]["peak_mb_of_child"], sum(record["mb"].values())
        sizes_mb = (peak, check, disk, record["mb"]["chroma"])
        written.append(
            [f"{count:,}", f"{seconds * share:.0f}", f"{processor * share:.0f}"]
            + [f"{megabytes / 1e3:.2f}" for megabytes in sizes_mb]
        )
        stages.append([f"{count:,}", *(f"{stage['seconds']:.0f}" for stage in costs.values())])
        for filter_name, contenders in record["searched"].items():
            ours, bare = contenders["kb"], contenders["bare"]
            ratio = ours["p50_ms"] / bare["p50_ms"]
            opened, *times = (
                f"{ours[key]:.1f} / {bare[key]:.1f}"
                for key in ("open_s", "p50_ms", "p99_ms", "p50_processor_ms")
            )
            memory = f"{ours['peak_gib']:.2f} / {bare['peak_gib']:.2f}"
            searched.append([f"{count:,}", filter_name, opened, f"{ratio:.2f}", *times, memory])
            label = f"{count:,} chunks, {filter_name}"
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
            "Writing a generation:\n\n" + table(_WRITING, written),
            "Seconds by stage:\n\n" + table(["chunks", *first], stages),
            "Searching, kb / bare:\n\n" + table(_SEARCHING, searched),
        )
    )
    return text, figures


if __name__ == "__main__":
    main()
