"""Check one generation's files against each other. Run as a child process before publishing.

A damaged Chroma folder can crash the process that opens it, so the check runs in one of its own:
`python -m kb.index.check FOLDER`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb.errors import KbError
from kb.index.chroma import copy_files, open_collection
from kb.index.columns import differing_columns, open_columns
from kb.index.layout import CHROMA, CHUNKS, COLUMNS, LEXICAL, VECTORS
from kb.index.lexical import LexicalIndex
from kb.index.manifest import digests_of, read_manifest
from kb.index.store import ChunkStore
from kb.index.vectors import VectorMatrix

_SAMPLES = 5
_TIMEOUT_SECONDS = 600
# Ten times what it takes on two busy cores.
_SECONDS_PER_CHUNK = 0.005
_BLOCK = 65_536


def problems_of(folder: Path) -> list[str]:
    """What is wrong with a generation, one line each; empty when it is sound."""
    manifest = read_manifest(folder)
    problems: list[str] = []

    def expect(condition: bool, problem: str) -> None:
        if not condition:
            problems.append(problem)

    expected_digests, digests = manifest.files, digests_of(folder)
    for path in sorted(expected_digests.keys() | digests.keys()):
        if path not in digests:
            problems.append(f"{path} is missing")
        elif expected_digests.get(path) != digests[path]:
            problems.append(f"{path} is not what was written")
    if problems:
        return problems
    store = ChunkStore(folder / CHUNKS)
    count = store.count()
    expect(count == manifest.chunks, f"{CHUNKS} holds {count} of {manifest.chunks}")
    vectors = VectorMatrix(folder / VECTORS).rows
    shape = (manifest.chunks, manifest.dimensions)
    expect(vectors.shape == shape, f"{VECTORS} has shape {vectors.shape}, not {shape}")
    expect(_has_unit_rows(vectors), f"{VECTORS} has rows not of unit length")
    columns = open_columns(folder / COLUMNS)
    expect(columns.count == manifest.chunks, f"{COLUMNS} is incomplete")
    if problems:
        return problems
    for name in differing_columns(columns, store.all()):
        expect(False, f"{COLUMNS}/{name} differs from {CHUNKS}")
    lexical = LexicalIndex(folder / LEXICAL, manifest.chunks)
    chosen = np.linspace(0, count - 1, min(_SAMPLES, count), dtype=int).tolist()
    samples = dict(zip(chosen, store.rows(chosen), strict=True))
    if samples:
        words = lexical.query_tokens(samples[chosen[-1]].title)
        expect(len(lexical.scores(words)) == manifest.chunks, f"{LEXICAL} is incomplete")
    if problems:
        return problems
    # On a copy: opening a Chroma folder writes to it.
    with tempfile.TemporaryDirectory(prefix="kernel-kb-") as scratch:
        copy = Path(scratch) / CHROMA
        copy_files(folder / CHROMA, copy)
        with open_collection(copy) as collection:
            expect(collection.count() == manifest.chunks, f"{CHROMA} holds {collection.count()}")
            for row, chunk in samples.items():
                stored = collection.get(ids=[chunk.id], include=["documents", "embeddings"])
                same = (
                    stored["documents"] == [chunk.text]
                    and float(np.dot(stored["embeddings"][0], vectors[row])) > 0.999
                )
                expect(same, f"{CHROMA} differs from {CHUNKS} at {chunk.id}")
            if samples:
                hits = collection.query(query_embeddings=vectors[:1], n_results=1, include=[])
                expect(len(hits["ids"][0]) == 1, f"{CHROMA} answers no query")
    return problems


def _has_unit_rows(vectors: NDArray[np.float32]) -> bool:
    # By blocks: the squares of all of them would take as much memory as they do.
    blocks = (vectors[start : start + _BLOCK] for start in range(0, len(vectors), _BLOCK))
    return all(bool(np.all(np.abs(np.linalg.norm(rows, axis=1) - 1) < 1e-3)) for rows in blocks)


def _timeout(folder: Path) -> float:
    try:
        return _TIMEOUT_SECONDS + _SECONDS_PER_CHUNK * read_manifest(folder).chunks
    except (KbError, FileNotFoundError):
        return _TIMEOUT_SECONDS


def check_in_child(folder: Path) -> list[str]:
    """`problems_of` in a child process; a crash there is a problem, not our end."""
    # -P: nothing is imported from the working folder, which may be one that is being ingested.
    command = [sys.executable, "-P", "-m", "kb.index.check", str(folder)]
    timeout = _timeout(folder)
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"the check did not end within {timeout:.0f} s"]
    if child.returncode == 0:
        return []
    if child.returncode == 1 and child.stdout.strip():
        return child.stdout.strip().splitlines()
    last = child.stderr.strip().splitlines()[-1:] or ["no output"]
    return [f"the check ended with status {child.returncode}: {last[0]}"]


def main(arguments: list[str]) -> int:
    """Print problems; exit 1 if there are any."""
    try:
        problems = problems_of(Path(arguments[0]))
    except KbError as error:
        problems = [str(error).removesuffix(": run `kb rebuild`")]
    except Exception as error:
        problems = [f"{type(error).__name__}: {error}"]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
