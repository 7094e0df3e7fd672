"""The chunks that tags are measured on, the sample of them, and the verdicts given by hand.

The chunks are those of the curated packages, in their pinned versions. A chunk is stored as its
location and a hash of its text, never as its text. For each technique, the chunks tagged with it
are in the order of a hash of place and technique; the first `EACH` are the sample. So a
technique that is added changes the sample of no other, and a pattern that is changed asks for
verdicts on those chunks only that it brings in.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from benchmarks.packages import read_files
from ingest.chunkers import Piece, chunk_file
from ingest.prepare import Options, prepare
from ingest.roles import role_of
from ingest.sources.curated import curated
from ingest.sources.spec import Package
from ingest.sources.tree import unpack
from ingest.tagging import techniques_of
from kb.corpus.detection import Detector
from kb.vocabulary import load_yaml

EACH = 8
VERDICTS = Path(__file__).with_name("precision.yaml")
LABELS = Path(__file__).with_name("recall.yaml")

Half = Literal["development", "test"]


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a chunk, so that it is found again without its text."""

    package: str
    """`NAME==VERSION`."""
    path: str
    symbol: str | None
    lines: str
    """`first-last`."""
    digest: str
    """Of the chunk's text: blake2b, 8 bytes, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One technique that one chunk is tagged with."""

    place: Place
    technique: str

    @property
    def key(self) -> bytes:
        """Its place in the order of its technique."""
        facts = (self.place.package, self.place.path, self.place.lines, self.place.digest)
        return hashlib.sha256("\0".join((*facts, self.technique)).encode()).digest()

    @property
    def half(self) -> Half:
        """Patterns are changed by what the development half shows; the test half is scored."""
        return "test" if self.key[-1] % 2 else "development"


def _chunks() -> Iterator[tuple[Place, Piece]]:
    """Every chunk of the curated packages, in the list's order; what is not cached is fetched."""
    for package_entry in curated():
        if not isinstance(package_entry.spec, Package):
            continue
        request = prepare(package_entry.spec, Options(confirm=lambda _what, _size: True))
        assert request.origin is not None  # published sources have one
        fetched = request.origin.fetched
        package = f"{package_entry.spec.name}=={fetched.version}"
        with unpack(fetched, request.origin.cache) as root:
            for path, text in read_files(root, request.include, request.exclude):
                for piece in chunk_file(PurePosixPath(path), text):
                    if not piece.is_trivial:
                        lines = f"{piece.start_line}-{piece.end_line}"
                        content = piece.text.encode("utf-8", "surrogatepass")
                        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
                        yield Place(package, path, piece.symbol, lines, digest), piece


def tags(detector: Detector) -> dict[Place, tuple[str, ...]]:
    """The techniques of every chunk of the curated packages."""
    return {
        place: techniques_of(piece.text, piece.language, role_of(piece), detector)
        for place, piece in _chunks()
    }


def sample(tagged: Mapping[Place, tuple[str, ...]]) -> dict[str, list[Tag]]:
    """By technique, the first `EACH` of the chunks tagged with it."""
    by_technique: dict[str, list[Tag]] = {}
    for place, techniques in tagged.items():
        for technique in techniques:
            by_technique.setdefault(technique, []).append(Tag(place, technique))
    return {
        technique: sorted(members, key=lambda tag: tag.key)[:EACH]
        for technique, members in sorted(by_technique.items())
    }


def _records(path: Path, key: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    for record in load_yaml(path.read_text(encoding="utf-8"))[key]:
        yield Place(*(record[name] for name in Place.__match_args__)), record


@cache
def verdicts() -> dict[Tag, bool]:
    """The verdict on each tag that was read: whether the chunk shows the technique."""
    return {
        Tag(place, record["technique"]): record["verdict"] == "right"
        for place, record in _records(VERDICTS, "tags")
    }


@cache
def labels() -> dict[Place, frozenset[str]]:
    """The techniques that the hundred chunks show, as labelled before any was tagged."""
    return {place: frozenset(record["techniques"]) for place, record in _records(LABELS, "chunks")}
