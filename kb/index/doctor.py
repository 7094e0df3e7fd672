"""Look an index over and say what is wrong with it and what to do."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kb.embedders import load_embedder
from kb.errors import KbError
from kb.index.cache import damaged_vectors
from kb.index.check import check_in_child
from kb.index.layout import IndexLayout
from kb.index.manifest import read_manifest
from kb.index.reader import open_generation


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    ok: bool
    detail: str


def examine(root: Path) -> Iterator[Finding]:
    """Check an index part by part, the cheap parts first. Changes nothing."""
    layout = IndexLayout(root)
    try:
        name = layout.current()
    except KbError as error:
        yield Finding("pointer", ok=False, detail=str(error))
        return
    if name is None:
        detail = f"no index at {root}: run `kb ingest ./corpus`"
        if layout.names():
            detail = f"{layout.pointer} is missing: run `kb rebuild`"
        yield Finding("pointer", ok=False, detail=detail)
        return
    yield Finding("pointer", ok=True, detail=f"{root} uses generation {name}")
    try:
        manifest = read_manifest(layout.generation(name))
    except FileNotFoundError:
        detail = f"generation {name} is missing: run `kb rebuild`"
        yield Finding("manifest", ok=False, detail=detail)
        return
    except KbError as error:
        yield Finding("manifest", ok=False, detail=str(error))
        return
    yield Finding("manifest", ok=True, detail=f"{manifest.chunks} chunks, schema {manifest.schema}")
    yield _embedder(manifest.embedder)
    problems = check_in_child(layout.generation(name))
    detail = f"{'; '.join(problems)}: run `kb rebuild`" if problems else "files agree"
    yield Finding("generation", ok=not problems, detail=detail)
    yield _cache(layout)
    if not problems:
        yield from _sources(root)
    older = [other for other in layout.names() if other != name]
    if older:
        detail = f"{len(older)} in use by readers or left over; the next ingest removes unused ones"
        yield Finding("older generations", ok=True, detail=detail)


def _embedder(name: str) -> Finding:
    try:
        load_embedder(name)
    except KbError as error:
        return Finding("embedder", ok=False, detail=f"{error}; or run `kb rebuild`")
    return Finding("embedder", ok=True, detail=name)


def _cache(layout: IndexLayout) -> Finding:
    subject = "embedding cache"
    if not layout.cache.exists():
        return Finding(subject, ok=True, detail="none yet")
    # Even to read a database in WAL mode, SQLite writes beside it, unless told that nobody else
    # has it open. Whoever has, or was killed, leaves a -wal file.
    in_use = Path(f"{layout.cache}-wal").exists()
    if in_use and not os.access(layout.root, os.W_OK):
        return Finding(subject, ok=True, detail="in use by another user, not checked")
    how = "mode=ro" if in_use else "mode=ro&immutable=1"
    try:
        with contextlib.closing(
            sqlite3.connect(f"{layout.cache.resolve().as_uri()}?{how}", uri=True)
        ) as connection:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
            count, damaged = damaged_vectors(connection)
            if damaged and verdict == "ok":
                verdict = f"{damaged} of {count} vectors are not what was written"
    except sqlite3.DatabaseError as error:
        verdict, count = str(error), 0
    if verdict != "ok":
        return Finding(
            subject, ok=False, detail=f"{layout.cache} is damaged ({verdict}): run `kb rebuild`"
        )
    return Finding(subject, ok=True, detail=f"{count} vectors")


def _sources(root: Path) -> Iterator[Finding]:
    with contextlib.closing(open_generation(root)) as generation:
        for source in generation.sources.values():
            detail = source.location
            # A published source has an address, which is not asked for here.
            if source.sha256 is None and not os.path.exists(detail):  # noqa: PTH110 - False where none may look
                detail += (
                    " is missing: its chunks stay in the index, but a rebuild can only copy them"
                )
            yield Finding(f"source {source.name}", ok=True, detail=detail)
