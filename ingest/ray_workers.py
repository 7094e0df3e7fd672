"""Chunk and embed on a Ray cluster: tasks read and write nothing, and this process is the writer.

Nodes need this version of kernel-kb but not the sources: texts are sent to them. Vectors are equal
bit for bit if all processors are of one type; another type may round the last bit differently.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ingest.chunking import chunking_version, file_chunks
from kb.corpus.detection import Detector
from kb.corpus.entries import Technique
from kb.embedders import Embedder, load_embedder
from kb.embedders.base import Vectors
from kb.errors import KbError
from kb.ray_cluster import connected, no_answer, require_listener, require_ray
from kb.records import Chunk

# Characters of files in one task: a tenth of a second of work, beside a millisecond to start it.
_CHARACTERS = 200_000
# Texts embedded in one task, and tasks at once for each processor, so that none waits.
_TEXTS = 16
_AHEAD = 2
_CONNECT_SECONDS = 10.0

_In = TypeVar("_In")


@contextlib.contextmanager
def ray_workers(address: str) -> Iterator["RayWorkers"]:
    """The processors of a Ray cluster, until the context ends.

    Parameters
    ----------
    address
        `auto` for the cluster that this machine is in, `HOST:PORT` of its head, or `local` for
        one that is started on this machine and ends with this process.

    Raises
    ------
    KbError
        Ray is not installed, or no cluster answers.
    """
    require_ray()
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "://" not in address:
        try:
            require_listener(host, int(port), _CONNECT_SECONDS)
        except OSError as error:
            raise no_answer(address, error) from error
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    with connected(address, **options) as ray:
        try:
            yield RayWorkers(ray)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, KbError):
                raise KbError(f"a node of the Ray cluster: {cause}") from error
            why = str(error).strip().splitlines()[-1]
            raise KbError(f"the Ray cluster failed: {why}") from error


class RayWorkers:
    """Hands work to all processors of the cluster that the module `ray` is connected to."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._processors = ray, int(ray.cluster_resources().get("CPU", 1))
        self._chunk, self._embed = self._ray.remote(_chunk), self._ray.remote(_embed)

    def chunks(
        self, source: str, files: Iterable[tuple[str, str]], detector: Detector
    ) -> Iterator[tuple[str, list[Chunk]]]:
        """See `ingest.workers.Workers`."""
        techniques, version = self._ray.put(detector.entries), chunking_version(detector)
        batches = _batches(files)
        for part in self._in_order(
            batches, lambda batch: self._chunk.remote(source, batch, techniques, version)
        ):
            yield from part

    def embedding(self, embedder: Embedder) -> tuple[Embedder, int | None]:
        """See `ingest.workers.Workers`; an endpoint is called from here: it does the work."""
        at_once = _TEXTS * _AHEAD * self._processors
        if embedder.name.startswith("openai:"):
            return embedder, at_once
        return _RayEmbedder(embedder, self._embed_batches), at_once

    def _embed_batches(self, name: str, texts: Sequence[str]) -> Iterator[Vectors]:
        batches = (texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS))
        yield from self._in_order(batches, lambda batch: self._embed.remote(name, batch))

    def _in_order(self, inputs: Iterable[_In], start: Callable[[_In], Any]) -> Iterator[Any]:
        """Results of tasks in the order of their inputs; a bounded number is on the way."""
        pending: deque[Any] = deque()
        for item in inputs:
            pending.append(start(item))
            if len(pending) >= _AHEAD * self._processors:
                yield self._ray.get(pending.popleft())
        while pending:
            yield self._ray.get(pending.popleft())


class _RayEmbedder:
    """An embedder whose documents are embedded by tasks."""

    def __init__(
        self, embedder: Embedder, embed_batches: Callable[[str, Sequence[str]], Iterator[Vectors]]
    ) -> None:
        self.name, self.dimensions = embedder.name, embedder.dimensions
        self.embed_query = embedder.embed_query
        self._embed_batches = embed_batches

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_documents`."""
        none = np.empty((0, self.dimensions), np.float32)
        return np.concatenate([none, *self._embed_batches(self.name, texts)])


def _batches(files: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    characters = 0
    for path, text in files:
        batch.append((path, text))
        characters += len(text)
        if characters >= _CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


# What follows runs on the nodes.

_detectors: dict[str, Detector] = {}


def _chunk(
    source: str, files: list[tuple[str, str]], techniques: Sequence[Technique], version: str
) -> list[tuple[str, list[Chunk]]]:
    """Path and chunks of each file. The patterns are compiled once in a process."""
    if version not in _detectors:
        detector = Detector(techniques)
        if chunking_version(detector) != version:
            raise KbError("it has a different version of kernel-kb")
        _detectors.clear()
        _detectors[version] = detector
    return [(path, file_chunks(source, path, text, _detectors[version])) for path, text in files]


_embedder = cache(load_embedder)


def _embed(name: str, texts: Sequence[str]) -> Vectors:
    """Vectors of texts, (n, d). The model is loaded once in a process."""
    return _embedder(name).embed_documents(texts)
