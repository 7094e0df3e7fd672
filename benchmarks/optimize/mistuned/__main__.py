"""`python -m benchmarks.optimize.mistuned --out FILE`: runs tune alone on every mistuned kernel.

Needs a GPU. Records are written after each kernel, and a kernel that has one is not measured again
unless it is named, so an interrupted run goes on where it was.
"""

import argparse
import dataclasses
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.evaluate.host import describe_host, resolve_device
from agent.sandbox.launch import Zygote
from benchmarks.optimize.mistuned import measure
from benchmarks.optimize.mistuned.cases import load
from kb.errors import KbError


def main() -> None:
    """Measure, write and print."""
    options = _options()
    device = resolve_device(options.device, interpret=False)
    host = describe_host(device)
    report: dict[str, Any] = {}
    if options.out.exists():
        report = json.loads(options.out.read_text(encoding="utf-8"))
    records = {each["name"]: each for each in report.get("kernels", [])}
    end = time.monotonic() + options.limit
    with Zygote(interpret=device == "cpu") as zygote:
        for full in load(options.kernels):
            case = dataclasses.replace(full, problem=full.small) if options.small else full
            if case.name in records and not options.kernels:
                continue
            if time.monotonic() > end:
                print("out of time: start again to go on")
                break
            try:
                record = measure.measure(
                    case,
                    device=device,
                    zygote=zygote,
                    seconds=options.seconds,
                    reference_seconds=options.reference_seconds,
                    seed=options.seed,
                    trust=options.trust,
                    say=lambda _: None,
                )
                if options.check and "source" in record:
                    record["verdict"] = measure.verdict(
                        case, record["source"], device=device, zygote=zygote
                    )
            except KbError as error:
                record = {"name": case.name, "failed": str(error)}
            records[case.name] = record
            print(_line(record), flush=True)
            report = {
                "gpu": host.gpu,
                "versions": host.versions,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": options.seconds,
                "reference_seconds": options.reference_seconds,
                "seed": options.seed,
                "summary": summary(list(records.values())),
                "kernels": [records[name] for name in sorted(records)],
            }
            part = options.out.with_suffix(".part")
            part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            part.replace(options.out)
    print(json.dumps(report.get("summary", {}), indent=1))


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of the issue."""
    spent = [each["gpu_seconds"] for each in records if "gpu_seconds" in each]
    good = measure.within(records)
    return {
        "kernels": len(records),
        "operators": len({each["operator"] for each in records if "operator" in each}),
        "within_10_percent": len(good),
        "share_within_10_percent": len(good) / len(records) if records else 0.0,
        "missed": sorted({each["name"] for each in records} - set(good)),
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
        "speedup_geometric_mean": statistics.geometric_mean(
            [each["speedup"] for each in records if each.get("speedup")] or [1.0]
        ),
    }


def _line(record: dict[str, Any]) -> str:
    if "over_best" not in record or record["over_best"] is None:
        return f"{record['name']:24} failed: {record.get('failed')}"
    return (
        f"{record['name']:24} given {record['given_ms'] or float('nan'):9.4f} ms  "
        f"tuned {record['tuned_ms']:9.4f}  best {record['best_ms']:9.4f}  "
        f"{record['over_best'] * 100 - 100:+6.1f} %  {record['tried']:4d} tried, "
        f"{record['failed']:3d} failed, {record['gpu_seconds']:5.1f} s  "
        f"{record.get('verdict', '')}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimize.mistuned")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    parser.add_argument("--kernels", type=lambda text: text.split(","), help="only these, by name")
    parser.add_argument("--device")
    parser.add_argument("--seconds", type=float, default=42.0, help="for tune, each kernel")
    parser.add_argument("--reference-seconds", type=float, default=60.0)
    parser.add_argument("--limit", type=float, default=1e9, help="begin no kernel after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="have the judge check what was found")
    parser.add_argument(
        "--small", action="store_true", help="tiny problems: only shows that it runs (CPU)"
    )
    parser.add_argument("--trust", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
