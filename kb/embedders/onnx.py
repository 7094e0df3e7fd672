"""The default embedder: the shipped ONNX model on onnxruntime; imports no torch."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from kb.embedders.base import Vectors
from kb.embedders.cpus import usable_cpus
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, REMEDY, read_shipped_file, shipped_model
from kb.embedders.tokens import read_tokenizer, well_formed
from kb.errors import EmbedderError

ONNXRUNTIME_ERRORS_ONLY = 3  # its log levels: 0 verbose, 1 info, 2 warning, 3 error


class OnnxEmbedder:
    """The shipped model, one unpadded text to a run.

    A run reads one text and nothing else, so a vector cannot depend on the texts around it.
    Each run uses one thread, and as many runs go on at once as there are processors: texts
    are many and short, and threads inside a run would wait for each other at every layer.

    Parameters
    ----------
    folder : Path
        Where the model's files are.
    workers : int, optional
        Texts embedded at once; by default the processors this process may use.
    """

    def __init__(self, folder: Path = MODEL_FOLDER, workers: int | None = None) -> None:
        self._folder = folder
        self._model = shipped_model(folder)
        self.name = self._model.identity
        self.dimensions = self._model.dimensions
        self._workers = workers or usable_cpus()
        self._lock = Lock()
        self._loaded: tuple[onnxruntime.InferenceSession, Tokenizer] | None = None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be searched; see `Embedder.embed_documents`."""
        # If one fails, `map` drops what has not begun.
        with ThreadPoolExecutor(self._workers, thread_name_prefix="kb-embed") as pool:
            vectors = list(pool.map(self._embed, texts))
        return np.array(vectors, dtype=np.float32).reshape(-1, self.dimensions)

    def embed_query(self, text: str) -> Vectors:
        """Embed a query; see `Embedder.embed_query`. Queries and documents are embedded alike."""
        return self._embed(text)

    def _embed(self, text: str) -> Vectors:
        session, tokenizer = self._load()
        ids = np.array([tokenizer.encode(well_formed(text)).ids], dtype=np.int64)
        outputs: list[Any] = session.run(["embedding"], {"input_ids": ids})
        vector: Vectors = outputs[0][0]
        return vector

    def _load(self) -> tuple[onnxruntime.InferenceSession, Tokenizer]:
        with self._lock:
            if self._loaded is None:
                tokenizer = read_tokenizer(self._folder)
                tokenizer.enable_truncation(self._model.max_tokens)
                self._loaded = (self._session(), tokenizer)
            return self._loaded

    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # The model is written with its operators already fused as is fastest; constants still
        # fold at this level.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.inter_op_num_threads = 1
        options.log_severity_level = ONNXRUNTIME_ERRORS_ONLY
        content = read_shipped_file(MODEL_FILE, self._folder)
        try:
            return onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions share no base but Exception
            raise EmbedderError(
                f"onnxruntime {onnxruntime.__version__} cannot load the shipped embedding model; "
                f"{REMEDY}"
            ) from error


@cache
def shipped_embedder() -> OnnxEmbedder:
    """The one of this process: its model takes a tenth of a second to load."""
    return OnnxEmbedder()
