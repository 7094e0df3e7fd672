"""What every embedder offers, and the arithmetic they share."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kb.errors import EmbedderError

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product is their similarity.

    A text's vector depends on the text alone: not on the other texts of a call, nor their order.
    Loading is lazy where it can be: `name` is always known without loading the model, and so
    are `dimensions` of the shipped model. Safe to use from several threads.
    """

    @property
    def name(self) -> str:
        """Identity of the vectors: vectors of embedders with the same name can be compared."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be searched; float32 of shape (len(texts), dimensions), unit rows.

        Raises
        ------
        EmbedderError
            The model cannot be loaded or does not answer.
        """

    def embed_query(self, text: str) -> Vectors:
        """Embed a query; float32 of shape (dimensions,), unit length.

        Raises
        ------
        EmbedderError
            The model cannot be loaded or does not answer.
        """


def unit_rows(vectors: Vectors, embedder: str) -> Vectors:
    """Scale each row of (n, d) `vectors` to unit length.

    Raises
    ------
    EmbedderError
        A row is zero or not finite, so that it has no direction.
    """
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise EmbedderError(
            f"embedder '{embedder}' returned a vector that is zero or not finite: "
            "check that its model is an embedding model"
        )
    return np.asarray(vectors / norms, dtype=np.float32)
