"""Write the files of one generation into a folder that nobody reads yet."""

import datetime
import importlib.metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kb
from kb.index import layout
from kb.index.chroma import write_collection
from kb.index.columns import write_columns
from kb.index.lexical import write_lexical
from kb.index.manifest import Manifest, digests_of, write_manifest
from kb.index.state import IndexState
from kb.index.store import write_chunks
from kb.index.vectors import write_vectors


def build_generation(
    folder: Path,
    state: IndexState,
    vectors: NDArray[np.float32],
    *,
    embedder: str,
    content: str,
    former: Path | None = None,
) -> Manifest:
    """Write every file of a generation; `folder.name` is its name.

    Parameters
    ----------
    vectors
        One unit-length row per chunk of `state`, in its order, (n, d).
    content
        `state.content(embedder)`.
    former
        The current generation's folder, whose Chroma files may be copied and brought up to date.
    """
    folder.mkdir(parents=True)
    (folder / layout.SOURCES).write_text(state.sources_json(), encoding="utf-8")
    (folder / layout.ENTRIES).write_text(state.entries_json(), encoding="utf-8")
    write_chunks(folder / layout.CHUNKS, state.chunks)
    write_columns(folder / layout.COLUMNS, state.chunks)
    write_vectors(folder / layout.VECTORS, vectors)
    write_lexical(folder / layout.LEXICAL, state.chunks)
    write_collection(
        folder / layout.CHROMA,
        state.chunks,
        vectors,
        former / layout.CHROMA if former is not None else None,
    )
    manifest = Manifest(
        schema=layout.SCHEMA_VERSION,
        generation=folder.name,
        embedder=embedder,
        dimensions=int(vectors.shape[1]),
        chunks=len(state.chunks),
        content=content,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions={
            "kernel-kb": kb.__version__,
            "chromadb": importlib.metadata.version("chromadb"),
            "bm25s": importlib.metadata.version("bm25s"),
        },
        files=digests_of(folder),
    )
    write_manifest(folder, manifest)
    return manifest
