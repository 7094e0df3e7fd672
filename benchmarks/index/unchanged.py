"""Ingest of the shipped corpus, twice: `python -m benchmarks.index.unchanged`.

The first embeds nothing, since the corpus comes with its embeddings; the second embeds nothing and
writes nothing: every file of the index keeps its bytes and its time of change.
"""

import hashlib
import tempfile
from pathlib import Path

from benchmarks.index.report import Figure, machine, write
from ingest.pipeline import Request, ingest
from kb.corpus.loader import shipped_corpus
from kb.embedders import load_embedder


def tree(root: Path) -> dict[str, tuple[int, str]]:
    """Path → (time of change in ns, sha256) of all below a folder, and of the folder itself."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [root, *sorted(root.rglob("*"))]
    }


def main() -> None:
    where = machine()
    embedder = load_embedder()
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        first = ingest([Request(shipped_corpus())], index, embedder)
        before = tree(index)
        second = ingest([Request(shipped_corpus())], index, embedder)
        after = tree(index)
    names = sorted(before.keys() | after.keys())
    changed = [name for name in names if before.get(name) != after.get(name)]
    figures = [
        Figure("texts embedded by the first ingest", first.embedded, 0, False, "texts"),
        Figure("texts embedded by the unchanged second", second.embedded, 0, False, "texts"),
        Figure("files or folders the second changed", len(changed), 0, False, "paths"),
        Figure("generations the second published", int(second.published), 0, False, "generations"),
    ]
    text = f"{first.chunks} chunks, {len(before)} files and folders in the index."
    if changed:
        text += " Changed by the second ingest: " + ", ".join(changed) + "."
    write("unchanged", where, figures, text, {"chunks": first.chunks, "changed": changed})


if __name__ == "__main__":
    main()
