"""`python -m benchmarks.optimize.rules.measure --out FILE`: measures landscapes. Needs a GPU."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.evaluate.host import describe_host, resolve_device
from agent.sandbox.launch import Zygote
from benchmarks.optimize import records, sharing
from benchmarks.optimize.asking import ended
from benchmarks.optimize.operators.cases import load
from benchmarks.optimize.rules import landscape
from kb.errors import KbError

# Operators of which there are kernels of distinct techniques, one or two of a family.
NAMES = (
    "matmul_narrow", "softmax_scores", "group_norm", "attention_cross", "conv2d", "cumsum_rows",
    "attention_decode", "linear_bias_relu",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, write, print."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    results = sharing.run(BENCHMARK, options, given)
    return 1 if any("failed" in each for each in results["records"].values()) else 0


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[str, Zygote, dict[str, Any]]]:
    device = resolve_device(options.device, interpret=False)
    host = describe_host(device)
    with Zygote(interpret=device == "cpu") as zygote:
        yield device, zygote, {"gpu": host.gpu, "versions": host.versions}


def _measure(
    name: str, options: argparse.Namespace, place: tuple[str, Zygote, dict[str, Any]]
) -> records.Record:
    device, zygote, host = place
    (operator,) = load([name])
    try:
        record = landscape.measure(
            operator,
            device=device,
            zygote=zygote,
            seconds=options.seconds_each,
            seed=options.seed,
            trust=options.trust,
        )
    except KbError as error:
        record = {"name": name, "failed": str(error)}
    return {**record, **host}


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    results["gpus"] = records.gpus(list(results["records"].values()))
    results["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    results["seed"] = options.seed


def _line(record: records.Record) -> str:
    if "failed" in record:
        return f"{record['name']:<20}failed: {record['failed']}"
    points = [each for kernel in record["kernels"] for each in kernel["points"]]
    right = sum(each["ms"] is not None for each in points)
    return (
        f"{record['name']:<20}{len(record['kernels'])} kernels, {len(points)} points, "
        f"{right} work; {record['gpu_seconds']} s of GPU time"
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    made = argparse.ArgumentParser(prog="python -m benchmarks.optimize.rules.measure")
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument("--only", nargs="+", choices=[e.name for e in load()], metavar="NAME")
    made.add_argument("--seconds-each", type=float, default=90.0, help="of an operator's timings")
    made.add_argument("--limit", type=float, help="begin no operator after so many seconds")
    made.add_argument("--device")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--trust", action="store_true")
    sharing.add_options(made)
    return made.parse_args(arguments)


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.rules.measure",
    keys=lambda options: list(options.only or NAMES),
    opened=_opened,
    measure=_measure,
    finish=_finish,
    line=_line,
)


if __name__ == "__main__":
    sys.exit(ended(main))
