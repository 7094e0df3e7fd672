"""The searcher of the current generation, switched when a new one is published."""

import logging
import threading
from pathlib import Path

from kb.embedders import Embedder, load_embedder
from kb.errors import EmbedderError, IndexMismatchError, IndexUnavailableError
from kb.index.layout import IndexLayout
from kb.index.reader import Generation, open_generation
from kb.search.engine import Searcher

_LOG = logging.getLogger("kb.server")


class CurrentSearcher:
    """Gives the searcher of the generation that is current.

    A request takes it once and works with it to its end, so it never sees two generations; an
    old one closes when its last request is done. While one request opens a new generation, the
    others go on with the old one. When a new generation cannot be opened, the old one stays in
    use and `problem` says why.
    """

    def __init__(self, root: Path) -> None:
        self._layout = IndexLayout(root)
        self._opening = threading.Lock()
        self._searcher: Searcher | None = None
        self._embedder: Embedder | None = None
        self._refused: str | None = None
        self.problem: str | None = None

    def get(self) -> Searcher:
        """The current searcher.

        Raises
        ------
        IndexUnavailableError
            There is no index, or it is damaged and no earlier generation is open.
        """
        searcher = self._searcher
        try:
            name = self._layout.current()
        except IndexUnavailableError as error:
            if searcher is None:
                raise
            self._keep(str(error), None)
            return searcher
        if searcher is not None:
            if name == searcher.generation.manifest.generation:
                self.problem = self._refused = None
                return searcher
            if name == self._refused:
                return searcher
            if not self._opening.acquire(blocking=False):
                return searcher
        else:
            self._opening.acquire()
        try:
            return self._switch(name)
        finally:
            self._opening.release()

    def _switch(self, name: str | None) -> Searcher:
        """Open what is current now; the caller holds the lock."""
        current = self._searcher
        if current is not None and current.generation.manifest.generation == name:
            return current
        try:
            generation = open_generation(self._layout.root)
            searcher = Searcher(generation, self._embedder_of(generation))
            searcher.nearest.prepare()
        except IndexUnavailableError as error:
            if current is None:
                raise
            self._keep(str(error), name)
            return current
        self._searcher, self._refused, self.problem = searcher, None, None
        _LOG.info(
            "generation opened",
            extra={
                "generation": generation.manifest.generation,
                "chunks": generation.manifest.chunks,
            },
        )
        return searcher

    def _keep(self, problem: str, refused: str | None) -> None:
        """Keep serving the open generation; the one that failed is not retried at every request."""
        if problem != self.problem:
            _LOG.error("the current generation cannot be opened", extra={"problem": problem})
        self.problem, self._refused = problem, refused

    def _embedder_of(self, generation: Generation) -> Embedder:
        name = generation.manifest.embedder
        if self._embedder is None or self._embedder.name != name:
            try:
                self._embedder = load_embedder(name)
            except EmbedderError as error:
                generation.close()
                raise IndexMismatchError(f"{error}; or run `kb rebuild`") from error
        return self._embedder

    def drop(self, searcher: Searcher) -> None:
        """Forget a searcher whose files turned out to be damaged, so that it is opened anew."""
        with self._opening:
            if self._searcher is searcher:
                self._searcher = None

    def close(self) -> None:
        """Let the open generation go: its files and lease, unless a request still reads it."""
        with self._opening:
            self._searcher = None
