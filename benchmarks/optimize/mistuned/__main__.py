"""`python -m benchmarks.optimize.mistuned --out FILE`: runs tune alone on every mistuned kernel.

Needs a GPU. Records are written after each kernel, and a kernel that has one is not measured again,
so an interrupted run goes on where it was.
"""

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.cards.pool import CardPool
from benchmarks import tasks
from benchmarks.optimize.mistuned import measure
from benchmarks.optimize.mistuned.cases import load
from benchmarks.tasks import Record

_FIELDS = ("seconds", "reference_seconds", "seed", "trust", "small", "check")


def _measure(name: str, options: argparse.Namespace, cards: CardPool) -> Record:
    device = "cpu" if options.interpret else "cuda:0"
    fields = {field: getattr(options, field) for field in _FIELDS}
    return tasks.request_record(cards, measure.Measure(name=name, device=device, **fields), name)


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Figures over all records."""
    gpu_seconds = [record["gpu_seconds"] for record in records if "gpu_seconds" in record]
    close = measure.within(records)
    speedups = [record["speedup"] for record in records if record.get("speedup")]
    return {
        "kernels": len(records),
        "operators": len({record["operator"] for record in records if "operator" in record}),
        "within_10_percent": len(close),
        "share_within_10_percent": len(close) / len(records) if records else 0.0,
        "missed": sorted({record["name"] for record in records} - set(close)),
        "gpu_seconds_median": statistics.median(gpu_seconds) if gpu_seconds else None,
        "gpu_seconds_most": max(gpu_seconds, default=None),
        "speedup_geometric_mean": statistics.geometric_mean(speedups or [1.0]),
    }


def _cells(record: Record) -> list[str]:
    times = [record[f"{form}_ms"] for form in ("given", "tuned", "best")]
    ratio = record["over_best"]
    return [
        *("-" if ms is None else f"{ms:.4f}" for ms in times),
        "-" if ratio is None else f"{ratio * 100 - 100:+.1f} %",
        str(record["tried"]),
        str(record["not_working"]),
        f"{record['gpu_seconds']:.1f}",
        record.get("verdict", "-"),
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimize.mistuned")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    parser.add_argument("--kernels", type=lambda text: text.split(","), help="only these, by name")
    parser.add_argument("--seconds", type=float, default=42.0, help="for tune, each kernel")
    parser.add_argument("--reference-seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    for flag, help_text in (
        ("--interpret", "in Triton's interpreter: shows that it runs (CPU)"),
        ("--check", "have the judge check what was found"),
        ("--small", "tiny problems: only shows that it runs (CPU)"),
        ("--trust", "run although the sandbox is incomplete"),
    ):
        parser.add_argument(flag, action="store_true", help=help_text)
    tasks.add_options(parser)
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=lambda options: [case.name for case in load(options.kernels)],
    open_shared=lambda _, cards: contextlib.nullcontext(cards),
    measure=_measure,
    columns=(
        "given ms", "tuned ms", "best ms", "over best", "tried", "failed", "GPU s", "verdict",
    ),
    cells=_cells,
    summary=summary,
    settings=("seconds", "reference_seconds", "seed"),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
