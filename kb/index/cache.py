"""The embedding cache: one vector per (embedder, text), computed once and kept for ever."""

import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb.errors import IndexUnavailableError
from kb.parsing import PARSING

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embedding (
    embedder TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (embedder, text_hash)
) WITHOUT ROWID
"""
# SQLite's default limit on bound parameters is far above; this keeps statements small.
_BATCH = 500
# How far from 1 the length of an intact vector may be.
_TOLERANCE = 1e-3


class EmbeddingCache:
    """Vectors by embedder name and text hash, in one SQLite file in WAL mode.

    A put is durable once it returns, so an ingest that is killed resumes where it stopped.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the cache.

        Raises
        ------
        IndexUnavailableError
            If the file is no database; a rebuild makes it anew, since it only saves work.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with self._undamaged():
            self._connection = sqlite3.connect(path, timeout=30)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(_SCHEMA)
            if not _has_checksums(self._connection):
                self._connection.execute("ALTER TABLE embedding ADD COLUMN checksum INTEGER")

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError:
            raise  # not the file: a full disk, a missing permission, a lock
        except sqlite3.DatabaseError as error:
            raise IndexUnavailableError(
                f"the embedding cache {self._path} is damaged ({error}): run `kb rebuild`"
            ) from error

    def get(self, embedder: str, hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors that are known, by text hash; one that is damaged is not."""
        vectors: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(hashes), _BATCH):
            batch = hashes[start : start + _BATCH]
            marks = ",".join("?" * len(batch))
            where = f"embedder = ? AND text_hash IN ({marks})"
            sql = "SELECT text_hash, vector, checksum FROM embedding WHERE " + where  # noqa: S608
            with self._undamaged():
                rows = self._connection.execute(sql, (embedder, *batch)).fetchall()
            for key, blob, checksum in rows:
                if _is_intact(embedder, key, blob, checksum):
                    vectors[key] = np.frombuffer(blob, dtype=np.float32)
        return vectors

    def put(self, embedder: str, vectors: Iterable[tuple[str, NDArray[np.float32]]]) -> None:
        """Store vectors by text hash."""
        blobs = ((key, vector.astype(np.float32).tobytes()) for key, vector in vectors)
        rows = [(embedder, key, blob, _checksum(embedder, key, blob)) for key, blob in blobs]
        sql = "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?, ?)"
        with self._undamaged(), self._connection:
            self._connection.executemany(sql, rows)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _checksum(embedder: str, key: str, blob: bytes) -> int:
    """Of a row, so that a bit that flips on the disk is noticed: SQLite checks its pages only."""
    return zlib.crc32(blob, zlib.crc32(f"{embedder}\0{key}".encode()))


def _is_intact(embedder: str, key: str, blob: object, checksum: int | None) -> bool:
    """Whether a row is what was written; an older version wrote no checksum."""
    if not isinstance(blob, bytes) or len(blob) % 4:
        return False
    if checksum not in (None, _checksum(embedder, key, blob)):
        return False
    return abs(float(np.linalg.norm(np.frombuffer(blob, dtype=np.float32))) - 1) < _TOLERANCE


def _has_checksums(connection: sqlite3.Connection) -> bool:
    columns = connection.execute("PRAGMA table_info(embedding)").fetchall()
    return any(column[1] == "checksum" for column in columns)


def damaged_vectors(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many vectors a cache holds, and how many of them are not what was written."""
    checked = "checksum" if _has_checksums(connection) else "NULL"
    rows = connection.execute(f"SELECT embedder, text_hash, vector, {checked} FROM embedding")  # noqa: S608
    count = damaged = 0
    for embedder, key, blob, checksum in rows:
        count += 1
        damaged += not _is_intact(str(embedder), str(key), blob, checksum)
    return count, damaged


def precomputed_name(embedder: str) -> str:
    """File name of an embedder's precomputed vectors."""
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in embedder) + ".npz"


def load_precomputed(embedder: str) -> dict[str, NDArray[np.float32]]:
    """The vectors shipped with the package for this embedder, by text hash; empty if none.

    The file holds `hashes` (n, 32) uint8, the sha256 of each text, and `vectors` (n, d) float32.
    """
    resource = files("kb") / "data" / "embeddings" / precomputed_name(embedder)
    if not resource.is_file():
        return {}
    try:
        with PARSING, resource.open("rb") as stream, np.load(stream) as data:
            hashes, vectors = data["hashes"], data["vectors"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}  # damaged: it only saves work
    return {bytes(key).hex(): vector for key, vector in zip(hashes, vectors, strict=True)}
