"""Who searches in `scale`: this project, and embedding with Chroma's collection alone."""

import shutil
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.index.material import ARCHITECTURES
from kb.embedders.onnx import OnnxEmbedder
from kb.index.chroma import open_collection
from kb.index.reader import open_generation
from kb.search.engine import Searcher
from kb.search.models import Filters

K = 10
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


def _ours(index: Path, _scratch: Path) -> _Search:
    searcher = Searcher(open_generation(index), OnnxEmbedder())
    searcher.nearest.prepare()  # as a server does

    def search(query: str, kept: str) -> Any:
        return searcher.search(query, K, FILTERS[kept][0] if kept in FILTERS else None)

    return search


def _bare(index: Path, scratch: Path) -> _Search:
    generation = open_generation(index)
    folder = Path(shutil.copytree(generation.chroma_folder, scratch / "chroma"))
    generation.close()
    embedder = OnnxEmbedder()
    with open_collection(folder) as collection:
        collection.modify(configuration={"hnsw": {"ef_search": EF_SEARCH}})
    held = open_collection(folder)
    collection = held.__enter__()

    def search(query: str, kept: str) -> Any:
        return collection.query(
            query_embeddings=[embedder.embed_query(query)],
            n_results=K,
            where=FILTERS[kept][1] if kept in FILTERS else None,
            include=["documents", "metadatas", "distances"],
        )

    search.held = held  # type: ignore[attr-defined]  # else the client would close
    return search


CONTENDERS: dict[str, Callable[[Path, Path], _Search]] = {"kb": _ours, "bare": _bare}


def _memory_gib(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) / 2**20


def serve(name: str, index: str, connection: Connection) -> None:
    """Open, say what that took, and answer each query with what it took, until None comes."""
    with tempfile.TemporaryDirectory(prefix="kernel-kb-") as scratch:
        start = time.perf_counter()
        search = CONTENDERS[name](Path(index), Path(scratch))
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
        connection.send({"peak_gib": _memory_gib("VmHWM"), "resident_gib": _memory_gib("VmRSS")})
