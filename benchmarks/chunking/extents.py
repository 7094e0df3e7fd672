"""Finds a package's `__global__` functions: ``python -m benchmarks.chunking.extents``.

Compares the chunker's functions, byte for byte, with those of an independent scanner (`truth`), and
checks that each comes out as pieces that hold it whole. Writes `results/extents-PACKAGE.json` and
`.md`.

Blanking code that a C++ grammar cannot read decides: on the same sources unchanged (FlashInfer,
2026-11-21) tree-sitter-cpp had 12 % of the extents and tree-sitter-cuda 81 %.
"""

import argparse
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from benchmarks.chunking.truth import Extent, kernel_extents
from benchmarks.packages import fetched_package
from benchmarks.results import machine, publish, table
from ingest.chunkers import CPP_SUFFIXES, Piece, chunk_file
from ingest.chunkers.cpp import Definition, definitions
from ingest.sources.cache import Cache
from ingest.sources.spec import Package, parse_spec

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
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, path: PurePosixPath, source: bytes, truth: list[Extent]) -> None:
        """Count one file."""
        kernels = [definition for definition in definitions(source) if definition.is_kernel]
        for extent in truth:
            self.kernels += 1
            overlaps = [d for d in kernels if d.start < extent.end and d.end > extent.start]
            self.found += bool(overlaps)
            exact = [d for d in overlaps if (d.start, d.end) == (extent.start, extent.end)]
            self.exact += bool(exact)
            self.named += any(d.symbol.rsplit("::", 1)[-1] == extent.name for d in exact)
            if not exact:
                reason = _reason(overlaps, extent)
                self.reasons[reason] += 1
                line = source.count(b"\n", 0, extent.start) + 1
                if len(self.misses) < MAX_MISSES:
                    self.misses.append(f"{path}:{line} {extent.name}: {reason}")


def _reason(overlaps: list[Definition], extent: Extent) -> str:
    if not overlaps:
        return "not found"
    if any(d.end == extent.end for d in overlaps):
        return "starts elsewhere"
    same_start = any(d.start == extent.start for d in overlaps)
    return "ends elsewhere" if same_start else "both ends differ"


def is_held_whole(pieces: list[Piece], source: bytes, extent: Extent) -> bool:
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
    files = size = intact = piece_count = 0
    host = machine()
    for path, source in _sources(options.package):
        files, size = files + 1, size + len(source)
        text = source.decode("utf-8", "replace").replace("\r\n", "\n")
        pieces = chunk_file(path, text)
        piece_count += len(pieces)
        truth = kernel_extents(source)
        intact += sum(is_held_whole(pieces, source, extent) for extent in truth)
        if truth:
            score.add(path, source, truth)
    record = {
        "machine": host, "package": options.package, "files": files, "bytes": size,
        "pieces": piece_count, "whole_in_pieces": intact, "score": asdict(score),
    }  # fmt: skip
    share = f"{score.exact / max(1, score.kernels):.2%}"
    counts = [str(count) for count in (score.kernels, score.found, score.exact)]
    header = ["kernels", "found", "exact extents", "share", "exact and rightly named"]
    reasons = [f"- {reason}: {n}" for reason, n in score.reasons.items()] or ["- none"]
    page = [
        f"# `__global__` functions found in {options.package}",
        f"{files:,} C++ and CUDA files, {size:,} bytes.",
        table(header, [[*counts, share, str(score.named)]]),
        f"{piece_count:,} pieces; {intact} of {score.kernels} kernels are held whole by pieces of "
        "their own, with the comments above and nothing else.",
        "Misses, by reason:",
        "\n".join([*reasons, *(f"  - `{miss}`" for miss in score.misses)]),
    ]
    stem = RESULTS / f"extents-{options.package.partition('==')[0]}"
    command = f"python -m benchmarks.chunking.extents --package {options.package}"
    publish(stem, command, "\n\n".join(page), record)


def _sources(requirement: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Path and content of each C++ or CUDA file in a published wheel, sorted by path."""
    cache = Cache()
    package = parse_spec(f"pypi:{requirement}")
    assert isinstance(package, Package)
    with zipfile.ZipFile(cache.archive(fetched_package(package, cache))) as archive:
        for name in sorted(archive.namelist()):
            path = PurePosixPath(name)
            if path.suffix.lower() in CPP_SUFFIXES:
                yield path, archive.read(name)


if __name__ == "__main__":
    main()
