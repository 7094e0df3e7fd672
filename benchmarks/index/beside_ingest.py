"""Searches beside a running ingest: `python -m benchmarks.index.beside_ingest`.

One process ingests a folder in a loop, changing some of its files before each publication; another
searches on several threads through one `IndexHandle`. Every chunk carries a stamp that follows from
its file and the generation that holds it, so an answer mixed from two generations is seen.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.embedder.report import table
from benchmarks.index.report import Figure, machine, write
from ingest.pipeline import Request, ingest
from kb.embedders import Embedder
from kb.embedders.onnx import OnnxEmbedder
from kb.index.layout import IndexLayout, generation_number
from kb.index.reader import IndexHandle
from kb.search.engine import Searcher
from kb.search.models import Filters, SearchResponse

PUBLICATIONS = 50
SECONDS = 60.0
FILES = 48
THREADS = 3
# Every generation changes one file in this many (an edited copy of Chroma's files) …
PARTS = 4
# … and every so many generations all files (Chroma's files are built afresh).
ALL_EVERY = 10
SAMPLE_SECONDS = 0.5
# Fewer answers than this checked would prove little.
RESULTS_CHECKED = 10_000
# Between two searches of a thread, so that the writer has a processor too.
PAUSE_SECONDS = 0.002
# Memory may wander by what allocators keep; a leak of one generation a publication is far more.
MEMORY_GROWTH = 1.05
STAMP = re.compile(r"stamp (\d+) of file (\d+)")


def is_written(file: int, generation: int) -> bool:
    """Whether a file changes before that generation is published."""
    return generation == 1 or generation % ALL_EVERY == 0 or generation % PARTS == file % PARTS


def stamp_of(file: int, generation: int) -> int:
    """The stamp that a file carries in a generation: the last one that it changed for."""
    return next(each for each in range(generation, 0, -1) if is_written(file, each))


def source_text(file: int, generation: int) -> str:
    """A file of one function, which carries its stamp."""
    return f'''def tiled_matmul_{file}(a, b, block_{file}):
    """Multiply a by b in tiles of block_{file}; stamp {generation} of file {file}."""
    rows = len(a) // block_{file}
    for row in range(rows):
        tile = load_tile(a, row * block_{file}, block_{file})
        store_tile(b, row, tile * {file})
    return b
'''


def write_loop(folder: Path, index: Path, publications: int, seconds: float) -> dict[str, object]:
    """Publish generations until both bounds are reached."""
    embedder, start, generation = OnnxEmbedder(), time.monotonic(), 0
    while generation < publications or time.monotonic() - start < seconds:
        generation += 1
        for file in range(FILES):
            if is_written(file, generation):
                (folder / f"tiles_{file}.py").write_text(source_text(file, generation))
        report = ingest([Request(folder)], index, embedder)
        if generation_number(report.generation or "g0-") != generation:
            raise SystemExit(f"publication {generation} gave generation {report.generation}")
    return {
        "publications": generation,
        "seconds": time.monotonic() - start,
        "generations_on_disk": len(IndexLayout(index).names()),
    }


@dataclass
class Observed:
    """What the reading process saw."""

    searches: int = 0
    results: int = 0
    abstained: int = 0
    errors: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    generations: set[str] = field(default_factory=set)
    open_files: list[int] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    mapped_generations: list[int] = field(default_factory=list)

    def sample(self) -> None:
        """Record the open files, resident memory and mapped generations of this process."""
        maps = Path("/proc/self/maps").read_text()
        self.open_files.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.mapped_generations.append(len(set(re.findall(r"/generations/(g\d+)", maps))))


def check(answer: SearchResponse, seen: Observed) -> None:
    """Note an answer whose chunks are not all of the generation that it names."""
    generation = generation_number(answer.index.generation)
    seen.searches += 1
    seen.results += len(answer.results)
    seen.abstained += answer.abstained
    seen.generations.add(answer.index.generation)
    for result in answer.results:
        stamps = {(int(stamp), int(file)) for stamp, file in STAMP.findall(result.text)}
        if not stamps or any(stamp != stamp_of(file, generation) for stamp, file in stamps):
            seen.mixed.append(f"{answer.index.generation}: {result.path} has {sorted(stamps)}")


def search_loop(
    handle: IndexHandle,
    embedder: Embedder,
    seen: Observed,
    end: threading.Event,
    lock: threading.Lock,
) -> None:
    """Search until told to end."""
    turn = 0
    while not end.is_set():
        turn += 1
        query = f"tiled_matmul_{turn % FILES} loads a tile of block_{turn % FILES}"
        filters = Filters(languages=["python"]) if turn % 2 else Filters()
        try:
            answer = Searcher(handle.get(), embedder).search(query, 10, filters)
        except Exception as error:  # every kind counts
            with lock:
                seen.errors.append(f"{type(error).__name__}: {error}")
        else:
            with lock:
                check(answer, seen)
        time.sleep(PAUSE_SECONDS)


def read_loop(index: Path, stop: Path) -> dict[str, object]:
    """Search on `THREADS` threads through one handle until the file `stop` exists."""
    handle, embedder, seen = IndexHandle(index), OnnxEmbedder(), Observed()
    end, lock = threading.Event(), threading.Lock()
    threads = [
        threading.Thread(target=search_loop, args=(handle, embedder, seen, end, lock))
        for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    while not stop.exists():
        time.sleep(SAMPLE_SECONDS)
        seen.sample()
    end.set()
    for thread in threads:
        thread.join()
    record = asdict(seen)
    return {
        **record,
        "generations": len(seen.generations),
        "errors": seen.errors[:20],
        "error_count": len(seen.errors),
        "mixed": seen.mixed[:20],
        "mixed_count": len(seen.mixed),
    }


def quarters(values: list[float]) -> tuple[float, float]:
    """The highest value of the second quarter and of the last: the first is warming up."""
    size = len(values) // 4
    return max(values[size : 2 * size]), max(values[-size:])


def measure(publications: int, seconds: float) -> tuple[dict[str, object], dict[str, object]]:
    """Run the writer and the reader beside each other; what each reports."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, index = Path(scratch) / "tiles", Path(scratch) / "index"
        stop = Path(scratch) / "stop"
        folder.mkdir()
        me = [sys.executable, "-m", "benchmarks.index.beside_ingest"]
        bounds = [f"--publications={publications}", f"--seconds={seconds}"]
        writer = subprocess.Popen(
            [*me, "--write", str(folder), str(index), *bounds], stdout=subprocess.PIPE, text=True
        )
        while IndexLayout(index).current() is None and writer.poll() is None:
            time.sleep(0.05)
        reader = subprocess.Popen(
            [*me, "--read", str(index), str(stop)], stdout=subprocess.PIPE, text=True
        )
        written = writer.communicate()[0]
        stop.touch()
        observed = reader.communicate()[0]
        if writer.returncode or reader.returncode:
            raise SystemExit(f"writer ended with {writer.returncode}, reader {reader.returncode}")
    return json.loads(written), json.loads(observed)


def report(written: dict, seen: dict, where: dict) -> None:
    """Write the figures."""
    files, memory = quarters(seen["open_files"]), quarters(seen["memory_mb"])
    mapped = quarters(seen["mapped_generations"])
    figures = [
        Figure("publications beside the searches", written["publications"], PUBLICATIONS, True, ""),
        Figure("results checked", seen["results"], RESULTS_CHECKED, True, ""),
        Figure("errors of searches", seen["error_count"], 0, False, "errors"),
        Figure("results of another generation", seen["mixed_count"], 0, False, "results"),
        Figure("growth of open files", files[1] - files[0], 0, False, "files"),
        Figure("growth of memory", memory[1] / memory[0], MEMORY_GROWTH, False),
    ]
    rows = [
        ["open files", str(files[0]), str(files[1])],
        ["resident memory, MB", f"{memory[0]:.0f}", f"{memory[1]:.0f}"],
        ["generations mapped at once", str(mapped[0]), str(mapped[1])],
    ]
    head = ["of the reading process", "second quarter of the run, highest", "last quarter, highest"]
    text = (
        f"{written['publications']} publications in {written['seconds']:.0f} s, "
        f"{written['generations_on_disk']} generations left on disk; {seen['searches']} searches "
        f"on {THREADS} threads saw {seen['generations']} generations, {seen['results']} results "
        f"checked, {seen['abstained']} answers abstained.\n\n" + table(head, rows)
    )
    write("beside_ingest", where, figures, text, {"writer": written, "reader": seen})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--publications", type=int, default=PUBLICATIONS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--write", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write:
        print(json.dumps(write_loop(*chosen.write, chosen.publications, chosen.seconds)))
    elif chosen.read:
        print(json.dumps(read_loop(*chosen.read)))
    else:
        where = machine()
        report(*measure(chosen.publications, chosen.seconds), where)


if __name__ == "__main__":
    main()
