"""The Chroma collection of a generation: vectors, texts and metadata, and approximate search."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.records import Chunk

COLLECTION = "chunks"
# Above this share of changed chunks a fresh graph is quicker than edits to a copy.
REBUILD_SHARE = 0.3
_BATCH = 1000
# Chunks after which Chroma writes its graph and its list of ids to disk. It writes the whole list
# each time, which at its own 1,000 takes longer than the graph from 100,000 chunks on. What comes
# after the last write is put into the graph again by everyone who opens the collection.
_WRITE_EVERY = 50_000
_MIN_WRITE = 1_000
# Chunks whose metadata is read at once.
PAGE = 10_000
# Candidates are rescored exactly; a wide search keeps the graph's recall near 1.
_SEARCH_WIDTH = 200
_DATABASE = "chroma.sqlite3"
_FULL_TEXT = "embedding_fulltext_search"
_SKIPPED = frozenset({"embeddings", "embedding_metadata", "embedding_metadata_array", _FULL_TEXT})


def _client(folder: Path) -> Any:
    import chromadb  # noqa: PLC0415 - takes a second to import
    from chromadb.config import Settings  # noqa: PLC0415

    settings = Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(str(folder), settings=settings)


@contextmanager
def open_collection(folder: Path, *, expected: int | None = None) -> Iterator[Any]:
    """Open the collection in a folder that nobody else reads, and close it again.

    With `expected`, the number of chunks to come, it is created.

    Opening takes a write lock inside Chroma's database, so a published generation is never
    opened in place: see `ChromaSearch`.
    """
    client = _client(folder)
    try:
        if expected is not None:
            graph = {
                "space": "cosine",
                "ef_search": _SEARCH_WIDTH,
                "sync_threshold": max(expected // _parts(expected), _MIN_WRITE),
            }
            yield client.create_collection(
                COLLECTION, configuration={"hnsw": graph}, embedding_function=None
            )
        else:
            yield client.get_collection(COLLECTION, embedding_function=None)
    finally:
        client.close()


_REQUIRED = ("kind", "source", "title", "path", "start_line", "end_line", "language")
_OPTIONAL = ("symbol", "entry", "section", "op")
_LISTS = ("techniques", "bottlenecks", "architectures", "dtypes")


def _metadata(chunk: Chunk) -> dict[str, Any]:
    values = {name: getattr(chunk, name) for name in _REQUIRED} | {"digest": chunk.digest()}
    optional = {name: getattr(chunk, name) for name in _OPTIONAL}
    lists = {name: list(getattr(chunk, name)) for name in _LISTS}
    # Chroma refuses an empty list.
    return values | {name: value for name, value in (optional | lists).items() if value}


def _parts(count: int) -> int:
    """How many times the graph of so many chunks is written: equal parts, the last one whole."""
    return max(round(count / _WRITE_EVERY), 1)


def upsert(collection: Any, chunks: Sequence[Chunk], vectors: NDArray[np.float32]) -> None:
    """Put chunks and their vectors (n, d) into a collection."""
    bounds = np.linspace(0, len(chunks), _parts(len(chunks)) + 1, dtype=int).tolist()
    for first, last in pairwise(bounds):
        for start in range(first, last, _BATCH):
            end = min(start + _BATCH, last)
            batch = chunks[start:end]
            collection.upsert(
                ids=[chunk.id for chunk in batch],
                embeddings=vectors[start:end],
                documents=[chunk.text for chunk in batch],
                metadatas=[_metadata(chunk) for chunk in batch],
            )


def copy_files(folder: Path, target: Path) -> None:
    """Copy a closed folder of Chroma's without its modes: a published one may be read-only."""
    target.mkdir(parents=True)
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            (target / path.relative_to(folder)).mkdir()
        else:
            shutil.copyfile(path, target / path.relative_to(folder))


def write_collection(
    folder: Path, chunks: Sequence[Chunk], vectors: NDArray[np.float32], former: Path | None = None
) -> None:
    """Write the collection for `chunks` and their `vectors` (n, d) into a new folder.

    With `former`, the closed folder of an older generation, a copy of it is brought up to date
    where few chunks changed; otherwise the collection is built afresh.
    """
    if former is not None and _update_copy(folder, chunks, vectors, former):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with open_collection(folder, expected=len(chunks)) as collection:
        upsert(collection, chunks, vectors)


def _digests(collection: Any) -> dict[str, str]:
    """Id → digest of every chunk in the collection.

    In pages: Chroma asks its database for the metadata of all ids of a page in one statement, and
    SQLite takes 32,766 values in one.
    """
    digests: dict[str, str] = {}
    for start in range(0, collection.count(), PAGE):
        stored = collection.get(include=["metadatas"], limit=PAGE, offset=start)
        pairs = zip(stored["ids"], stored["metadatas"], strict=True)
        digests |= {key: metadata["digest"] for key, metadata in pairs}
    return digests


def _update_copy(
    folder: Path, chunks: Sequence[Chunk], vectors: NDArray[np.float32], former: Path
) -> bool:
    copy_files(former, folder)
    with open_collection(folder) as collection:
        digests = _digests(collection)
        current_ids = {chunk.id for chunk in chunks}
        deleted = [key for key in digests if key not in current_ids]
        rows = [row for row, chunk in enumerate(chunks) if digests.get(chunk.id) != chunk.digest()]
        if len(deleted) + len(rows) > REBUILD_SHARE * max(len(chunks), 1):
            return False
        for start in range(0, len(deleted), _BATCH):
            collection.delete(ids=deleted[start : start + _BATCH])
        if rows:
            upsert(collection, [chunks[row] for row in rows], vectors[rows])
    return True


def _copy_graph(folder: Path, target: Path) -> None:
    """Copy a closed folder of Chroma's without texts and metadata, which a search does not need.

    They are nine tenths of it and more. Every other table is copied, whatever it is for.
    """
    target.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            copy_files(path, target / path.name)
    full = f"{(folder / _DATABASE).resolve().as_uri()}?mode=ro&immutable=1"
    connection = sqlite3.connect(f"{(target / _DATABASE).resolve().as_uri()}", uri=True)
    with contextlib.closing(connection):
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("ATTACH ? AS whole", (full,))
        schema = "SELECT type, name, sql FROM whole.sqlite_master WHERE sql IS NOT NULL"
        for kind, name, sql in connection.execute(f"{schema} ORDER BY type = 'index'").fetchall():
            if name.startswith(f"{_FULL_TEXT}_"):
                continue  # parts of a table that makes them itself
            connection.execute(sql)
            if kind == "table" and name not in _SKIPPED:
                copy_rows = f'INSERT INTO main."{name}" SELECT * FROM whole."{name}"'  # noqa: S608 - Chroma's own names
                connection.execute(copy_rows)
        connection.commit()


class ChromaSearch:
    """Approximate nearest neighbours from a published collection, through a private view.

    The view is a temporary copy: merely opening a folder writes to Chroma's database, and opens its
    graph files for writing, also through links.
    """

    def __init__(self, folder: Path, dimensions: int) -> None:
        self._view = tempfile.TemporaryDirectory(prefix="kernel-kb-")
        for number, copy in enumerate((_copy_graph, copy_files)):
            view = Path(self._view.name) / str(number)
            copy(folder, view)
            self._client = _client(view)
            self._collection = self._client.get_collection(COLLECTION, embedding_function=None)
            # A version of Chroma that does need its texts to search gets all of them.
            if self.nearest(np.eye(1, dimensions, dtype=np.float32)[0], 1):
                return
            self._client.close()

    def nearest(self, query: NDArray[np.float32], k: int) -> list[str]:
        """Ids of about the k nearest chunks to a unit-length query (d,)."""
        answer = self._collection.query(query_embeddings=query[None, :], n_results=k, include=[])
        ids: list[str] = answer["ids"][0]
        return ids

    def close(self) -> None:
        """Close the client and delete the view."""
        self._client.close()
        self._view.cleanup()
