"""Indexes of a given size to measure on: the shipped corpus, and real code of installed packages.

Up to `REAL` chunks, texts, symbols and technique tags are real; above, each chunk joins the
beginning of one real function and the end of another, so that words and lengths are those of code
and the vocabulary goes on to grow. Two things are always synthetic, since latency does not depend
on them: most vectors of code (`StandIns`), and two fields that filters of a known share need
(`_with_shares`). An index is built once per machine and kept in the user's cache folder.
"""

import contextlib
import hashlib
import importlib.util
import pickle
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import platformdirs

from ingest.chunking import CHUNKER_VERSION
from ingest.corpus_source import corpus_state
from ingest.directory import directory_state
from ingest.reading import Reading
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
from kb.records import Chunk, Source, chunk_id, text_hash
from kb.vocabulary import load_yaml

# Distributions and import packages, read in this order until there are chunks enough.
PACKAGES = ("triton", "numpy", "torch", "transformers", "sympy")
CACHE = Path(platformdirs.user_cache_dir("kernel-kb", appauthor=False)) / "benchmarks"
# Chunks of code whose vectors the model really computes.
ANCHORS = 600
# Chunks of real code; a larger index goes on with chunks made of them.
REAL = 100_000
# As many functions as a file of code has.
_PER_FILE = 8
_PART = re.compile(r"[A-Za-z][a-z0-9]*")
_CODE = ("*.py",)
_BLOCK = 10_000
# A stand-in is an anchor turned by noise of this length: cosine 1 / √(1 + 0.4²) = 0.93 to it, so
# that it is as near to a query as real code is, but not so near to its anchor as to be folded.
NOISE = 0.4
# Share of the chunks, and the source and the architecture that only they have. By source they are
# contiguous, as in real sources; by architecture they are scattered.
SHARES = {"one": 0.01, "thirty": 0.30, "rest": 0.69}
ARCHITECTURES = {"one": "sm_80a", "thirty": "sm_90a", "rest": "sm_100a"}


class StandIns:
    """Vectors near to those of real texts: each is one of `ANCHORS`, turned a little.

    `texts` are where the anchors are taken from, evenly spread; their vectors are the model's own.
    """

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        rows = np.unique(np.linspace(0, len(texts) - 1, min(ANCHORS, len(texts)), dtype=int))
        chosen = [texts[row] for row in rows]
        self._anchors = embedder.embed_documents(chosen)
        self._real = dict(zip(chosen, self._anchors, strict=True))
        self._embedder = embedder

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Vectors, (n, d), of unit length; the same for a text wherever it stands."""
        vectors = np.empty((len(texts), self._embedder.dimensions), np.float32)
        for row, text in enumerate(texts):
            if text in self._real:
                vectors[row] = self._real[text]
                continue
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            noise = np.random.default_rng(seed).standard_normal(vectors.shape[1], np.float32)
            noise *= NOISE / np.linalg.norm(noise)
            vectors[row] = self._anchors[seed % len(self._anchors)] + noise
        return unit_rows(vectors, self._embedder.name)


def questions(count: int) -> list[str]:
    """`count` questions that the corpus answers, of those that abstention is calibrated on."""
    path = Path(__file__).parents[1] / "abstention" / "questions.yaml"
    data = load_yaml(path.read_text(encoding="utf-8"))
    answerable: list[str] = data["calibrate"]["answerable"]
    return answerable[:: max(len(answerable) // count, 1)][:count]


def code_folders() -> Iterator[tuple[str, Path]]:
    """Name and version, and folder, of each of `PACKAGES` that is installed."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            yield f"{package} {version(package)}", Path(spec.submodule_search_locations[0])


def sized_index(count: int) -> Path:
    """An index of `count` chunks with their `SHARES`, from the cache or built now."""
    index = index_folder(count)
    if IndexLayout(index).current() is None:
        print(f"building an index of {count} chunks at {index} (once)", flush=True)
        state = prepare_state(count, index)
        embedder = OnnxEmbedder()
        with IndexWriter(index) as writer:
            vectors, _ = writer.embed(state.chunks, embedder)
            writer.publish(state, vectors, embedder.name)
    return index


def index_folder(count: int) -> Path:
    """Path of the index of `count` chunks; deletes those of former versions."""
    corpus = _corpus_state()
    if count <= len(corpus.chunks):
        raise SystemExit(f"{count} chunks are too few: the corpus alone has {len(corpus.chunks)}")
    settings = (SCHEMA_VERSION, OnnxEmbedder().name, NOISE, ANCHORS, "joined")
    # Not where the corpus lies: another checkout takes the same index.
    key = _digest(*settings, *(chunk.digest() for chunk in corpus.chunks), _packages_digest())
    index = CACHE / f"index-{count}-{key}"
    for stale in CACHE.glob(f"index-{count}-*"):
        if stale != index:
            shutil.rmtree(stale)
    return index


def prepare_state(count: int, index: Path) -> IndexState:
    """The corpus and code, `count` chunks, with their vectors in the index's embedding cache.

    Through the cache, as an ingest would: a later one must find these vectors there.
    """
    embedder, corpus = OnnxEmbedder(), _corpus_state()
    with IndexWriter(index) as writer:
        writer.embed(corpus.chunks, embedder)
    missing = count - len(corpus.chunks)
    code = _with_shares(_real_chunks(missing), detector_of(corpus), missing, count)
    stand_ins = StandIns([chunk.embedding_text() for chunk in code.chunks[:REAL]], embedder)
    with contextlib.closing(EmbeddingCache(IndexLayout(index).cache)) as cache:
        for start in range(0, missing, _BLOCK):
            texts = [chunk.embedding_text() for chunk in code.chunks[start : start + _BLOCK]]
            hashes = [text_hash(text) for text in texts]
            cache.put(embedder.name, zip(hashes, stand_ins(texts), strict=True))
    return corpus.merged(code)


@cache
def _corpus_state() -> IndexState:
    return corpus_state(shipped_corpus())


def _digest(*facts: object) -> str:
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()


def _packages_digest() -> str:
    return _digest(CHUNKER_VERSION, *(name for name, _ in code_folders()))


def _real_chunks(count: int) -> list[Chunk]:
    """Real chunks of the installed packages, `count` or `REAL`, untagged; read once."""
    count = min(count, REAL)
    cached = CACHE / f"code-{_packages_digest()}.pickle"
    chunks: list[Chunk] = pickle.loads(cached.read_bytes()) if cached.is_file() else []
    if len(chunks) < count:
        chunks = _read_code(count)
        CACHE.mkdir(parents=True, exist_ok=True)
        cached.write_bytes(pickle.dumps(chunks))
    return chunks[:count]


def _read_code(count: int) -> list[Chunk]:
    """Up to `count` chunks: as many as the installed packages give."""
    chunks: list[Chunk] = []
    for package, folder in code_folders():
        for part in sorted(path.parent for path in folder.glob("*/__init__.py")):
            name = f"{package} {part.name}"
            report = SourceReport(name=name, location=str(part))
            untagged = Reading(name, Detector([]), IndexState(), report, include=_CODE)
            chunks += directory_state(part, untagged).chunks
            if len(chunks) >= count:
                return chunks
    if not chunks:
        raise SystemExit("no package to take code from: install the extras 'gpu' and 'embed'")
    return chunks


def _with_shares(real: Sequence[Chunk], detector: Detector, missing: int, count: int) -> IndexState:
    """`missing` chunks, tagged, of the sources and architectures of an index of `count`.

    The real ones come first, then those made of them.
    """
    tagged = [
        replace(chunk, techniques=detector.techniques(chunk.text, chunk.language)) for chunk in real
    ]
    order = np.random.default_rng(1).permutation(missing)
    labels = np.full(missing, "rest", dtype=object)
    start = 0
    for label in ("one", "thirty"):
        end = start + round(SHARES[label] * count)
        labels[order[start:end]] = label
        start = end
    return IndexState(
        sources=tuple(Source(name=label, location="synthetic") for label in SHARES),
        chunks=tuple(
            replace(chunk, source=label, architectures=(ARCHITECTURES[label],))
            for chunk, label in zip(_extended(tagged, missing), labels, strict=True)
        ),
    )


def _extended(real: Sequence[Chunk], count: int) -> Iterator[Chunk]:
    """`count` chunks: the real ones, then as many as are missing, the same on every machine."""
    yield from real[:count]
    pools: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in real:
        if chunk.symbol:
            pools[chunk.language].append(chunk)
    pool = max(pools.values(), key=len)
    generator = np.random.default_rng(0)
    for number in range(count - len(real)):
        first, second = (pool[int(index)] for index in generator.integers(len(pool), size=2))
        yield _join(first, second, number)


def _join(first: Chunk, second: Chunk, number: int) -> Chunk:
    """A function with the beginning of the first and the end of the second."""
    begin, end = ((chunk.symbol or "").rpartition(".")[2] for chunk in (first, second))
    name = "_".join((*_PART.findall(begin)[:2], *_PART.findall(end)[-2:])).lower()
    heads, tails = first.text.splitlines(), second.text.splitlines()
    lines = [*heads[: len(heads) // 2 + 1], *tails[len(tails) // 2 + 1 :]]
    text = "\n".join(lines).replace(begin, name)
    path = f"{first.path.rpartition('/')[0]}/{end.lower()}_{number // _PER_FILE}.py"
    start = number % _PER_FILE * 100 + 1
    return replace(
        first,
        id=chunk_id(first.source, path, name, text, number),
        path=path,
        title=name,
        symbol=name,
        text=text,
        start_line=start,
        end_line=start + len(lines) - 1,
        fold=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
    )
