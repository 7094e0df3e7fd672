"""Embedders: what turns text into vectors, chosen by name with `load_embedder`."""

from kb.embedders.base import Embedder
from kb.errors import EmbedderError

__all__ = ["Embedder", "load_embedder"]

DEFAULT_NAME = "default"
FORMS = "'default', 'st:<model or path>' or 'openai:<model>'"


def load_embedder(name: str | None = None) -> Embedder:
    """Return the embedder called `name`, without loading its model yet.

    Parameters
    ----------
    name : str, optional
        ``None`` or ``"default"`` for the shipped ONNX model; ``st:<model or path>`` for a
        sentence-transformers model; ``openai:<model>`` for any endpoint that answers as
        OpenAI's ``/embeddings`` does. The shipped model is also accepted by the full identity
        that an index records, as long as that is the identity of the installed model.

    Raises
    ------
    EmbedderError
        The name has none of these forms, the package behind it is not installed, or the shipped
        model's files are missing.
    """
    # Each kind is imported on demand: the packages behind them take from 0.1 s (onnxruntime)
    # to 7 s (sentence-transformers) to import.
    if name is None or name == DEFAULT_NAME or name.startswith("onnx:"):
        from kb.embedders.onnx import shipped_embedder  # noqa: PLC0415

        shipped = shipped_embedder()
        if name is not None and name.startswith("onnx:") and name != shipped.name:
            raise EmbedderError(
                f"embedder '{name}' is not the one shipped with this version ({shipped.name}); "
                "install the version of kernel-kb that has it, or use 'default'"
            )
        return shipped
    kind, _, model = name.partition(":")
    if kind == "st" and model:
        from kb.embedders.sentence_transformers import SentenceTransformersEmbedder  # noqa: PLC0415

        return SentenceTransformersEmbedder(model)
    if kind == "openai" and model:
        from kb.embedders.openai import OpenAIEmbedder  # noqa: PLC0415

        return OpenAIEmbedder(model)
    raise EmbedderError(f"unknown embedder '{name}': use {FORMS}")
