"""A benchmark without a GPU, run as a script: its tasks say in their names what happens to them."""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

from benchmarks import sharing, tasks


def measure(key, options, common):
    if key.startswith("dies"):
        os._exit(7)
    if key.startswith("hangs"):
        Path(options.out.parent, f"{key}.began").write_text(str(os.getpid()))
        time.sleep(120)
    time.sleep(0.05)
    return {
        "name": key, "common": common, "card": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "cores": sorted(os.sched_getaffinity(0)), "pid": os.getpid(),
    }  # fmt: skip


def parse(arguments):
    made = argparse.ArgumentParser()
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--tasks", type=lambda text: text.split(","), required=True)
    made.add_argument("--limit", type=float)
    made.add_argument("--device")
    sharing.add_options(made)
    return made.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    module="counting",
    options=parse,
    keys=lambda options: options.tasks,
    opened=lambda options: contextlib.nullcontext("opened"),
    measure=measure,
    columns=("card",),
    cells=lambda record: [record["card"] or ""],
    summary=lambda found: {"count": len(found)},
    settings=(),
)

if __name__ == "__main__":
    sys.exit(sharing.main(BENCHMARK))
