"""Embedding throughput against sentence-transformers: ``python -m benchmarks.embedder.throughput``.

The same chunks, on the same cores, in one process and interleaved repeats: the shipped embedder,
and `SentenceTransformer.encode` on the same weights in torch float32 at several batch sizes. The
target is held to the batch size that is fastest here, not to the default one.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from sentence_transformers import SentenceTransformer

from benchmarks.embedder import report
from benchmarks.embedder.mining import chunks
from benchmarks.embedder.timing import interleaved, median
from benchmarks.embedder.weights import model_folder
from kb.embedders.cpus import usable_cpus
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.tokens import count_tokens

COMMAND = "python -m benchmarks.embedder.throughput"
CHUNKS = 256
REPEATS = 7
BATCH_SIZES = (16, 32, 64, 128)
DEFAULT_BATCH_SIZE = 32  # SentenceTransformer.encode's own
TARGET = 2.5


def main() -> None:
    machine = report.machine()
    texts = chunks(CHUNKS)
    lengths = [count_tokens(text) + 2 for text in texts]
    torch_model = SentenceTransformer(str(model_folder()), device="cpu")
    cores = usable_cpus()
    shipped = f"kb: {cores} runs at once, 1 thread each"
    contenders: dict[str, Callable[[], object]] = {
        shipped: partial(OnnxEmbedder(workers=cores).embed_documents, texts),
        f"kb: 1 run at a time, {cores} threads": partial(
            OnnxEmbedder(workers=1, threads_per_run=cores).embed_documents, texts
        ),
        f"kb: {cores} runs at once, {cores} threads each": partial(
            OnnxEmbedder(workers=cores, threads_per_run=cores).embed_documents, texts
        ),
    }
    for size in BATCH_SIZES:
        contenders[f"sentence-transformers, batch {size}"] = partial(
            torch_model.encode, texts, batch_size=size, show_progress_bar=False
        )
    seconds = interleaved(contenders, REPEATS)
    middle = {name: median(values) for name, values in seconds.items()}
    torch_only = {name: value for name, value in middle.items() if name.startswith("sentence")}
    best = min(torch_only, key=torch_only.__getitem__)
    default = f"sentence-transformers, batch {DEFAULT_BATCH_SIZE}"
    rows = [
        [
            name,
            f"{middle[best] / value:.2f}",
            f"{min(seconds[best]) / min(seconds[name]):.2f}",
            f"{middle[default] / value:.2f}",
        ]
        for name, value in middle.items()
    ]
    header = [
        "contender",
        "throughput ÷ best batch size (medians)",
        "(fastest runs)",
        f"÷ batch {DEFAULT_BATCH_SIZE} (medians)",
    ]
    spread = np.percentile(lengths, [0, 5, 25, 50, 75, 95, 100]).round().astype(int).tolist()
    ratio = middle[best] / middle[shipped]
    verdict = "met" if ratio >= TARGET else "MISSED"
    text = (
        f"{CHUNKS} chunks of code and Markdown, tokens at percentiles 0, 5, 25, 50, 75, 95, 100: "
        f"{', '.join(map(str, spread))}; {REPEATS} interleaved repeats.\n\n"
        f"{report.table(header, rows)}\n\n"
        f"Shipped embedder against the best of them ({best}): "
        f"**{ratio:.2f}×** (target {TARGET}×: {verdict}); against the default batch size: "
        f"{middle[default] / middle[shipped]:.2f}×."
    )
    record = {
        "machine": machine,
        "embedder": OnnxEmbedder().name,
        "chunks": CHUNKS,
        "token_percentiles": spread,
        "seconds": seconds,
        "best_batch": best,
        "ratio_to_best_batch": ratio,
        "ratio_to_default_batch": middle[default] / middle[shipped],
        "target": TARGET,
        "met": ratio >= TARGET,
    }
    report.write("throughput", COMMAND, text, record)


if __name__ == "__main__":
    main()
