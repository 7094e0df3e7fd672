"""Chunk files and embed texts in this process or in others (`ingest.ray_workers`)."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ingest.chunking import file_chunks
from kb.corpus.detection import Detector
from kb.embedders import Embedder
from kb.records import Chunk


class Workers(Protocol):
    """Work done per file and per text; the results do not depend on where it runs."""

    def chunks(
        self, source: str, files: Iterable[tuple[str, str]], detector: Detector
    ) -> Iterator[tuple[str, list[Chunk]]]:
        """Path and chunks of each of a source's files, (path, text), in the order given."""

    def embedding(self, embedder: Embedder) -> tuple[Embedder, int | None]:
        """An embedder that gives the same vectors, and its batch size if larger than usual."""


class ThisProcess:
    """Does all work in this process."""

    def chunks(
        self, source: str, files: Iterable[tuple[str, str]], detector: Detector
    ) -> Iterator[tuple[str, list[Chunk]]]:
        """See `Workers`."""
        return ((path, file_chunks(source, path, text, detector)) for path, text in files)

    def embedding(self, embedder: Embedder) -> tuple[Embedder, int | None]:
        """See `Workers`."""
        return embedder, None
