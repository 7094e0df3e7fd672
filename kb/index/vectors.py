"""The vectors of a generation as one matrix, searched exactly."""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kb.parsing import PARSING

_BLOCK = 512
# Bytes of a matrix that each process reads for itself: from large pages the product takes 0.85 of
# the time that it takes from a mapped file. A larger one is mapped, and all processes share it.
_READ = 32 * 2**20


def write_vectors(path: Path, vectors: NDArray[np.float32]) -> None:
    """Write the matrix, (n, d) float32 with rows of unit length."""
    np.save(path, np.ascontiguousarray(vectors, dtype=np.float32))


class VectorMatrix:
    """Cosine similarity of a query to every chunk by one matrix-vector product."""

    def __init__(self, path: Path) -> None:
        mode: Literal["r"] | None = "r" if path.stat().st_size > _READ else None
        # As a plain array: a `memmap` builds an object for every row taken from it.
        with PARSING:
            self.rows: NDArray[np.float32] = np.asarray(np.load(path, mmap_mode=mode))

    def similarities(
        self, query: NDArray[np.float32], rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.float32]:
        """Cosine to every chunk, (n,), or to those at `rows`, for a unit-length query (d,)."""
        # Row by row on the calling thread. `@` wakes all of BLAS's threads for a millisecond of
        # work, and where other processes want the cores they wait for each other's time slices.
        # Nor does a row's cosine depend on the other rows.
        if rows is None or len(rows) == len(self.rows):
            every: NDArray[np.float32] = np.vecdot(self.rows, query)
            return every
        similarities = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):  # a copy of a block stays in the cache
            block = rows[start : start + _BLOCK]
            similarities[start : start + _BLOCK] = np.vecdot(self.rows[block], query)
        return similarities


def top(
    scores: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None = None
) -> NDArray[np.intp]:
    """Rows of the k highest scores, best first; ties go to the lower row.

    Rows outside `mask` are left out, so fewer than k may come back.
    """
    if mask is not None:
        rows = np.flatnonzero(mask)
        return np.asarray(rows[top(scores[rows], k)], dtype=np.intp)
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    # All rows that reach the k-th score, so that a tie at the edge is cut the same way every time.
    edge = np.partition(scores, len(scores) - k)[len(scores) - k]
    rows = np.flatnonzero(scores >= edge)
    order = np.argsort(-scores[rows], kind="stable")
    return np.asarray(rows[order[:k]], dtype=np.intp)
