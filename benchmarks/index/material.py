"""Indexes of a given size to measure on: the shipped corpus, and real code of installed packages.

Texts, symbols and technique tags are real. Two things are synthetic, since latency does not depend
on them: most vectors of code (`stand_ins`), and two fields that filters of a known share
need (`_with_known_shares`). An index is built once per machine and kept in the user's cache folder.
"""

import contextlib
import hashlib
import importlib.util
import pickle
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import platformdirs
import yaml

from ingest.corpus_source import corpus_state
from ingest.directory import CHUNKER_VERSION, directory_state
from ingest.report import SourceReport
from ingest.tagging import detector_of
from kb.corpus.detection import Detector
from kb.corpus.loader import shipped_corpus
from kb.embedders import Embedder
from kb.embedders.base import Vectors, unit_rows
from kb.embedders.onnx import OnnxEmbedder
from kb.index.cache import EmbeddingCache
from kb.index.layout import SCHEMA_VERSION, IndexLayout
from kb.index.state import IndexState
from kb.index.writer import IndexWriter
from kb.records import Chunk, Source, text_hash

# (distribution, import package), read in this order until there are chunks enough.
PACKAGES = (
    ("triton", "triton"),
    ("numpy", "numpy"),
    ("torch", "torch"),
    ("transformers", "transformers"),
    ("sympy", "sympy"),
)
CACHE = Path(platformdirs.user_cache_dir("kernel-kb", appauthor=False)) / "benchmarks"
# Chunks of code whose vectors the model really computes.
ANCHORS = 600
# A stand-in is an anchor turned by noise of this length: cosine 1 / √(1 + 0.4²) = 0.93 to it, so
# that it is as near to a query as real code is, but not so near to its anchor as to be folded.
NOISE = 0.4
# Share of the chunks, and the source and the architecture that only they have. By source they stand
# in one stretch, as real sources do; by architecture they are scattered.
SHARES = {"one": 0.01, "thirty": 0.30, "rest": 0.69}
ARCHITECTURES = {"one": "sm_80a", "thirty": "sm_90a", "rest": "sm_100a"}


def stand_ins(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Vectors of texts, (n, d): real ones for evenly spread `ANCHORS`, near to those elsewhere."""
    rows = np.unique(np.linspace(0, len(texts) - 1, min(ANCHORS, len(texts)), dtype=int))
    anchors = embedder.embed_documents([texts[row] for row in rows])
    vectors = np.empty((len(texts), embedder.dimensions), np.float32)
    for row, text in enumerate(texts):
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        noise = np.random.default_rng(seed).standard_normal(embedder.dimensions, np.float32)
        vectors[row] = anchors[seed % len(anchors)] + NOISE * noise / np.linalg.norm(noise)
    vectors[rows] = anchors
    return unit_rows(vectors, embedder.name)


class RememberedQueries:
    """An embedder that has embedded its queries before: a search without the embedding's time."""

    def __init__(self, real: Embedder, queries: Sequence[str]) -> None:
        self._vectors = {query: real.embed_query(query) for query in queries}
        self.name = real.name
        self.dimensions = real.dimensions
        self.max_tokens = real.max_tokens
        self.embed_documents = real.embed_documents

    def embed_query(self, text: str) -> Vectors:
        """The vector that was computed before, (d,)."""
        return self._vectors[text]


@cache
def questions() -> tuple[str, ...]:
    """Questions that the corpus answers, as the abstention threshold is calibrated on."""
    path = Path(__file__).parents[1] / "abstention" / "questions.yaml"
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(str(question) for question in data["calibrate"]["answerable"])


def code_folders() -> Iterator[tuple[str, Path]]:
    """Name and version, and folder, of each of `PACKAGES` that is installed."""
    for distribution, package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folder = Path(next(iter(spec.submodule_search_locations)))
            yield f"{distribution} {version(distribution)}", folder


def sized_index(count: int) -> Path:
    """An index of `count` chunks with their `SHARES`, from the cache or built now."""
    embedder = OnnxEmbedder()
    corpus = corpus_state(shipped_corpus())
    if count <= len(corpus.chunks):
        raise SystemExit(f"{count} chunks are too few: the corpus alone has {len(corpus.chunks)}")
    facts = (SCHEMA_VERSION, embedder.name, NOISE, ANCHORS, "vectors in the cache")
    key = _digest(*facts, corpus.content(""), _origin())
    index = CACHE / f"index-{count}-{key}"
    if IndexLayout(index).current() is not None:
        return index
    for stale in CACHE.glob(f"index-{count}-*"):
        shutil.rmtree(stale)
    print(f"building an index of {count} chunks at {index} (once)", flush=True)
    detector = detector_of(corpus)
    code = _with_known_shares(_code(count - len(corpus.chunks)), detector, count)
    state = corpus.merged(code)
    hashes = [text_hash(chunk.embedding_text()) for chunk in state.chunks]
    with IndexWriter(index) as writer:
        # Through the cache, as an ingest would: a later one must find these vectors there.
        with contextlib.closing(EmbeddingCache(writer.layout.cache)) as cache:
            cache.put(embedder.name, zip(hashes, _vectors(state, embedder), strict=True))
        vectors, _ = writer.embed(state.chunks, embedder)
        writer.publish(state, vectors, embedder.name)
    return index


def _digest(*facts: object) -> str:
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()


def _origin() -> str:
    return _digest(CHUNKER_VERSION, *(name for name, _ in code_folders()))


def _code(count: int) -> list[Chunk]:
    """Chunks of the installed packages, untagged, from the cache or read now."""
    cached = CACHE / f"code-{_origin()}.pickle"
    chunks: list[Chunk] = pickle.loads(cached.read_bytes()) if cached.is_file() else []
    if len(chunks) < count:
        chunks = _read_code(count)
        CACHE.mkdir(parents=True, exist_ok=True)
        cached.write_bytes(pickle.dumps(chunks))
    return chunks[:count]


def _read_code(count: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    for package, folder in code_folders():
        for part in sorted(path.parent for path in folder.glob("*/__init__.py")):
            name = f"{package} {part.name}"
            report = SourceReport(name=name, location=str(part))
            untagged = Detector([])
            chunks += directory_state(
                part, name, untagged, IndexState(), report, include=("*.py",)
            ).chunks
            if len(chunks) >= count:
                return chunks
    raise SystemExit(
        f"the installed packages give {len(chunks)} of {count} chunks: "
        "install the extras 'gpu' and 'embed'"
    )


def _with_known_shares(chunks: list[Chunk], detector: Detector, count: int) -> IndexState:
    """The chunks tagged and spread over the sources and architectures of an index of `count`."""
    order = sorted(range(len(chunks)), key=lambda row: text_hash(chunks[row].id))
    start, labels = 0, [""] * len(chunks)
    for label, share in SHARES.items():
        end = len(chunks) if label == "rest" else start + round(share * count)
        for row in order[start:end]:
            labels[row] = label
        start = end
    return IndexState(
        sources=tuple(Source(name=label, location="synthetic") for label in SHARES),
        chunks=tuple(
            replace(
                chunk,
                source=label,
                architectures=(ARCHITECTURES[label],),
                techniques=detector.techniques(chunk.text, chunk.language),
            )
            for chunk, label in zip(chunks, labels, strict=True)
        ),
    )


def _vectors(state: IndexState, embedder: OnnxEmbedder) -> Vectors:
    """Real vectors for the corpus, stand-ins for the code; rows in the state's order."""
    texts = [chunk.embedding_text() for chunk in state.chunks]
    code = np.array([chunk.source in SHARES for chunk in state.chunks])
    vectors = np.empty((len(texts), embedder.dimensions), np.float32)
    vectors[code] = stand_ins(
        [text for text, is_code in zip(texts, code, strict=True) if is_code], embedder
    )
    vectors[~code] = embedder.embed_documents(
        [text for text, is_code in zip(texts, code, strict=True) if not is_code]
    )
    return vectors
