"""`kb query` as a fresh process: `python -m benchmarks.index.query_process`.

Wall time against `python -c "import chromadb"`, in turns, and peak memory: on the shipped corpus
and on an index of `CHUNKS` chunks.
"""

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.index.material import sized_index
from benchmarks.results import Figure, machine, publish, table
from benchmarks.timing import interleaved
from ingest.pipeline import Request, ingest
from kb.corpus.loader import shipped_corpus
from kb.embedders.onnx import OnnxEmbedder

RESULTS = Path(__file__).with_name("results")
CHUNKS = 20_000
REPEATS = 11
QUESTION = "my matmul rereads the same tiles from DRAM and L2 hit rate is 30%"
TIME_TARGET = 3.0
MEMORY_TARGET_MB = 400.0
# A process counts the memory of the one it was forked from until it runs its own program, so a
# process of a few megabytes starts it and reports its peak.
LAUNCHER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(command: list[str]) -> str:
    """Run a command to its end and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def peak_mb(command: list[str]) -> float:
    """Largest resident set of a command, mapped files included, in MB."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command], check=True, capture_output=True, text=True
    )
    return int(done.stderr.splitlines()[-1]) * 1024 / 1e6


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    where = machine()
    kb = str(Path(sys.executable).with_name("kb"))
    with tempfile.TemporaryDirectory() as scratch:
        small = Path(scratch) / "index"
        ingest([Request(shipped_corpus())], small, OnnxEmbedder())
        commands = {
            f"kb query, {label}": [kb, "--index", str(index), "query", QUESTION]
            for label, index in (
                ("shipped corpus", small), (f"{CHUNKS:,} chunks", sized_index(CHUNKS)),
            )
        }  # fmt: skip
        for name, command in commands.items():
            if "pid-swizzling" not in run(command):
                raise SystemExit(f"{name}: the answer does not name pid-swizzling")
        chroma = "import chromadb"
        commands[chroma] = [sys.executable, "-c", chroma]
        runs = {name: partial(run, command) for name, command in commands.items()}
        seconds = interleaved(runs, REPEATS)
        peaks = {name: peak_mb(command) for name, command in commands.items()}
    middle = {name: median(values) for name, values in seconds.items()}
    figures: list[Figure] = []
    for name in commands:
        if name != chroma:
            ratio = middle[name] / middle[chroma]
            figures += [
                Figure(f"wall time of {name} ÷ {chroma}", ratio, TIME_TARGET, False),
                Figure(f"peak memory of {name}", peaks[name], MEMORY_TARGET_MB, False, "MB"),
            ]
    rows = [
        [
            name, f"{middle[name] / middle[chroma]:.2f}",
            f"{min(seconds[name]) / min(seconds[chroma]):.2f}",
            f"{middle[name] * 1e3:.0f}", f"{peaks[name]:.0f}",
        ]
        for name in commands
    ]  # fmt: skip
    head = ["process", "wall time (medians)", "(fastest)", "ms, median", "peak memory, MB"]
    text = f"{REPEATS} runs of each in turns, after one to warm the disk cache.\n\n"
    record = {"machine": where, "seconds": seconds, "peak_mb": peaks}
    asked = "python -m benchmarks.index.query_process"
    publish(RESULTS / "query_process", asked, text + table(head, rows), record, figures)


if __name__ == "__main__":
    main()
