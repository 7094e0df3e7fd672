"""Chunk records of a generation, in an SQLite file that is only read once published."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.errors import IndexUnavailableError
from kb.records import Chunk

_FIELDS = tuple(field.name for field in fields(Chunk))
_TUPLES = ("techniques", "bottlenecks", "architectures", "dtypes")


def write_chunks(path: Path, chunks: Iterable[Chunk]) -> None:
    """Write chunks in order; a chunk's row is its position in every other file."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute(
            "CREATE TABLE chunk (row INTEGER PRIMARY KEY, id TEXT UNIQUE, data TEXT)"
        )
        connection.executemany(
            "INSERT INTO chunk VALUES (?, ?, ?)",
            ((row, chunk.id, _encode(chunk)) for row, chunk in enumerate(chunks)),
        )
    connection.close()


def _encode(chunk: Chunk) -> str:
    # `asdict` would copy every value first, which takes ten times as long.
    return json.dumps({name: getattr(chunk, name) for name in _FIELDS}, ensure_ascii=False)


class ChunkStore:
    """Reads chunk records by row or id; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            # immutable: no lock, no journal, nothing is written, also on a read-only disk
            uri = f"{self._path.resolve().as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._local.connection = connection
            self._opened.append(connection)
        return connection

    def __del__(self) -> None:
        # A connection refers to itself through its statement cache, so it would stay open until
        # the next garbage collection, and its file with it.
        for connection in self._opened:
            connection.close()

    def _query(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        try:
            yield from self._connection().execute(sql, values)
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _decoded(self, data: str) -> Chunk:
        try:
            values: dict[str, Any] = json.loads(data)
            return Chunk(**values | {name: tuple(values[name]) for name in _TUPLES})
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from error

    def _damaged(self, problem: object) -> IndexUnavailableError:
        return IndexUnavailableError(f"{self._path} is damaged ({problem}): run `kb rebuild`")

    def rows(self, rows: Sequence[int]) -> list[Chunk]:
        """The chunks at these rows, in this order."""
        marks = ",".join("?" * len(rows))
        sql = f"SELECT row, data FROM chunk WHERE row IN ({marks})"  # noqa: S608 - only marks
        records = dict(self._query(sql, [int(row) for row in rows]))
        try:
            return [self._decoded(records[int(row)]) for row in rows]
        except KeyError as error:
            raise self._damaged(f"row {error} is missing") from error

    def find(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        for (data,) in self._query("SELECT data FROM chunk WHERE id = ?", (chunk_id,)):
            return self._decoded(data)
        return None

    def row_of(self, chunk_id: str) -> int | None:
        """The row of the chunk with this id, or None."""
        for (row,) in self._query("SELECT row FROM chunk WHERE id = ?", (chunk_id,)):
            return int(row)
        return None

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """The rows of the chunks with these ids, ascending; ids that are none are left out."""
        marks = ",".join("?" * len(ids))
        sql = f"SELECT row FROM chunk WHERE id IN ({marks}) ORDER BY row"  # noqa: S608 - only marks
        return np.array([row for (row,) in self._query(sql, ids)], dtype=np.intp)

    def count(self) -> int:
        """How many chunks there are."""
        return int(next(self._query("SELECT count(*) FROM chunk"))[0])

    def all(self) -> Iterator[Chunk]:
        """Every chunk in order."""
        for (data,) in self._query("SELECT data FROM chunk ORDER BY row"):
            yield self._decoded(data)
