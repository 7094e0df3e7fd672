"""Finds a package's `__global__` functions: ``python -m benchmarks.chunking.extents``.

Compares the chunker's functions, byte for byte, with those of an independent scanner (`truth`), and
checks that each comes out as pieces that hold it whole. Writes `results/extents-PACKAGE.json` and
`.md`.

Blanking what a C++ grammar cannot read decides: on the same sources as they stand (FlashInfer,
2026-11-21) tree-sitter-cpp had 12 % of the extents and tree-sitter-cuda 81 %.
"""

import argparse
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import tree_sitter_cpp
from tree_sitter import Language, Parser

from benchmarks.chunking.package import fetch_wheel, read_sources
from benchmarks.chunking.truth import Extent, kernel_extents
from benchmarks.results import save
from ingest.chunkers import Piece, chunk_file
from ingest.chunkers.cpp import Definition, definitions

RESULTS = Path(__file__).parent / "results"
MAX_MISSES = 50  # listed by name; all are counted


@dataclass(slots=True)
class Score:
    """What the chunker found."""

    kernels: int = 0
    found: int = 0
    exact: int = 0
    """Both ends at the very byte."""
    named: int = 0
    """Exact and under the right name."""
    misses: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, path: PurePosixPath, source: bytes, truth: list[Extent]) -> None:
        """Count one file."""
        kernels = [definition for definition in definitions(source) if definition.is_kernel]
        for extent in truth:
            self.kernels += 1
            over = [d for d in kernels if d.start < extent.end and d.end > extent.start]
            self.found += bool(over)
            exact = [d for d in over if (d.start, d.end) == (extent.start, extent.end)]
            self.exact += bool(exact)
            self.named += any(d.symbol.rsplit("::", 1)[-1] == extent.name for d in exact)
            if not exact:
                reason = _reason(over, extent)
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
                line = source.count(b"\n", 0, extent.start) + 1
                if len(self.misses) < MAX_MISSES:
                    self.misses.append(f"{path}:{line} {extent.name}: {reason}")


def _reason(over: list[Definition], extent: Extent) -> str:
    if not over:
        return "not found"
    if any(d.end == extent.end for d in over):
        return "starts elsewhere"
    return "ends elsewhere" if any(d.start == extent.start for d in over) else "both ends differ"


def held_whole(pieces: list[Piece], source: bytes, extent: Extent) -> bool:
    """Whether consecutive kernel pieces hold the lines of `extent` and above it only comments."""
    first = source.count(b"\n", 0, extent.start) + 1
    last = source.count(b"\n", 0, extent.end) + 1
    parts = [p for p in pieces if p.end_line >= first and p.start_line <= last]
    if not parts or parts[-1].end_line != last or not all(p.is_kernel for p in parts):
        return False
    above = parts[0].text.split("\n")[: max(0, first - parts[0].start_line)]
    comment = all(line.lstrip().startswith(("//", "/*", "*")) or "*/" in line for line in above)
    return comment and len({p.symbol for p in parts}) == 1


def main() -> None:
    """Run the comparison, print it and write it down."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--package", default="flashinfer-python==0.7.2.post1")
    options = arguments.parse_args()
    score = Score()
    bare = Parser(Language(tree_sitter_cpp.language()))
    files = size = whole = pieces_made = 0
    chunking = parsing = 0.0
    for path, source in read_sources(fetch_wheel(options.package)):
        files, size = files + 1, size + len(source)
        text = source.decode("utf-8", "replace").replace("\r\n", "\n")
        began = time.perf_counter()
        pieces = chunk_file(path, text)
        chunked = time.perf_counter()
        bare.parse(source)
        chunking, parsing = chunking + chunked - began, parsing + time.perf_counter() - chunked
        pieces_made += len(pieces)
        truth = kernel_extents(source)
        whole += sum(held_whole(pieces, source, extent) for extent in truth)
        if truth:
            score.add(path, source, truth)
    print(f"chunked {size / 1e6:.0f} MB at {size / 1e6 / chunking:.1f} MB/s")
    record = {
        "package": options.package,
        "command": f"python -m benchmarks.chunking.extents --package {options.package}",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {n: version(n) for n in ("tree-sitter", "tree-sitter-cpp")},
        "files": files,
        "bytes": size,
        "pieces": pieces_made,
        "whole_in_pieces": whole,
        "speed_over_bare_parse": round(parsing / chunking, 2),
        "score": asdict(score),
    }
    report = _markdown(record, score)
    print(report)
    stem = RESULTS / f"extents-{options.package.partition('==')[0]}"
    save(stem.with_suffix(".json"), record)
    stem.with_suffix(".md").write_text(report, encoding="utf-8")


def _markdown(record: dict[str, Any], score: Score) -> str:
    versions = record["versions"]
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    share = score.exact / max(1, score.kernels)
    lines = [
        f"# `__global__` functions found in {record['package']}",
        "",
        f"{record['files']:,} C++ and CUDA files, {record['bytes']:,} bytes; {record['date']};",
        f"{named}.",
        f"Command: `{record['command']}`.",
        "",
        "| kernels | found | exact extents | share | exact and rightly named |",
        "|---:|---:|---:|---:|---:|",
        f"| {score.kernels} | {score.found} | {score.exact} | {share:.2%} | {score.named} |",
        "",
        f"{record['pieces']:,} pieces; {record['whole_in_pieces']} of {score.kernels}"
        " kernels are held whole by pieces of their own, with the comments above and nothing else.",
        f"Chunking runs at {record['speed_over_bare_parse']} times the speed of parsing the same"
        " unblanked files with tree-sitter-cpp and doing nothing with the tree (one run).",
        "",
        "Misses, by reason:",
        "",
        *([f"- {reason}: {n}" for reason, n in score.reasons.items()] or ["- none"]),
        *(f"  - `{miss}`" for miss in score.misses),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
