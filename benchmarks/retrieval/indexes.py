"""The indexes that are searched: the shipped corpus and parts of the packages, built once."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kb.index
from benchmarks.retrieval.material import Material, digest, read_material
from benchmarks.retrieval.packages import IndexSet, index_set, pinned_packages
from ingest.corpus_source import corpus_state
from ingest.tagging import detector_of
from kb.corpus.loader import shipped_corpus
from kb.embedders import Embedder
from kb.embedders.tokens import count_tokens
from kb.index.layout import IndexLayout
from kb.index.manifest import read_manifest
from kb.index.reader import Generation, open_generation
from kb.index.state import IndexState
from kb.index.writer import IndexWriter
from kb.records import Chunk, Kind

_PROGRESS_EVERY = 1024


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index on disk, and the material of its packages."""

    folder: Path
    material: dict[str, Material]


class Corpus:
    """One open generation: the chunks that contenders rank, and the units of answers."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._tokens: dict[int, int] = {}

    @cached_property
    def chunks(self) -> list[Chunk]:
        """All chunks by row."""
        return list(self.generation.store.all())

    @cached_property
    def units(self) -> list[str]:
        """What a chunk counts as, by row: its entry, its code with all its copies, or itself."""
        return [unit_of(chunk) for chunk in self.chunks]

    @cached_property
    def rows(self) -> dict[str, int]:
        """Chunk id → row."""
        return {chunk.id: row for row, chunk in enumerate(self.chunks)}

    @cached_property
    def by_file(self) -> dict[tuple[str, str], list[int]]:
        """(source, path) → rows in file order."""
        rows: dict[tuple[str, str], list[int]] = {}
        for row, chunk in enumerate(self.chunks):
            rows.setdefault((chunk.source, chunk.path), []).append(row)
        return rows

    def of_kinds(self, kinds: frozenset[Kind]) -> NDArray[np.bool_]:
        """Which chunks are of these kinds, (n,); all if there are none."""
        column = self.generation.columns["kinds"]
        return column.mask(lambda values: not kinds or values[0] in kinds)

    def tokens(self, row: int) -> int:
        """Tokens of a chunk's text, by the product's tokenizer."""
        if row not in self._tokens:
            self._tokens[row] = count_tokens(self.chunks[row].text)
        return self._tokens[row]


def unit_of(chunk: Chunk) -> str:
    """Chunks with the same unit are one answer; a ranking is read with each unit once."""
    if chunk.entry:
        return f"{chunk.kind}:{chunk.entry}"
    return f"fold:{chunk.fold}" if chunk.fold else f"chunk:{chunk.id}"


def build_index(name: str, work: Path, embedder: Embedder) -> BuiltIndex:
    """The index of a set, brought up to date where the corpus, packages or readers changed.

    Raises KbError if a package cannot be fetched, or another process builds the same index.
    """
    spec = index_set(name)
    state = corpus_state(shipped_corpus())
    detector = detector_of(state)
    packages = pinned_packages()
    material = {package: read_material(packages[package], detector, work) for package in spec.take}
    for package, content in material.items():
        state = state.merged(_part(content.state, package, spec))
    prefix = name + "-" + re.sub(r"[^\w.@-]", "-", embedder.name)
    folder = work / "indexes" / f"{prefix}-{_writer_digest()}"
    if _content(folder) != state.content(embedder.name):
        for stale in folder.parent.glob(f"{prefix}-*"):
            shutil.rmtree(stale)
        _publish(state, folder, work, embedder)
    return BuiltIndex(folder, material)


@contextmanager
def open_index(folder: Path) -> Iterator[Corpus]:
    """The current generation of an index."""
    generation = open_generation(folder)
    try:
        yield Corpus(generation)
    finally:
        generation.close()


def _part(state: IndexState, package: str, spec: IndexSet) -> IndexState:
    paths = {path for path in {chunk.path for chunk in state.chunks} if spec.takes(package, path)}
    chunks = (chunk for chunk in state.chunks if chunk.path in paths)
    selected = (chunk for chunk in chunks if chunk.symbol or not spec.functions_only)
    return replace(state, chunks=tuple(selected))


def _publish(state: IndexState, folder: Path, work: Path, embedder: Embedder) -> None:
    """Embed into the one cache of the work folder, which all indexes share, and publish."""
    total = len({chunk.embedding_text() for chunk in state.chunks})
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        if done // _PROGRESS_EVERY != before // _PROGRESS_EVERY:
            print(f"embedded {done:,} of {total:,}", flush=True)

    print(f"building {folder.name}: {len(state.chunks):,} chunks", flush=True)
    with IndexWriter(work) as cache_writer:
        vectors, _ = cache_writer.embed(state.chunks, embedder, progress)
    with IndexWriter(folder) as writer:
        writer.publish(state, vectors, embedder.name)


def _content(folder: Path) -> str | None:
    layout = IndexLayout(folder)
    current = layout.current()
    if current is None or not layout.generation(current).is_dir():
        return None
    return read_manifest(layout.generation(current)).content


def _writer_digest() -> str:
    """Digest of the code that writes an index of given chunks."""
    files = sorted(Path(kb.index.__file__).parent.glob("*.py"))
    return digest(*(path.read_bytes() for path in files))
