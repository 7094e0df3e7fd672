"""The sample that precision is measured on, and what was said of it by hand.

For each technique, the chunks tagged with it stand in an order that a hash of place and technique
gives; the first `EACH` are the sample. So a technique that is added changes the sample of no other,
and a pattern that is changed asks for verdicts on those chunks only that it brings in.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from benchmarks.tagging.material import Place, chunks
from ingest.roles import role_of
from ingest.tagging import techniques_of
from kb.corpus.detection import Detector
from kb.vocabulary import load_yaml

EACH = 8
VERDICTS = Path(__file__).with_name("precision.yaml")
LABELS = Path(__file__).with_name("recall.yaml")

Half = Literal["development", "test"]


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


def tags(detector: Detector) -> dict[Place, tuple[str, ...]]:
    """The techniques of every chunk of the curated packages."""
    return {
        place: techniques_of(piece.text, piece.language, role_of(piece), detector)
        for place, piece in chunks().items()
    }


def sample(tagged: Mapping[Place, tuple[str, ...]], each: int = EACH) -> dict[str, list[Tag]]:
    """By technique, the first `each` of the chunks tagged with it."""
    found: dict[str, list[Tag]] = {}
    for place, techniques in tagged.items():
        for technique in techniques:
            found.setdefault(technique, []).append(Tag(place, technique))
    return {
        technique: sorted(mine, key=lambda tag: tag.key)[:each]
        for technique, mine in sorted(found.items())
    }


def _records(path: Path, key: str) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    records: list[dict[str, Any]] = load_yaml(path.read_text(encoding="utf-8"))[key]
    return records


def _place(record: Mapping[str, Any]) -> Place:
    return Place(*(record[name] for name in ("package", "path", "symbol", "lines", "digest")))


@cache
def verdicts() -> dict[Tag, bool]:
    """What was said of each tag that was looked at: whether the chunk shows the technique."""
    return {
        Tag(_place(record), record["technique"]): record["verdict"] == "right"
        for record in _records(VERDICTS, "tags")
    }


@cache
def labels() -> dict[Place, frozenset[str]]:
    """The techniques that the hundred chunks show, as labelled before any was tagged."""
    return {
        _place(record): frozenset(record["techniques"]) for record in _records(LABELS, "chunks")
    }
