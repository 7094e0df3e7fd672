"""Every figure of the index: `python -m benchmarks.index [NAME ...]`.

Runs each measurement in a process of its own, one after another, then prints one table of targets.
Exits with 1 if a target is missed or a measurement fails.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.results import Figure, figure_table, load

MEASUREMENTS = ("query_process", "filtered", "ingest")
RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Run the measurements named, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*MEASUREMENTS, []], help="by default all")
    chosen = parser.parse_args().name or MEASUREMENTS
    figures: list[Figure] = []
    failed: list[str] = []
    for name in chosen:
        done = subprocess.run([sys.executable, "-m", f"benchmarks.index.{name}"], check=False)
        if done.returncode:
            failed.append(name)
            continue
        for row in load(RESULTS / f"{name}.json")["figures"]:
            row.pop("met")
            figures.append(Figure(**row))
    print(figure_table(figures))
    for name in failed:
        print(f"{name} failed")
    return 0 if not failed and all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
