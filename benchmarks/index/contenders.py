"""Who searches in `scale`: this project, and embedding with Chroma's collection alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.index.material import ARCHITECTURES
from benchmarks.server.bare import K, bare_search
from kb.embedders.onnx import OnnxEmbedder
from kb.index.reader import open_generation
from kb.search.engine import Searcher
from kb.search.models import Filters

# Chroma's own default; the collection has a wider one.
EF_SEARCH = 100
UNFILTERED = "none"
# Ours and Chroma's way to say it. Architectures are scattered, sources stand in one stretch; Chroma
# knows of no GPU that runs what was written for an older one.
FILTERS: dict[str, tuple[Filters, dict[str, Any]]] = {
    "1 % (source)": (Filters(sources=["one"]), {"source": "one"}),
    "30 % (source)": (Filters(sources=["thirty"]), {"source": "thirty"}),
    "30 % (architecture)": (
        Filters(architectures=[ARCHITECTURES["thirty"].rstrip("a")]),
        {"source": {"$in": ["one", "thirty"]}},
    ),
}
_Search = Callable[[str, str], Any]


@contextmanager
def _ours(index: Path) -> Iterator[_Search]:
    searcher = Searcher(open_generation(index), OnnxEmbedder())
    searcher.nearest.prepare()  # as a server does

    def search(query: str, kept: str) -> Any:
        return searcher.search(query, K, FILTERS[kept][0] if kept in FILTERS else None)

    yield search
    searcher.close()


@contextmanager
def _bare(index: Path) -> Iterator[_Search]:
    with bare_search(index, EF_SEARCH) as asked:

        def search(query: str, kept: str) -> Any:
            return asked(query, FILTERS[kept][1] if kept in FILTERS else None)

        yield search


CONTENDERS: dict[str, Callable[[Path], AbstractContextManager[_Search]]] = {
    "kb": _ours, "bare": _bare,
}  # fmt: skip


def memory_bytes(name: str) -> int:
    """A figure of this process: `VmHWM`, the peak of its memory, or `VmRSS`."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def serve(name: str, index: str, connection: Connection) -> None:
    """Open, say what that took, and answer each query with what it took, until None comes."""
    start = time.perf_counter()
    with CONTENDERS[name](Path(index)) as search:
        opened = time.perf_counter() - start
        search("warm up the kernel", UNFILTERED)
        connection.send({"open_s": opened, "first_answer_s": time.perf_counter() - start})
        while (asked := connection.recv()) is not None:
            start, spent = time.perf_counter(), time.process_time()
            search(*asked)
            connection.send(
                {
                    "ms": (time.perf_counter() - start) * 1e3,
                    "processor_ms": (time.process_time() - spent) * 1e3,
                }
            )
        sizes = {"peak_gib": "VmHWM", "resident_gib": "VmRSS"}
        connection.send({key: memory_bytes(name) / 2**30 for key, name in sizes.items()})
