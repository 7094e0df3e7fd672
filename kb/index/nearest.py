"""The nearest chunks of a generation: by an exact product, or above a size by Chroma's graph."""

import threading

import numpy as np
from numpy.typing import NDArray

from kb.index.chroma import ChromaSearch
from kb.index.chroma_server import RemoteSearch, server_from_environment
from kb.index.reader import Generation
from kb.index.vectors import VectorMatrix, top

# What may be asked of Chroma's graph at once. It takes time in proportion, and at about this many
# the exact product over the chunks that a filter keeps is as quick.
_MAX_REQUESTED = 2_000
# Chroma knows no filter here, so more is asked of it than would do if chunks that are kept were as
# near to the query as others. More also widens the search: of the ten nearest at 10⁵ stand-ins
# (`benchmarks/index/material.py`) 0.93 are found with 2, 0.96 with 4 and 0.98 with 8, which takes
# longer than the product there (8 ms of a core; 5 ms with 4).
_OVERSAMPLING = 4.0


class Nearest:
    """Finds the chunks nearest to a query.

    Up to `exact_limit` chunks, and for a process that asks a few times and ends, the product with
    every chunk is quickest, and gives the same answer every time. A server that is `prepared` asks
    Chroma's graph above that size, and takes the product only with chunks that a narrow filter
    keeps. Where `KB_CHROMA_URL` names a server, that one is asked at any size. What Chroma finds is
    scored again.
    """

    def __init__(self, generation: Generation, exact_limit: int) -> None:
        self._generation = generation
        self._vectors: VectorMatrix = generation.vectors
        self._is_large = generation.manifest.chunks > exact_limit
        self._opening = threading.Lock()
        self._graph: ChromaSearch | RemoteSearch | None = None
        if (server := server_from_environment()) is not None:
            self._graph = RemoteSearch(server, generation.manifest)

    def prepare(self) -> None:
        """Open the graph of a large generation, for the many queries to come.

        It is copied and read into memory: at 10⁶ chunks that takes as long as a hundred products.
        """
        with self._opening:
            if self._graph is None and self._is_large:
                manifest = self._generation.manifest
                self._graph = ChromaSearch(self._generation.chroma_folder, manifest.dimensions)

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The cosine of every chunk, (n,); None where not every one is looked at."""
        return self._vectors.similarities(query) if self._graph is None else None

    def of(
        self,
        rows: NDArray[np.intp],
        query: NDArray[np.float32],
        similarities: NDArray[np.float32] | None,
    ) -> NDArray[np.float32]:
        """The cosine of some chunks, (rows,); `similarities` as given for the query."""
        if similarities is not None:
            return similarities[rows]
        return self._vectors.similarities(query, rows)

    def rows(
        self,
        query: NDArray[np.float32],
        similarities: NDArray[np.float32] | None,
        k: int,
        mask: NDArray[np.bool_],
    ) -> NDArray[np.intp]:
        """Rows of the k nearest chunks that are kept, best first; `mask` is (n,)."""
        if similarities is not None:
            return top(similarities, k, mask)
        eligible = int(np.count_nonzero(mask))
        requested = int(_OVERSAMPLING * k * len(mask) / max(eligible, 1))
        if self._graph is not None and requested <= _MAX_REQUESTED:
            ids = self._graph.nearest(query, min(requested, len(mask)))
            if ids is not None:
                candidates = self._generation.store.rows_of(ids)
                candidates = candidates[mask[candidates]]
                if len(candidates) >= min(k, eligible):
                    return candidates[top(self._vectors.similarities(query, candidates), k)]
        rows = np.flatnonzero(mask)
        return rows[top(self._vectors.similarities(query, rows), k)]

    @property
    def problem(self) -> str | None:
        """Why the product is taken where a server was to be asked, if so."""
        return self._graph.problem if isinstance(self._graph, RemoteSearch) else None

    def close(self) -> None:
        """Let Chroma go."""
        if self._graph is not None:
            self._graph.close()
