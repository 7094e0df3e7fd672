"""What an ingest did, per source: the figures of its summary table."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest.discovery import Skipped
from kb.records import Source


@dataclass(slots=True)
class SourceReport:
    """Counts for one source."""

    name: str
    location: str
    version: str | None = None
    """Of a published source: the package's version or the commit id."""
    licence: str | None = None
    files: int = 0
    chunks: int = 0
    unchanged_files: int = 0
    """Files whose chunks were taken over from the current generation."""
    removed_files: int = 0
    """Files that were in the index and are gone from the source."""
    folded: int = 0
    """Chunks whose code equals another's but for comments and spacing; shown once in results."""
    skipped: list[Skipped] = field(default_factory=list)

    def compare(self, files: Iterable[tuple[str, str]], former: Source | None) -> None:
        """Count files, (path, digest), compared with those that the source had before."""
        current, previous = dict(files), dict(former.files if former else ())
        self.files = len(current)
        self.unchanged_files = sum(previous.get(path) == digest for path, digest in current.items())
        self.removed_files = len(previous.keys() - current.keys())


@dataclass(slots=True)
class IngestReport:
    """Counts for one run of the pipeline."""

    sources: list[SourceReport]
    embedded: int = 0
    """Distinct texts that the embedder had to compute."""
    reused: int = 0
    """Chunks whose vector was known before."""
    chunks: int = 0
    """Chunks in the index after the run, all sources together."""
    generation: str | None = None
    published: bool = False
    dry_run: bool = False
