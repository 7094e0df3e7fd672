"""Compares the precisions the model could ship at: ``python -m benchmarks.embedder.precision``.

For each variant: its size, how close its vectors are to float32 sentence-transformers, what that
does to retrieval, and its speed. The query set is mined from installed packages at run time: the
first sentence of a function's docstring has to find that function, without its docstring, among
all the others.
"""

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from benchmarks.embedder import report
from benchmarks.embedder.export import write_model
from benchmarks.embedder.mining import SEED, chunks, functions
from benchmarks.embedder.timing import interleaved, median
from benchmarks.embedder.variants import SHIPPED, VARIANTS
from benchmarks.embedder.weights import model_folder
from kb.embedders.onnx import OnnxEmbedder

COMMAND = "python -m benchmarks.embedder.precision"
POOL = 2000
QUERIES = 400
TIMED_TEXTS = 64
TIMED_QUERIES = 20
REPEATS = 5
CUTOFF = 10
ALLOWED_LOSS = 0.01  # nDCG@10 below float32
TORCH = "sentence-transformers float32"
TORCH_BATCH_SIZES = (4, 8, 16, 32)
BOOTSTRAPS = 2000

Vectors = NDArray[np.float32]


def main() -> None:
    machine = report.machine()
    torch_model = SentenceTransformer(str(model_folder()), device="cpu")
    pool = functions()[:POOL]
    documents = [function.code for function in pool]
    queries = [function.summary for function in pool[:QUERIES]]
    true_documents = torch_model.encode(documents, show_progress_bar=True)
    true_queries = torch_model.encode(queries)
    reference = ndcg(true_queries, true_documents)
    rows: dict[str, dict[str, Any]] = {
        TORCH: {"ndcg": float(reference.mean()), "loss": 0.0, "size_mb": None}
    }
    with tempfile.TemporaryDirectory() as scratch:
        embedders = {name: _write(name, Path(scratch)) for name in VARIANTS}
        for name, embedder in embedders.items():
            print(f"{name} …", flush=True)
            found = embedder.embed_documents(documents)
            cosines = (found * true_documents).sum(axis=1)
            gains = ndcg(embedder.embed_documents(queries), found)
            low, high = bootstrap(gains - reference)
            rows[name] = {
                "size_mb": _size(Path(scratch) / name),
                "cosine_median": float(np.median(cosines)),
                "cosine_p5": float(np.percentile(cosines, 5)),
                "ndcg": float(gains.mean()),
                "loss": float((reference - gains).mean()),
                "difference_95": [low, high],
            }
        one_thread = {name: OnnxEmbedder(Path(scratch) / name, workers=1) for name in VARIANTS}
        _time(rows, one_thread, torch_model, queries[:TIMED_QUERIES])
    loss = rows[SHIPPED]["loss"]
    verdict = "within" if loss <= ALLOWED_LOSS else "NOT within"
    text = (
        f"{QUERIES} queries over {POOL} functions; {TIMED_TEXTS} chunks of 64 to 256 tokens and "
        f"{TIMED_QUERIES} queries timed, {REPEATS} interleaved repeats. Speed is processor time on "
        f"one thread, which other work on the machine hardly moves, as a ratio to {TORCH} at the "
        f"fastest of batch sizes {', '.join(map(str, TORCH_BATCH_SIZES))}; "
        f"difference is nDCG@{CUTOFF} minus float32's, with a 95 % bootstrap interval.\n\n"
        f"{_table(rows)}\n\n"
        f"Shipped: {SHIPPED}; its loss of {loss:.4f} nDCG is {verdict} the allowed {ALLOWED_LOSS}."
    )
    record = {"machine": machine, "shipped": SHIPPED, "pool": POOL, "queries": QUERIES}
    report.write("precision", COMMAND, text, record | {"variants": rows})
    if loss > ALLOWED_LOSS:
        raise SystemExit(1)


def ndcg(queries: Vectors, documents: Vectors) -> NDArray[np.float64]:
    """Return nDCG@10 of each query, whose only relevant document has its own row number.

    With one relevant document the ideal gain is 1, so nDCG is 1 / log2(1 + rank) (Järvelin and
    Kekäläinen 2002, https://doi.org/10.1145/582415.582418), and 0 below the cutoff.
    """
    scores = queries @ documents.T
    own = scores[np.arange(len(queries)), np.arange(len(queries))]
    rank = (scores > own[:, None]).sum(axis=1) + 1
    return np.where(rank <= CUTOFF, 1 / np.log2(1 + rank), 0.0)


def bootstrap(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of paired `differences`."""
    draws = np.random.default_rng(SEED).choice(differences, (BOOTSTRAPS, len(differences)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _write(name: str, scratch: Path) -> OnnxEmbedder:
    write_model(scratch / name, name)
    return OnnxEmbedder(scratch / name)


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def _time(
    rows: dict[str, dict[str, Any]],
    embedders: dict[str, OnnxEmbedder],
    torch_model: SentenceTransformer,
    queries: list[str],
) -> None:
    """Add throughput and time of a query, as ratios to sentence-transformers, to `rows`."""
    texts = chunks(TIMED_TEXTS)
    torch.set_num_threads(1)
    timed = partial(interleaved, repeats=REPEATS, clock=time.process_time)
    batches = {f"{TORCH}, batch {size}": size for size in TORCH_BATCH_SIZES}
    bulk: dict[str, Any] = {n: partial(e.embed_documents, texts) for n, e in embedders.items()}
    for name, size in batches.items():
        bulk[name] = partial(torch_model.encode, texts, batch_size=size)
    middle = {name: median(values) for name, values in timed(bulk).items()}
    best = min(middle[name] for name in batches)

    def one_by_one(embed: Any) -> None:
        for query in queries:
            embed(query)

    single: dict[str, Any] = {n: partial(one_by_one, e.embed_query) for n, e in embedders.items()}
    single[TORCH] = partial(one_by_one, torch_model.encode)
    query_time = {name: median(values) for name, values in timed(single).items()}
    for name in embedders:
        rows[name]["throughput_ratio"] = best / middle[name]
        rows[name]["query_time_ratio"] = query_time[name] / query_time[TORCH]
    rows[TORCH] |= {"throughput_ratio": 1.0, "query_time_ratio": 1.0}


def _table(rows: dict[str, dict[str, Any]]) -> str:
    header = [
        "variant",
        "MB",
        "cosine to float32, median",
        "5th percentile",
        f"nDCG@{CUTOFF}",
        "difference (95 %)",
        "documents/s ÷ torch",
        "time of a query ÷ torch",
    ]
    lines = []
    for name, row in rows.items():
        exact = name == TORCH
        low, high = row.get("difference_95", (0.0, 0.0))
        lines.append(
            [
                f"**{name}**" if name == SHIPPED else name,
                "-" if exact else f"{row['size_mb']:.1f}",
                "1" if exact else f"{row['cosine_median']:.4f}",
                "1" if exact else f"{row['cosine_p5']:.4f}",
                f"{row['ndcg']:.4f}",
                "-" if exact else f"{-row['loss']:+.4f} ({low:+.4f} to {high:+.4f})",
                f"{row['throughput_ratio']:.2f}",
                f"{row['query_time_ratio']:.2f}",
            ]
        )
    return report.table(header, lines)


if __name__ == "__main__":
    main()
