"""`python -m benchmarks.optimize.mistuned --out FILE`: runs tune alone on every mistuned kernel.

Needs a GPU. Records are written after each kernel, and a kernel that has one is not measured again,
so an interrupted run goes on where it was.
"""

import argparse
import contextlib
import dataclasses
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import sharing, tasks
from benchmarks.optimize.mistuned import measure
from benchmarks.optimize.mistuned.cases import load
from benchmarks.tasks import Record
from judge.evaluate.host import describe_host, resolve_device
from judge.sandbox.launch import Zygote
from kb.errors import KbError


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """What the kernels have in common."""

    device: str
    zygote: Zygote
    host: dict[str, Any]


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[_Place]:
    device = resolve_device(options.device, interpret=False)
    host = describe_host(device)
    with Zygote(interpret=device == "cpu") as zygote:
        yield _Place(device, zygote, {"gpu": host.gpu, "versions": host.versions})


def _measure(name: str, options: argparse.Namespace, place: _Place) -> Record:
    (full,) = load([name])
    case = dataclasses.replace(full, problem=full.small) if options.small else full
    try:
        record = measure.measure(
            case,
            device=place.device,
            zygote=place.zygote,
            seconds=options.seconds,
            reference_seconds=options.reference_seconds,
            seed=options.seed,
            trust=options.trust,
            say=lambda _: None,
        )
        if options.check and "source" in record:
            record["verdict"] = measure.verdict(
                case, record["source"], device=place.device, zygote=place.zygote
            )
    except KbError as error:
        record = {"name": name, "failed": str(error)}
    return {**record, **place.host}


def summary(found: Sequence[Record]) -> dict[str, Any]:
    """Of all records."""
    spent = [each["gpu_seconds"] for each in found if "gpu_seconds" in each]
    good = measure.within(found)
    return {
        "kernels": len(found),
        "operators": len({each["operator"] for each in found if "operator" in each}),
        "within_10_percent": len(good),
        "share_within_10_percent": len(good) / len(found) if found else 0.0,
        "missed": sorted({each["name"] for each in found} - set(good)),
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
        "speedup_geometric_mean": statistics.geometric_mean(
            [each["speedup"] for each in found if each.get("speedup")] or [1.0]
        ),
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
    parser.add_argument("--device")
    parser.add_argument("--seconds", type=float, default=42.0, help="for tune, each kernel")
    parser.add_argument("--reference-seconds", type=float, default=60.0)
    parser.add_argument("--limit", type=float, help="begin no kernel after so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="have the judge check what was found")
    parser.add_argument(
        "--small", action="store_true", help="tiny problems: only shows that it runs (CPU)"
    )
    parser.add_argument("--trust", action="store_true")
    sharing.add_options(parser)
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    module="benchmarks.optimize.mistuned",
    options=_options,
    keys=lambda options: [case.name for case in load(options.kernels)],
    opened=_opened,
    measure=_measure,
    columns=(
        "given ms", "tuned ms", "best ms", "over best", "tried", "failed", "GPU s", "verdict",
    ),
    cells=_cells,
    summary=summary,
    settings=("seconds", "reference_seconds", "seed"),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(sharing.main(BENCHMARK))
