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

_ASKED = ("seconds", "reference_seconds", "seed", "trust", "small", "check")


def _measure(name: str, options: argparse.Namespace, cards: CardPool) -> Record:
    device = "cpu" if options.interpret else "cuda:0"
    given = {each: getattr(options, each) for each in _ASKED}
    return tasks.measured(cards, measure.Measure(name=name, device=device, **given), name)


def summary(found: Sequence[Record]) -> dict[str, Any]:
    """Of all records."""
    spent = [each["gpu_seconds"] for each in found if "gpu_seconds" in each]
    good = measure.within(found)
    speedups = [each["speedup"] for each in found if each.get("speedup")]
    return {
        "kernels": len(found),
        "operators": len({each["operator"] for each in found if "operator" in each}),
        "within_10_percent": len(good),
        "share_within_10_percent": len(good) / len(found) if found else 0.0,
        "missed": sorted({each["name"] for each in found} - set(good)),
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
        "speedup_geometric_mean": statistics.geometric_mean(speedups or [1.0]),
    }


def _cells(record: Record) -> list[str]:
    times = [record[f"{each}_ms"] for each in ("given", "tuned", "best")]
    over = record["over_best"]
    return [
        *("-" if ms is None else f"{ms:.4f}" for ms in times),
        "-" if over is None else f"{over * 100 - 100:+.1f} %",
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
    for flag, told in (
        ("--interpret", "in Triton's interpreter: shows that it runs (CPU)"),
        ("--check", "have the judge check what was found"),
        ("--small", "tiny problems: only shows that it runs (CPU)"),
        ("--trust", "run although the sandbox is incomplete"),
    ):
        parser.add_argument(flag, action="store_true", help=told)
    tasks.add_options(parser)
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=lambda options: [case.name for case in load(options.kernels)],
    opened=lambda _, cards: contextlib.nullcontext(cards),
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
