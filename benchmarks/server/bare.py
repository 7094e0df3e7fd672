"""The least that any server on Chroma would do: embed the query, and one query of the collection.

As a module it is one process of the loop on all cores:
`python -m benchmarks.server.bare INDEX QUERIES SECONDS` waits for a line on standard input, then
prints how many queries it answered.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

from kb.embedders.onnx import OnnxEmbedder
from kb.index.chroma import open_collection
from kb.index.reader import open_generation

K = 10


@contextmanager
def bare_search(index: Path, ef_search: int | None = None) -> Iterator[Callable[..., Any]]:
    """Query text and Chroma's `where` (by default none) → its answer with documents and metadata,
    on a copy of its files. `ef_search` is how wide it searches; by default as the index says.
    """
    embedder = OnnxEmbedder()
    with tempfile.TemporaryDirectory(prefix="kernel-kb-") as scratch:
        generation = open_generation(index)
        folder = copytree(generation.chroma_folder, Path(scratch) / "chroma")
        generation.close()
        if ef_search is not None:  # counts from the next opening on
            with open_collection(folder) as collection:
                collection.modify(configuration={"hnsw": {"ef_search": ef_search}})
        with open_collection(folder) as collection:

            def search(query: str, where: dict[str, Any] | None = None) -> Any:
                vector = embedder.embed_query(query)
                return collection.query(
                    query_embeddings=[vector],
                    n_results=K,
                    where=where,
                    include=["documents", "metadatas", "distances"],
                )

            yield search


def main(index: str, queries: str, seconds: str) -> None:
    """Answer queries for so many seconds."""
    texts = json.loads(Path(queries).read_text())
    with bare_search(Path(index)) as search:
        search(texts[0])
        print("ready", flush=True)
        sys.stdin.readline()
        end, count = time.monotonic() + float(seconds), 0
        while time.monotonic() < end:
            search(texts[count % len(texts)])
            count += 1
    print(count, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
