"""A whole ingest against the usual way: `python -m benchmarks.index.ingest`.

`ingest` of a folder of code into an empty index, against `SentenceTransformer.encode` in torch
float32 and Chroma's `collection.add` of the same chunks: same weights, same machine, in turns. The
usual way gets its chunks and its loaded model for free; ours discovers, chunks, tags, loads its
model, embeds, indexes for both orders, checks and syncs.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import chromadb
import numpy as np
from chromadb.config import Settings
from sentence_transformers import SentenceTransformer

from benchmarks.embedder.export import base_folder
from benchmarks.index.material import code_folders
from benchmarks.results import Figure, machine, publish, table
from ingest.pipeline import Request
from ingest.pipeline import ingest as run_ingest
from kb.embedders.onnx import OnnxEmbedder
from kb.index.reader import open_generation
from kb.records import Chunk

RESULTS = Path(__file__).with_name("results")
PACKAGE = "triton"
ROUNDS = 3
BATCH_SIZES = (16, 32, 64)
DEFAULT_BATCH_SIZE = 32  # SentenceTransformer.encode's own
ADDED_AT_ONCE = 5_000  # below Chroma's limit of 5,461 records a call
TARGET = 2.2


def whole_ingest(folder: Path, index: Path) -> tuple[float, int]:
    """Seconds of an ingest into an empty index by a new embedder, and texts embedded."""
    start = time.perf_counter()
    report = run_ingest([Request(folder, include=("*.py",))], index, OnnxEmbedder())
    return time.perf_counter() - start, report.embedded


def add(chunks: list[Chunk], vectors: np.ndarray, folder: Path) -> float:
    """Seconds to add chunks with their vectors to a new collection on disk."""
    start = time.perf_counter()
    client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    collection = client.create_collection("chunks", embedding_function=None)
    for first in range(0, len(chunks), ADDED_AT_ONCE):
        batch = chunks[first : first + ADDED_AT_ONCE]
        collection.add(
            ids=[chunk.id for chunk in batch],
            embeddings=vectors[first : first + ADDED_AT_ONCE],
            documents=[chunk.text for chunk in batch],
            metadatas=[{"path": chunk.path, "start_line": chunk.start_line} for chunk in batch],
        )
    client.close()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    where = machine()
    name, folder = next(each for each in code_folders() if each[0].startswith(PACKAGE))
    model = SentenceTransformer(str(base_folder()), device="cpu")
    ours: list[float] = []
    encode: dict[int, list[float]] = {size: [] for size in BATCH_SIZES}
    added: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "first"
        _, embedded = whole_ingest(folder, first)  # warms the disk cache, and gives the chunks
        chunks = list(open_generation(first).store.all())
        texts = [chunk.embedding_text() for chunk in chunks]
        if embedded != len(set(texts)):
            raise SystemExit(f"{embedded} of {len(set(texts))} texts were embedded: not a cold run")
        model.encode(texts[:64], show_progress_bar=False)
        for turn in range(rounds):
            ours.append(whole_ingest(folder, Path(scratch) / f"ours-{turn}")[0])
            for size in BATCH_SIZES:
                start = time.perf_counter()
                vectors = model.encode(texts, batch_size=size, show_progress_bar=False)
                encode[size].append(time.perf_counter() - start)
            added.append(add(chunks, vectors, Path(scratch) / f"chroma-{turn}"))
    usual = {
        size: median([e + a for e, a in zip(encode[size], added, strict=True)])
        for size in BATCH_SIZES
    }
    best = min(usual, key=usual.__getitem__)
    figures = []
    for size, which in ((best, "best"), (DEFAULT_BATCH_SIZE, "default")):
        name = f"whole ingest ÷ encode (batch {size}, its {which}) + add"
        figures.append(Figure(name, usual[size] / median(ours), TARGET, True))
    totals = {"kb ingest, whole": median(ours)}
    totals |= {f"encode, batch {size}, + add": total for size, total in usual.items()}
    rows = [[name, f"{usual[best] / s:.2f}", f"{s:.1f}"] for name, s in totals.items()]
    rows.append(["of which add", "", f"{median(added):.1f}"])
    text = (
        f"{len(chunks)} chunks ({embedded} distinct texts) of the Python sources of {name}; "
        f"{rounds} rounds in turns, medians.\n\n"
        + table(["contender", "speed ÷ the usual way at its best", "s"], rows)
    )
    record = {
        "machine": where, "chunks": len(chunks), "ours_s": ours, "encode_s": encode, "add_s": added,
    }  # fmt: skip
    publish(RESULTS / "ingest", "python -m benchmarks.index.ingest", text, record, figures)


if __name__ == "__main__":
    main()
