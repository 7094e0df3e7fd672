"""`st:` embedders: any sentence-transformers model, by name or path."""

from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

from kb.embedders.base import Vectors, unit_rows
from kb.errors import EmbedderError


class SentenceTransformersEmbedder:
    """A sentence-transformers model, on a GPU where torch sees one.

    Queries and documents get the prompts that the model defines for them. Texts are batched with
    padding, so vectors agree between batches to float rounding, not to the bit.
    """

    def __init__(self, model: str) -> None:
        if find_spec("sentence_transformers") is None:
            raise EmbedderError(
                f"embedder 'st:{model}' needs sentence-transformers: pip install 'kernel-kb[embed]'"
            )
        self._model_name = model
        self.name = f"st:{model}"
        self._lock = Lock()
        self._loaded: Any = None

    @property
    def dimensions(self) -> int:
        """Length of a vector; loads the model."""
        return int(self._model().get_embedding_dimension())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be searched; see `Embedder.embed_documents`."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        encoded = self._model().encode_document(list(texts), show_progress_bar=False)
        return unit_rows(np.asarray(encoded, dtype=np.float32), self.name)

    def embed_query(self, text: str) -> Vectors:
        """Embed a query; see `Embedder.embed_query`."""
        encoded = self._model().encode_query([text], show_progress_bar=False)
        vector: Vectors = unit_rows(np.asarray(encoded, dtype=np.float32), self.name)[0]
        return vector

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        try:
            # 7 s to import, so only once a vector is asked for.
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415

            return SentenceTransformer(self._model_name)
        except Exception as error:  # it raises whatever torch, transformers and the hub raise
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise EmbedderError(
                f"cannot load the sentence-transformers model '{self._model_name}' ({reason}); "
                "give the name of a model that can be downloaded or the path of its folder"
            ) from error
