"""A Chroma server or Chroma Cloud as the vector store, where `KB_CHROMA_URL` names one.

Chroma's client alone is used. Its Python server has a flaw that lets anybody run code on it before
they have said who they are (CVE-2026-45829), and is neither imported nor started.
"""

import contextlib
import logging
import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from kb.errors import IndexUnavailableError, InvalidInputError
from kb.index.chroma import upsert
from kb.index.layout import CHUNKS, VECTORS
from kb.index.manifest import Manifest, read_manifest
from kb.index.store import ChunkStore
from kb.index.vectors import VectorMatrix

# An answer over a network takes milliseconds; who waits longer is better served by the product.
_QUERY_SECONDS = 2.0
_WRITE_SECONDS = 120.0
_MAX_BATCH = 1_000
# A server that did not answer is left alone for so long.
_RETRY_SECONDS = 30.0
# Chroma's own names of the ones that it starts with.
_TENANT, _DATABASE = "default_tenant", "default_database"
_LOG = logging.getLogger("kb.index")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ChromaServer:
    """The address of a server, and how to authenticate to it."""

    url: str
    """`http://HOST:PORT` or `https://HOST:PORT`."""
    header: tuple[str, str] | None = None
    """Name and value of the header that authenticates, such as `X-Chroma-Token`."""
    tenant: str = _TENANT
    database: str = _DATABASE

    def client(self, seconds: float) -> Any:
        """Connect; this and every request ends after so many seconds.

        Raises
        ------
        Exception
            The server does not answer; Chroma's own errors share no base but Exception.
        """
        connecting: Future[Any] = Future()

        def connect() -> None:
            try:
                connecting.set_result(self._connect())
            except BaseException as error:
                connecting.set_exception(error)

        # Chroma's client waits for ever, and has no setting for it; it asks when it is made.
        threading.Thread(target=connect, daemon=True).start()
        client = connecting.result(seconds)
        client._server._session.timeout = seconds
        return client

    def _connect(self) -> Any:
        import chromadb  # noqa: PLC0415 - takes a second to import
        from chromadb.config import Settings  # noqa: PLC0415

        place = urlsplit(self.url)
        return chromadb.HttpClient(
            host=place.hostname or "",
            port=place.port or _PORTS[place.scheme],
            ssl=place.scheme == "https",
            headers=dict([self.header]) if self.header else None,
            settings=Settings(anonymized_telemetry=False),
            tenant=self.tenant,
            database=self.database,
        )

    def without_secret(self, error: BaseException) -> str:
        """What an error says, in one line, without the header's value."""
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, TimeoutError):
            text = "it does not answer"
        return text.replace(self.header[1], "…") if self.header else text


def server_from_environment() -> ChromaServer | None:
    """The server that `KB_CHROMA_URL` names, or None.

    `KB_CHROMA_HEADER` is the header that authenticates, `NAME: VALUE`; `KB_CHROMA_TENANT` and
    `KB_CHROMA_DATABASE` say where in it the collections are.

    Raises
    ------
    InvalidInputError
        One of them is malformed.
    """
    url = os.environ.get("KB_CHROMA_URL")
    if not url:
        return None
    place = urlsplit(url)
    if place.scheme not in _PORTS or not place.hostname or place.path.strip("/"):
        raise InvalidInputError("KB_CHROMA_URL must be http://HOST:PORT or https://HOST:PORT")
    if place.username or place.password:
        raise InvalidInputError("KB_CHROMA_URL must not contain a password: use KB_CHROMA_HEADER")
    header = os.environ.get("KB_CHROMA_HEADER")
    name, colon, value = (header or "").partition(":")
    if header and not (name.strip() and colon and value.strip()):
        raise InvalidInputError("KB_CHROMA_HEADER must be NAME: VALUE, as in X-Chroma-Token: …")
    return ChromaServer(
        url,
        (name.strip(), value.strip()) if header else None,
        os.environ.get("KB_CHROMA_TENANT") or _TENANT,
        os.environ.get("KB_CHROMA_DATABASE") or _DATABASE,
    )


def _collection_name(manifest: Manifest) -> str:
    """Of a generation's collection: equal content shares one, whoever published it."""
    return f"kernel-kb-{manifest.content}"


def upload_collection(server: ChromaServer, folder: Path) -> None:
    """Bring the collection of a generation that is not published yet to a server.

    One that is there already stays; one that was broken off is made anew.

    Raises
    ------
    IndexUnavailableError
        The server does not take it.
    """
    manifest = read_manifest(folder)
    name, store = _collection_name(manifest), ChunkStore(folder / CHUNKS)
    try:
        client = server.client(_WRITE_SECONDS)
        with contextlib.suppress(Exception):  # there is none
            if client.get_collection(name, embedding_function=None).count() == manifest.chunks:
                return
            client.delete_collection(name)
        collection = client.create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        vectors = VectorMatrix(folder / VECTORS).rows
        size = min(client.get_max_batch_size(), _MAX_BATCH)
        for start in range(0, manifest.chunks, size):
            end = min(start + size, manifest.chunks)
            upsert(collection, store.rows(range(start, end)), vectors[start:end])
    except Exception as error:
        raise IndexUnavailableError(
            f"cannot write to Chroma at {server.url} ({server.without_secret(error)}): nothing was "
            "published. Start it, or unset KB_CHROMA_URL"
        ) from error


def delete_collection(server: ChromaServer, manifest: Manifest) -> None:
    """Delete the collection of a generation that is gone; what fails is left."""
    with contextlib.suppress(Exception):
        server.client(_QUERY_SECONDS).delete_collection(_collection_name(manifest))


class RemoteSearch:
    """Approximate nearest neighbours from a generation's collection on a server.

    Where the server does not answer, the caller takes the exact product over the generation's own
    matrix, which is slower and says the same; `problem` says why, until it answers again.
    """

    def __init__(self, server: ChromaServer, manifest: Manifest) -> None:
        self._server, self._name = server, _collection_name(manifest)
        self._collection: Any = None
        self._connecting = threading.Lock()
        self._not_before = 0.0
        self.problem: str | None = None

    def nearest(self, query: NDArray[np.float32], k: int) -> list[str] | None:
        """Ids of about the k nearest chunks to a unit-length query (d,); None without an answer."""
        if time.monotonic() < self._not_before:
            return None
        try:
            with self._connecting:
                if self._collection is None:
                    client = self._server.client(_QUERY_SECONDS)
                    self._collection = client.get_collection(self._name, embedding_function=None)
            reply = self._collection.query(query_embeddings=query[None, :], n_results=k, include=[])
        except Exception as error:
            reason = self._server.without_secret(error)
            _LOG.warning("Chroma at %s cannot be queried: %s", self._server.url, reason)
            # `/readyz` shows it to anybody: it says neither where the server is nor more.
            self.problem = (
                "the Chroma server cannot be queried: searches compare all vectors instead, which "
                "is slower"
            )
            self._collection, self._not_before = None, time.monotonic() + _RETRY_SECONDS
            return None
        self.problem = None
        ids: list[str] = reply["ids"][0]
        return ids

    def close(self) -> None:
        """Nothing is held."""
