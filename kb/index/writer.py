"""The one writer of an index: builds a generation aside, checks it, and switches the pointer."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from kb.embedders import Embedder
from kb.errors import IndexBusyError, IndexUnavailableError, KbError
from kb.index.build import build_generation
from kb.index.cache import EmbeddingCache, load_precomputed
from kb.index.check import check_in_child
from kb.index.chroma_server import delete_collection, server_from_environment, upload_collection
from kb.index.layout import IndexLayout, generation_number
from kb.index.leases import collect
from kb.index.manifest import Manifest, read_manifest
from kb.index.state import IndexState
from kb.records import Chunk, text_hash

# Vectors computed between two commits to the cache: what a kill can cost.
_EMBED_BATCH = 64
# Vectors read from the cache at once.
_READ_BATCH = 5_000


class IndexWriter:
    """Holds an index's writer lock; use as a context manager."""

    def __init__(self, root: Path) -> None:
        self.layout = IndexLayout(root)
        self._lock = FileLock(self.layout.lock)
        self._server = server_from_environment()

    def __enter__(self) -> Self:
        with explain_write_errors(self.layout.root):
            self.layout.root.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise IndexBusyError(
                    f"another process is writing to the index at {self.layout.root}: "
                    "wait for it to end, or use another --index"
                ) from error
            shutil.rmtree(self.layout.staging, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.layout.staging, ignore_errors=True)
        self._lock.release()

    def embed(
        self,
        chunks: Sequence[Chunk],
        embedder: Embedder,
        on_done: Callable[[int], None] = lambda _count: None,
        *,
        at_once: int | None = None,
    ) -> tuple[NDArray[np.float32], int]:
        """Vectors for chunks, (n, d), from the cache where known, and how many were computed.

        Equal texts are embedded once. What was computed is in the cache before this returns, and
        after every `at_once` texts, by default a small number.
        """
        with (
            explain_write_errors(self.layout.root),
            contextlib.closing(EmbeddingCache(self.layout.cache)) as cache,
        ):
            hashes = [text_hash(chunk.embedding_text()) for chunk in chunks]
            rows: dict[str, list[int]] = {}
            for row, key in enumerate(hashes):
                rows.setdefault(key, []).append(row)
            vectors = np.empty((len(chunks), embedder.dimensions), np.float32)

            def put(stored: Mapping[str, NDArray[np.float32]]) -> None:
                for key in stored.keys() & rows.keys():
                    vectors[rows.pop(key)] = stored[key]

            order = list(rows)
            distinct = len(order)
            for start in range(0, distinct, _READ_BATCH):
                put(cache.get(embedder.name, order[start : start + _READ_BATCH]))
            if rows:
                put(load_precomputed(embedder.name))
            on_done(distinct - len(rows))
            missing, at_once = list(rows), at_once or _EMBED_BATCH
            for start in range(0, len(missing), at_once):
                keys = missing[start : start + at_once]
                texts = [chunks[rows[key][0]].embedding_text() for key in keys]
                fresh = dict(zip(keys, embedder.embed_documents(texts), strict=True))
                cache.put(embedder.name, fresh.items())
                put(fresh)
                on_done(len(keys))
        return vectors, len(missing)

    def current_manifest(self) -> Manifest | None:
        """Manifest of the current generation, or None if there is none that can be read."""
        name = self.layout.current()
        if name is None:
            return None
        try:
            return read_manifest(self.layout.generation(name))
        except FileNotFoundError:
            return None

    def publish(
        self,
        state: IndexState,
        vectors: NDArray[np.float32],
        embedder: str,
        *,
        content: str | None = None,
        fresh: bool = False,
    ) -> Manifest:
        """Build a generation, check it in a child process, and make it the current one.

        Parameters
        ----------
        content
            `state.content(embedder)`, where the caller has it: at a million chunks it takes a
            minute.
        fresh
            Build Chroma's files anew instead of from a copy of the current ones.

        Raises
        ------
        IndexUnavailableError
            If the check finds a problem; the current generation stays.
        KbError
            If the disk is full or read-only; the current generation stays.
        """
        with explain_write_errors(self.layout.root):
            content = content or state.content(embedder)
            former = None
            current = None if fresh else self.current_manifest()
            if current is not None and current.embedder == embedder:
                former = self.layout.generation(current.generation)
            staged = self.layout.staging / self.next_name(content)
            manifest = build_generation(
                staged, state, vectors, embedder=embedder, content=content, former=former
            )
            if problems := check_in_child(staged):
                raise IndexUnavailableError(
                    f"the new index failed its check: {'; '.join(problems)}"
                )
            self._switch(manifest.generation)
            self.collect()
        return manifest

    def adopt(self, staged: Path) -> None:
        """Publish a generation folder made elsewhere and already checked, under its own name."""
        with explain_write_errors(self.layout.root):
            self._switch(staged.name)
            self.collect()

    def next_name(self, content: str) -> str:
        """A generation name for that content, above all used so far."""
        names = self.layout.names()
        with contextlib.suppress(IndexUnavailableError):
            names += [name] if (name := self.layout.current()) else []
        number = max(map(generation_number, names), default=0) + 1
        return f"g{number:06d}-{content[:8]}"

    def _switch(self, name: str) -> None:
        staged = self.layout.staging / name
        if self._server is not None:
            upload_collection(self._server, staged)
        for path in (*sorted(staged.rglob("*")), staged):
            _sync(path)
        self.layout.generations.mkdir(exist_ok=True)
        staged.rename(self.layout.generation(name))
        _sync(self.layout.generations)
        pointer = self.layout.pointer
        new = pointer.with_suffix(".new")
        with new.open("w", encoding="utf-8") as stream:
            stream.write(name + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(pointer)
        _sync(self.layout.root)

    def collect(self) -> None:
        """Delete generations that are not current and that no reader holds."""
        current = self.layout.current()
        manifest = self.current_manifest() if self._server is not None else None
        for name in self.layout.names():
            if name == current:
                continue
            former = None
            with contextlib.suppress(KbError, FileNotFoundError):
                former = read_manifest(self.layout.generation(name))
            deleted = collect(self.layout.generation(name), self.layout.staging / "trash")
            if deleted and former and manifest and former.content != manifest.content:
                assert self._server is not None
                delete_collection(self._server, former)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_EXPLANATIONS = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would exceed the size limit",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission was denied",
    errno.EPERM: "permission was denied",
}


@contextmanager
def explain_write_errors(root: Path) -> Iterator[None]:
    """Turn a failure to write into one line that says what to do; the index stays as it was."""
    try:
        yield
    except KbError:
        raise
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise IndexUnavailableError(
            f"cannot write the index at {root}: {reason}; the published index is intact. "
            "Free disk space, fix permissions or use another --index"
        ) from error


def _reason(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.errno is not None:
        return _EXPLANATIONS.get(error.errno, error.strerror or str(error))
    # SQLite, Chroma and shutil's copies report a failed write in words only.
    text = str(error).lower()
    for words, reason in (
        ("disk is full", "no space is left on the disk"),
        ("no space left", "no space is left on the disk"),
        ("disk i/o error", "the disk refused a write"),
        ("file too large", "a file would exceed the size limit"),
        ("readonly database", "permission was denied"),
        ("read-only", "permission was denied"),
        ("permission denied", "permission was denied"),
        ("database is locked", "another process holds its database"),
        ("unable to open database", "its database cannot be opened"),
    ):
        if words in text:
            return reason
    return None
