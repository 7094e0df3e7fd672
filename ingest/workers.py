"""Who chunks files and embeds texts: this process, or others (`ingest.ray_workers`)."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ingest.chunking import file_chunks
from kb.corpus.detection import Detector
from kb.embedders import Embedder
from kb.records import Chunk


class Workers(Protocol):
    """The work that files and texts need one by one; the results do not depend on who does it."""

    def chunks(
        self, source: str, files: Iterable[tuple[str, str]], detector: Detector
    ) -> Iterator[tuple[str, list[Chunk]]]:
        """Path and chunks of each file of a source, given path and text, in their order."""

    def embedding(self, embedder: Embedder) -> tuple[Embedder, int | None]:
        """An embedder of the same vectors, and how many texts to hand it at once, if not few."""


class ThisProcess:
    """Does all of it here."""

    def chunks(
        self, source: str, files: Iterable[tuple[str, str]], detector: Detector
    ) -> Iterator[tuple[str, list[Chunk]]]:
        """See `Workers`."""
        return ((path, file_chunks(source, path, text, detector)) for path, text in files)

    def embedding(self, embedder: Embedder) -> tuple[Embedder, int | None]:
        """See `Workers`."""
        return embedder, None
