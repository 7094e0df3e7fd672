"""Embedding throughput against sentence-transformers: ``python -m benchmarks.embedder.throughput``.

The same chunks, on the same cores, in one process and interleaved repeats: the shipped embedder,
and `SentenceTransformer.encode` on the same weights in torch float32 at several batch sizes. The
target is held to the batch size that is fastest here, not to the default one. Wall time flatters
the embedder while other work fills the machine, since torch's threads wait for each other and its
do not; so the ratio of processor time on one thread each, which other work hardly moves, is
given too, and has to meet the target as well.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.embedder import report
from benchmarks.embedder.mining import chunks
from benchmarks.embedder.timing import interleaved, median
from benchmarks.embedder.weights import model_folder
from kb.embedders.cpus import usable_cpus
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.tokens import count_tokens

COMMAND = "python -m benchmarks.embedder.throughput"
CHUNKS = 128
REPEATS = 7
BATCH_SIZES = (8, 16, 32, 64, 128)
DEFAULT = "sentence-transformers, batch 32"  # SentenceTransformer.encode's own default
TARGET = 2.5

Contenders = dict[str, Callable[[], object]]


def main() -> None:
    machine = report.machine()
    texts = chunks(CHUNKS)
    lengths = [count_tokens(text) + 2 for text in texts]
    spread = np.percentile(lengths, [0, 5, 25, 50, 75, 95, 100]).round().astype(int).tolist()
    cores = usable_cpus()
    torch.set_num_threads(1)
    shipped = "kb: 1 run, 1 thread"
    processor = _compare(
        {shipped: _kb(texts, 1, 1)} | _sentence_transformers(texts), shipped, time.process_time
    )
    torch.set_num_threads(cores)
    shipped = f"kb: {cores} runs at once, 1 thread each"
    wall = _compare(
        {
            shipped: _kb(texts, cores, 1),
            f"kb: 1 run at a time, {cores} threads": _kb(texts, 1, cores),
            f"kb: {cores} runs at once, {cores} threads each": _kb(texts, cores, cores),
        }
        | _sentence_transformers(texts),
        shipped,
        time.perf_counter,
    )
    met = min(wall["ratio_to_best"], processor["ratio_to_best"]) >= TARGET
    text = (
        f"{CHUNKS} chunks of code and Markdown, tokens at percentiles 0, 5, 25, 50, 75, 95, 100: "
        f"{', '.join(map(str, spread))}; {REPEATS} interleaved repeats. Target: {TARGET}× of "
        f"sentence-transformers at its best batch size: {'met' if met else 'MISSED'}.\n\n"
        f"{_text(f'Wall time on {cores} cores', wall)}\n\n"
        f"{_text('Processor time on one thread', processor)}"
    )
    record = {
        "machine": machine,
        "embedder": OnnxEmbedder().name,
        "chunks": CHUNKS,
        "token_percentiles": spread,
        "target": TARGET,
        "met": met,
        "wall": wall,
        "processor": processor,
    }
    report.write("throughput", COMMAND, text, record)
    if not met:
        raise SystemExit(1)


def _kb(texts: list[str], workers: int, threads: int) -> Callable[[], object]:
    embedder = OnnxEmbedder(workers=workers, threads_per_run=threads)
    return partial(embedder.embed_documents, texts)


def _sentence_transformers(texts: list[str]) -> Contenders:
    model = SentenceTransformer(str(model_folder()), device="cpu")
    return {
        f"sentence-transformers, batch {size}": partial(
            model.encode, texts, batch_size=size, show_progress_bar=False
        )
        for size in BATCH_SIZES
    }


def _compare(contenders: Contenders, shipped: str, clock: Callable[[], float]) -> dict[str, Any]:
    """Time `contenders`; ratios are of medians."""
    seconds = interleaved(contenders, REPEATS, clock)
    middle = {name: median(values) for name, values in seconds.items()}
    best = min((n for n in middle if n.startswith("sentence")), key=middle.__getitem__)
    return {
        "seconds": seconds,
        "median": middle,
        "shipped": shipped,
        "best": best,
        "ratio_to_best": middle[best] / middle[shipped],
        "ratio_to_default": middle[DEFAULT] / middle[shipped],
    }


def _text(title: str, result: dict[str, Any]) -> str:
    seconds, middle, best = result["seconds"], result["median"], result["best"]
    rows = [
        [
            f"**{name}**" if name == result["shipped"] else name,
            f"{middle[best] / middle[name]:.2f}",
            f"{min(seconds[best]) / min(seconds[name]):.2f}",
            f"{middle[DEFAULT] / middle[name]:.2f}",
        ]
        for name in seconds
    ]
    header = ["contender", f"÷ {best}", "the same, fastest runs", f"÷ {DEFAULT} (its default)"]
    return f"{title}, throughput as a ratio of medians:\n\n{report.table(header, rows)}"


if __name__ == "__main__":
    main()
