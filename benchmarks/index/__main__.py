"""Every figure of the index: `python -m benchmarks.index [NAME ...]`.

Runs each measurement in a process of its own, one after another, then prints one table of targets.
Exits with 1 if a target is missed or a measurement fails.
"""

import subprocess
import sys

from benchmarks.embedder.report import table
from benchmarks.index.report import read_figures

MEASUREMENTS = ("unchanged", "query_process", "filtered", "latency", "beside_ingest", "ingest")


def main() -> int:
    """Run the measurements named, by default all."""
    chosen = sys.argv[1:] or list(MEASUREMENTS)
    unknown = sorted(set(chosen) - set(MEASUREMENTS))
    if unknown:
        print(f"no measurement {', '.join(unknown)}: choose from {', '.join(MEASUREMENTS)}")
        return 2
    rows: list[list[str]] = []
    complete = True
    for name in chosen:
        done = subprocess.run([sys.executable, "-m", f"benchmarks.index.{name}"], check=False)
        if done.returncode:
            rows.append([name, "", "", "FAILED"])
            complete = False
            continue
        figures = read_figures(name)
        rows += [figure.row() for figure in figures]
        complete = complete and all(figure.met for figure in figures)
    print(table(["figure", "target", "measured", "verdict"], rows))
    return 0 if complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
