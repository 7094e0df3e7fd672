"""How repeatable the judge's times are, and what it measures: one command, raw results as JSON.

    python -m benchmarks.judge.precision --out FILE

*ceilings*: bandwidths and rates, the copy against copies timed by hand. *repeatability*: the same
kernels judged in two runs of fresh processes; medians may differ by 5 % below 10 µs, 3 % to 200 µs,
1 % above. Needs a GPU. Everything is written after every step; exits with 1 if a bound is broken.
"""

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.judge.suite import judge_texts
from benchmarks.results import save
from judge.evaluate.ceilings import COPY_BYTES
from judge.evaluate.ceilings import measure as measure_ceilings
from judge.evaluate.clocks import card_id
from judge.evaluate.gpulock import locked
from judge.evaluate.host import describe_host
from judge.evaluate.options import EAGER, Options
from judge.evaluate.statistics import repeatability

COPY_TOLERANCE = 0.02
_RUNS = 2

# Rows of 4096 float32: some 4 µs, 20 µs, 100 µs and 1 ms on an H200.
ROWS = (128, 2048, 12288, 131072)
_SCALE = """
import torch
from torch import nn

ROWS = {rows}

class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1

def get_inputs():
    return [torch.randn(ROWS, 4096)]

def get_init_inputs():
    return []
"""
_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def _scale(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, x * 2 + 1, mask=offsets < count)

def kernel_function(x):
    out = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
    return out
"""


def main() -> int:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.precision")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    host = describe_host(options.device)
    results: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {"gpu": host.gpu, **host.versions},
    }
    broken: list[str] = []
    _ceilings(options, results, broken)
    _repeatability(options, results, broken)
    for line in broken:
        print(f"BROKEN: {line}")
    return 1 if broken else 0


def _ceilings(options: argparse.Namespace, results: dict[str, Any], broken: list[str]) -> None:
    """Compare the ceilings, measured twice, with copies by hand."""
    with locked(card_id(options.device), say=print):
        start = time.monotonic()
        ceilings = measure_ceilings(options.device)
        seconds = time.monotonic() - start
        repeated = measure_ceilings(options.device)
        by_hand = _copies_by_hand(options.device)
    deviation = abs(ceilings.copy_bps / by_hand - 1)
    print(f"copy ceiling {ceilings.copy_bps / 1e12:.3f} TB/s, by hand {by_hand / 1e12:.3f}")
    if deviation > COPY_TOLERANCE:
        broken.append(f"the copy ceiling is {deviation:.1%} off a copy by hand")
    runs = [ceilings.model_dump(), repeated.model_dump()]
    results["ceilings"] = {"seconds": seconds, "runs": runs, "copy_by_hand_bps": by_hand}
    print(f"ceilings: {ceilings.model_dump_json()}")
    save(options.out, results)


def _copies_by_hand(device: str) -> float:
    """Bytes per second, read and written, of 50 copies in a row between two events."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        target.copy_(source)
    start.record()
    for _ in range(50):
        target.copy_(source)
    end.record()
    end.synchronize()
    del source, target
    torch.cuda.empty_cache()
    return 50 * 2 * COPY_BYTES / (float(start.elapsed_time(end)) * 1e-3)


def _repeatability(options: argparse.Namespace, results: dict[str, Any], broken: list[str]) -> None:
    results["repeatability"] = []
    judge_options = Options(device=options.device, baselines=(EAGER,))
    for rows in ROWS:
        runs = [judge_texts(_SCALE.format(rows=rows), _KERNEL, judge_options) for _ in range(_RUNS)]
        times = [{timing.contender: timing.median_ms for timing in run.timings} for run in runs]
        for name in times[0]:
            medians = [run_times[name] for run_times in times]
            difference, bound = max(medians) / min(medians) - 1, repeatability(min(medians))
            record = {
                "rows": rows, "contender": name, "medians_ms": medians,
                "difference": difference, "bound": bound,
            }  # fmt: skip
            results["repeatability"].append(record)
            print(f"{rows} rows, {name}: {medians} ms, {difference:.2%} apart (bound {bound:.0%})")
            if difference > bound:
                broken.append(f"{name} at {rows} rows: runs {difference:.2%} apart")
        results["repeatability"].append(
            {"rows": rows, "runs": [run.model_dump(mode="json") for run in runs]}
        )
        save(options.out, results)


if __name__ == "__main__":
    sys.exit(main())
