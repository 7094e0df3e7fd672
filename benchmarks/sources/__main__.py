"""Ingest the whole curated list, killed once in the middle: `python -m benchmarks.sources`.

In folders of its own: the corpus, then the list until it is killed, then the list to its end, then
the unchanged list without a network. Downloads what the cache does not hold; takes a while. Writes
`results/sources.json` and `.md`.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.results import machine, publish, table
from ingest.sources.curated import curated as curated_sources

KB = Path(sys.executable).with_name("kb")
TARGET_MB = 2_000
# The stage in which the first run is killed, and for how long it is left in it.
KILLED_IN = ("embedding", 2)
KILLED_AFTER_S = 20.0
_STAGES = ("reading", "embedding", "publishing")


class Run:
    """One `kb` command, its lines with the time at which each came, and its memory."""

    def __init__(self, place: Path, arguments: list[str], **environment: str) -> None:
        env = {**os.environ, "KB_INDEX": str(place / "index"), **environment}
        env["XDG_CACHE_HOME"] = str(place / "cache")
        self.lines: list[tuple[float, str]] = []
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [KB, *arguments], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def until(self, stage: str, number: int, seconds: float) -> None:
        """Read lines until the number-th of a stage, let it work on, and kill it."""
        for line in self._read():
            number -= line.startswith(stage)
            if not number:
                time.sleep(seconds)
                self.process.send_signal(signal.SIGKILL)
                return
        raise SystemExit(f"the first run ended before it could be killed:\n{self.text}")

    def end(self) -> "Run":
        """Read to the end."""
        for _ in self._read():
            pass
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.started
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.peak_mb = usage.ru_maxrss / 1024
        return self

    def _read(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic() - self.started, line.rstrip()))
            yield line

    @property
    def text(self) -> str:
        """All it printed."""
        return "\n".join(line for _, line in self.lines)

    def stages(self) -> dict[str, dict[str, float]]:
        """Source → stage → seconds, from the lines that say what begins."""
        found: dict[str, dict[str, float]] = {}
        source = stage = ""
        since = 0.0
        for at, line in [*self.lines, (self.seconds, "end")]:
            word = line.split(" ")[0]
            if word in {"fetching", *_STAGES, "end", "source"}:
                if source and stage:
                    times = found.setdefault(source, {})
                    times[stage] = times.get(stage, 0.0) + at - since
                stage, since = word, at
            if word == "fetching":
                source = line.removeprefix("fetching ").partition(" (")[0]
            if word in {"end", "source"}:
                source = ""
        return found


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder to work in")
    place = parser.parse_args().work
    place.mkdir(parents=True, exist_ok=True)
    where = machine()
    Run(place, ["ingest"]).end()
    curated = ["ingest", "--curated", "--yes"]
    first = Run(place, curated)
    first.until(*KILLED_IN, KILLED_AFTER_S)
    first.end()
    kept = _cached(place)
    whole = Run(place, curated).end()
    again = Run(place, curated, PIP_INDEX_URL="http://127.0.0.1:9", PIP_EXTRA_INDEX_URL="").end()
    sources = json.loads(Run(place, ["sources", "--json"]).end().text)
    names = {each.name for each in curated_sources()}
    failed = [line for _, line in whole.lines if line.partition(": ")[0] in names]
    if whole.process.returncode and not failed:
        raise SystemExit(f"the second run failed:\n{whole.text}")
    stages = whole.stages()
    rows = [
        [each["name"], each["version"] or "", each["licence"] or ""]
        + [f"{each[key]:,}" for key in ("files", "chunks")]
        for each in sources
    ]
    took = [
        [name, *(f"{times.get(stage, 0):.0f}" for stage in ("fetching", *_STAGES))]
        for name, times in stages.items()
    ]
    embedded = _cached(place) - kept
    seconds = sum(times.get("embedding", 0.0) for times in stages.values())
    peak = max(run.peak_mb for run in (first, whole, again))
    text = "\n\n".join(
        (
            f"{sum(each['chunks'] for each in sources):,} chunks. The first run was killed while "
            f"it embedded its second source; {kept:,} vectors were kept, and the second run "
            f"computed the other {embedded:,}, at {embedded / max(seconds, 1e-9):.0f} a second "
            f"({embedded / whole.cpu_s:.0f} a second of processor time over all stages). Highest "
            f"memory of any run: {peak:,.0f} MB (target: {TARGET_MB:,}).",
            f"The unchanged list, without a network: {again.seconds:.0f} s, " + _done_again(again),
            table(["source", "version", "licence", "files", "chunks"], rows),
            "Seconds of the second run, by stage:",
            table(["source", "fetching", *_STAGES], took),
            "Could not be taken here:\n\n" + ("\n".join(f"- {line}" for line in failed) or "none"),
        )
    )
    record = {
        "machine": where,
        "sources": sources,
        "stages": stages,
        "kept": kept,
        "embedded": embedded,
        "peak_mb": peak,
        "seconds": {"whole": whole.seconds, "again": again.seconds},
    }
    for source in sources:
        source.pop("location", None)
    command = "python -m benchmarks.sources --work DIR"
    publish(Path(__file__).parent / "results" / "sources", command, text, record)


def _done_again(run: Run) -> str:
    """What a run over an unchanged list did that it need not do."""
    done = [word for word in ("embedding", "publishing") if f"\n{word}" in run.text]
    return f"AGAIN {' AND '.join(done).upper()}." if done else "nothing embedded or published."


def _cached(place: Path) -> int:
    with sqlite3.connect(place / "index" / "embeddings.sqlite") as connection:
        return int(connection.execute("SELECT count(*) FROM embedding").fetchone()[0])


if __name__ == "__main__":
    main()
