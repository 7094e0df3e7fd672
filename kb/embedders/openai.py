"""`openai:` embedders: any endpoint that answers as OpenAI's ``/embeddings`` does."""

import os
from collections.abc import Sequence
from threading import Lock

import numpy as np
import openai

from kb.embedders.base import Vectors, unit_rows
from kb.embedders.tokens import well_formed
from kb.errors import EmbedderError

TEXTS_PER_REQUEST = 64  # far below OpenAI's 2,048; small local servers refuse larger batches
# The client waits 0.5 s, doubling up to 8 s, or as long as the server's Retry-After says: five
# retries ride out about 15 s of rate limiting.
MAX_RETRIES = 5
REQUEST_SECONDS = 120.0  # a local server on a CPU may need a minute for a batch
NO_KEY = "none"  # the client insists on a key; local endpoints ignore it
EMPTY_TEXT = " "  # the API refuses empty strings


class OpenAIEmbedder:
    """A model behind an OpenAI-compatible endpoint, by its name there.

    The environment variables ``OPENAI_BASE_URL`` (OpenAI itself when unset) and ``OPENAI_API_KEY``
    say where; an endpoint given by URL may do without a key. A request is repeated `max_retries`
    times after a refused connection, a time-out, 408, 409, 429 or 5xx.

    Raises
    ------
    EmbedderError
        Neither a key nor a URL is given.
    """

    def __init__(self, model: str, max_retries: int = MAX_RETRIES) -> None:
        base_url = os.environ.get("OPENAI_BASE_URL") or None
        api_key = os.environ.get("OPENAI_API_KEY") or None
        if base_url is None and api_key is None:
            raise EmbedderError(
                f"embedder 'openai:{model}' needs OPENAI_API_KEY, or OPENAI_BASE_URL set to an "
                "endpoint that needs no key"
            )
        self._model = model
        self.name = f"openai:{model}"
        try:
            self._client = openai.OpenAI(
                base_url=base_url,
                api_key=api_key or NO_KEY,
                max_retries=max_retries,
                timeout=REQUEST_SECONDS,
            )
        except Exception as error:  # a malformed URL surfaces as an error of the HTTP library
            raise EmbedderError(f"OPENAI_BASE_URL '{base_url}' is not a usable URL") from error
        self._lock = Lock()
        self._dimensions: int | None = None

    @property
    def dimensions(self) -> int:
        """Length of a vector; asks the endpoint once."""
        if self._dimensions is None:
            self._request(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be searched; see `Embedder.embed_documents`."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        starts = range(0, len(texts), TEXTS_PER_REQUEST)
        batches = (texts[start : start + TEXTS_PER_REQUEST] for start in starts)
        return np.concatenate([self._request(batch) for batch in batches])

    def embed_query(self, text: str) -> Vectors:
        """Embed a query; see `Embedder.embed_query`."""
        vector: Vectors = self._request([text])[0]
        return vector

    def _request(self, texts: Sequence[str]) -> Vectors:
        sent = [well_formed(text) or EMPTY_TEXT for text in texts]
        try:
            # Not the client's default of base64, which many compatible servers lack.
            answer = self._client.embeddings.create(
                model=self._model, input=sent, encoding_format="float"
            )
            rows = [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]
            vectors = np.array(rows, dtype=np.float32)
        except openai.OpenAIError as error:
            raise EmbedderError(self._explain(error)) from error
        except (AttributeError, TypeError, ValueError) as error:  # not the shape of the API
            raise EmbedderError(self._unusable("no list of vectors of one length")) from error
        if vectors.ndim != 2 or len(vectors) != len(sent):
            raise EmbedderError(self._unusable(f"{len(rows)} vectors for {len(sent)} texts"))
        dimensions = vectors.shape[1]
        with self._lock:
            if self._dimensions is None:
                self._dimensions = dimensions
            expected = self._dimensions
        if dimensions != expected:
            raise EmbedderError(
                self._unusable(f"vectors of {dimensions} dimensions after vectors of {expected}")
            )
        return unit_rows(vectors, self.name)

    def _unusable(self, what: str) -> str:
        return (
            f"{self._client.base_url} answered with {what}: check that '{self._model}' is an "
            "embedding model and that the endpoint is OpenAI-compatible"
        )

    def _explain(self, error: openai.OpenAIError) -> str:
        """Return the one line a user needs for a failed request."""
        match error:
            case openai.APITimeoutError():
                what = f"did not answer within {REQUEST_SECONDS:.0f} s; try again later"
            case openai.APIConnectionError():
                what = "cannot be reached: start the endpoint or correct OPENAI_BASE_URL"
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                what = f"refused the key ({error.status_code}): check OPENAI_API_KEY"
            case openai.NotFoundError():
                what = (
                    f"has no embedding model '{self._model}' (404): check the model's name, and "
                    "that OPENAI_BASE_URL ends as the endpoint's documentation says"
                )
            case openai.RateLimitError():
                what = (
                    f"still refuses requests after {self._client.max_retries} retries (429): "
                    "wait, or check the account's quota"
                )
            case openai.APIStatusError():
                what = f"answered {error.status_code}: {first_line(error.message)}"
            case _:
                what = f"failed: {first_line(str(error))}"
        return f"{self._client.base_url} {what}"


def first_line(text: str) -> str:
    """Return the first line of `text`, cut to a readable length."""
    return text.strip().partition("\n")[0][:300]
