"""The chunks that tags are measured on: those of the curated packages, in their pinned versions.

A chunk is stored by where it stands and a hash of its text, never by its text.
"""

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from benchmarks.packages import read_files
from ingest.chunkers import Piece, chunk_file
from ingest.prepare import Options, prepare
from ingest.sources.curated import curated
from ingest.sources.spec import Package
from ingest.sources.tree import unpacked

# Lines of code from which a chunk can show a technique; below are accessors and declarations.
LEAST_LINES = 15
_DEVICE = re.compile(
    r"@(?:triton|gluon)\.jit|@cute\.(?:jit|kernel)|__global__|__device__"
    r"|\b(?:CUTLASS|CUTE|SGL|FLASHINFER|XQA)_\w*(?:DEVICE|INLINE)\w*"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands, so that it is found again without its text."""

    package: str
    """`NAME==VERSION`."""
    path: str
    symbol: str | None
    lines: str
    """`first-last`."""
    digest: str
    """Of the chunk's text: blake2b, 8 bytes, in hexadecimal."""


def digest_of(text: str) -> str:
    """The digest that a `Place` has."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@cache
def chunks() -> dict[Place, Piece]:
    """Every chunk of the curated packages, in the list's order; what is not cached is fetched."""
    return dict(_read())


def _read() -> Iterator[tuple[Place, Piece]]:
    for entry in curated():
        if not isinstance(entry.spec, Package):
            continue
        request = prepare(entry.spec, Options(confirm=lambda _what, _size: True))
        assert request.origin is not None  # published sources have one
        fetched = request.origin.fetched
        package = f"{entry.spec.name}=={fetched.version}"
        with unpacked(fetched, request.origin.cache) as root:
            for path, text in read_files(root, request.include, request.exclude):
                for piece in chunk_file(PurePosixPath(path), text):
                    if not piece.is_trivial:
                        lines = f"{piece.start_line}-{piece.end_line}"
                        digest = digest_of(piece.text)
                        yield Place(package, path, piece.symbol, lines, digest), piece


def is_kernel_looking(piece: Piece) -> bool:
    """Whether a chunk is device code of some length, whatever it is tagged with."""
    lines = sum(bool(line.strip()) for line in piece.text.splitlines())
    return piece.symbol is not None and lines >= LEAST_LINES and bool(_DEVICE.search(piece.text))


def draw(count: int, seed: int) -> list[Place]:
    """Kernel-looking chunks drawn at random, the same for the same chunks and seed."""
    pool = [place for place, piece in chunks().items() if is_kernel_looking(piece)]
    return random.Random(seed).sample(pool, count)
