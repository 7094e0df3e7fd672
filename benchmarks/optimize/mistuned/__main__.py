"""`python -m benchmarks.optimize.mistuned --out FILE`: runs tune alone on every mistuned kernel.

Needs a GPU. Records are written after each kernel, and a kernel that has one is not measured again
unless it is named, so an interrupted run goes on where it was.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.evaluate.host import describe_host, resolve_device
from agent.sandbox.launch import Zygote
from benchmarks.optimize import records, sharing
from benchmarks.optimize.asking import ended
from benchmarks.optimize.mistuned import measure
from benchmarks.optimize.mistuned.cases import load
from kb.errors import KbError


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """What the kernels have in common."""

    device: str
    zygote: Zygote
    host: dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Measure, write and print."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    if options.kernels is not None and options.serve is None:
        _forget(options)
    results = sharing.run(BENCHMARK, options, given)
    if options.serve is None:
        print(json.dumps(results.get("summary", {}), indent=1))
    return 0


def _forget(options: argparse.Namespace) -> None:
    """Kernels that are named are measured anew."""
    results = records.load(options.out)
    for name in options.kernels:
        results["records"].pop(name, None)
    records.save(options.out, results)


def _keys(options: argparse.Namespace) -> list[str]:
    return [case.name for case in load(options.kernels)]


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[_Place]:
    device = resolve_device(options.device, interpret=False)
    host = describe_host(device)
    with Zygote(interpret=device == "cpu") as zygote:
        yield _Place(device, zygote, {"gpu": host.gpu, "versions": host.versions})


def _measure(name: str, options: argparse.Namespace, place: _Place) -> records.Record:
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


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    found = list(results["records"].values())
    results["gpus"] = records.gpus(found)
    results["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    results["seconds"], results["seed"] = options.seconds, options.seed
    results["reference_seconds"] = options.reference_seconds
    results["summary"] = summary(found)


def summary(found: list[records.Record]) -> dict[str, Any]:
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


def _line(record: records.Record) -> str:
    if record.get("over_best") is None:
        return f"{record['name']:24} failed: {record.get('failed') or 'no times'}"
    return (
        f"{record['name']:24} given {record['given_ms'] or float('nan'):9.4f} ms  "
        f"tuned {record['tuned_ms']:9.4f}  best {record['best_ms']:9.4f}  "
        f"{record['over_best'] * 100 - 100:+6.1f} %  {record['tried']:4d} tried, "
        f"{record['not_working']:3d} failed, {record['gpu_seconds']:5.1f} s  "
        f"{record.get('verdict', '')}"
    )


def _options(arguments: list[str]) -> argparse.Namespace:
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


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.mistuned",
    keys=_keys,
    opened=_opened,
    measure=_measure,
    finish=_finish,
    line=_line,
)


if __name__ == "__main__":
    sys.exit(ended(main))
