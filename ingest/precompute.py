"""Write the vectors of a corpus as the file that ships with the package.

`python -m ingest.precompute [CORPUS]` (or `make embeddings`) embeds what is not in the file yet
and drops what the corpus no longer holds. Equal input gives an equal file.
"""

import sys
from pathlib import Path

import numpy as np

import kb
from ingest.corpus_source import corpus_state
from kb.corpus.loader import shipped_corpus
from kb.embedders import load_embedder
from kb.index.cache import load_precomputed, precomputed_name
from kb.records import text_hash


def precompute(corpus: Path, folder: Path) -> tuple[int, int]:
    """Write the default embedder's vectors for a corpus. Returns (texts, newly embedded)."""
    embedder = load_embedder()
    texts = {text_hash(t): t for t in (c.embedding_text() for c in corpus_state(corpus).chunks)}
    cache = {key: vector for key, vector in load_precomputed(embedder.name).items() if key in texts}
    missing = sorted(texts.keys() - cache.keys())
    vectors = embedder.embed_documents([texts[key] for key in missing])
    cache.update(zip(missing, vectors, strict=True))
    keys = sorted(cache)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / precomputed_name(embedder.name)
    for stale in folder.glob("*.npz"):
        if stale != target:
            stale.unlink()
    np.savez(
        target,
        hashes=np.frombuffer(bytes.fromhex("".join(keys)), dtype=np.uint8).reshape(-1, 32),
        vectors=np.stack([cache[key] for key in keys]).astype(np.float32),
    )
    return len(texts), len(missing)


def main() -> None:
    """Precompute for the corpus given, by default the shipped one."""
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else shipped_corpus()
    texts, new = precompute(corpus, Path(kb.__file__).parent / "data" / "embeddings")
    print(f"{texts} texts, {new} newly embedded")


if __name__ == "__main__":
    main()
